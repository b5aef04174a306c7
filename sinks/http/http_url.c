/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http/http_sink.h"
#include "bridge/base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

enum { ADDRESS_BYTES = 16, ADDRESS_BITS = 128, IPV4_AT = 12, IPV4_BITS = 96 };
enum { PORT_MAX = 65535, PORT_HIGH = 1024 };

static const struct scheme {
    struct slice text;
    const char *port;
} schemes[] = {{SLICE_LIT("http://"), "80"}, {SLICE_LIT("https://"), "443"}};

/* Returns NULL if the URL is not http or https, or has nothing after the scheme. */
static const struct scheme *scheme_of(struct slice url)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct slice s = schemes[i].text;
        if (url.n > s.n && strncasecmp(url.p, s.p, s.n) == 0)
            return &schemes[i];
    }
    return NULL;
}

bool http_is_url(struct slice url)
{
    return scheme_of(url) && url.n <= HTTP_URL_MAX && memchr(url.p, 0, url.n) == NULL;
}

/* Returns the text between the scheme and the path. */
static struct slice authority_of(struct slice url)
{
    const struct scheme *scheme = scheme_of(url);
    if (scheme == NULL)
        return (struct slice){0};
    struct slice a = {url.p + scheme->text.n, 0};
    while (a.p + a.n < url.p + url.n && !strchr("/?#", a.p[a.n]))
        a.n++;
    return a;
}

static struct slice host_of(struct slice authority)
{
    const char *at = authority.n ? memrchr(authority.p, '@', authority.n) : NULL;
    if (at == NULL)
        return authority;
    return (struct slice){at + 1, authority.n - (size_t)(at + 1 - authority.p)};
}

int http_url_check_port(struct slice url, struct err *err)
{
    struct slice host = host_of(authority_of(url));
    const char *end = host.p + host.n;
    const char *p = host.n ? memrchr(host.p, ']', host.n) : NULL;
    p = p ? p : host.p;
    const char *colon = host.n ? memchr(p, ':', (size_t)(end - p)) : NULL;
    if (colon == NULL || colon + 1 == end)
        return 0;
    return text_check_port((struct slice){colon + 1, (size_t)(end - colon - 1)}, 1, err);
}

/* Removes the port if it is the scheme's default: "host" for "host:80". */
static struct slice without_port(struct slice host, const char *port)
{
    size_t n = strlen(port);
    if (host.n > n && host.p[host.n - n - 1] == ':' &&
        memcmp(host.p + host.n - n, port, n) == 0)
        host.n -= n + 1;
    return host;
}

bool http_url_same_origin(struct slice a, struct slice b)
{
    const struct scheme *scheme = scheme_of(a);
    if (scheme == NULL || scheme_of(b) != scheme)
        return false;
    struct slice host_a = without_port(host_of(authority_of(a)), scheme->port);
    struct slice host_b = without_port(host_of(authority_of(b)), scheme->port);
    return host_a.p && host_b.p && host_a.n == host_b.n &&
           strncasecmp(host_a.p, host_b.p, host_a.n) == 0;
}

struct slice http_url_origin(struct slice url)
{
    const struct scheme *scheme = scheme_of(url);
    if (scheme == NULL)
        return url;
    struct slice authority = authority_of(url);
    struct slice host = without_port(host_of(authority), scheme->port);
    if (host.p > authority.p)
        return host;
    return (struct slice){url.p, scheme->text.n + host.n};
}

/* Is it a character that must be percent-encoded in a URL? Parsers treat these
 * differently. */
static bool must_be_encoded(char c)
{
    return strchr(" \"<>\\^`{|}", c) != NULL;
}

static bool can_be_sent(struct slice url, struct slice authority)
{
    bool fine = host_of(authority).n > 0;
    for (size_t i = 0; i < url.n; i++)
        fine &= (unsigned char)url.p[i] >= 0x20 && url.p[i] != 0x7f;
    for (size_t i = 0; i < authority.n; i++)
        fine &= !must_be_encoded(authority.p[i]);
    return fine;
}

int http_url_add(struct buf *out, struct slice url)
{
    struct slice authority = authority_of(url);
    if (!can_be_sent(url, authority))
        return -1;
    const char *end = url.p + url.n, *p = authority.p + authority.n;
    bool query = false;
    buf_add(out, url.p, (size_t)(p - url.p));
    for (; p < end && *p != '#'; p++) {
        /* Send a query unchanged, except for bytes that would end the request line. */
        query |= *p == '?';
        if (*p == ' ' || (!query && (must_be_encoded(*p) || (unsigned char)*p > 0x7f)))
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)*p);
        else
            buf_add(out, p, 1);
    }
    return 0;
}

void http_url_add_referer(struct buf *out, struct slice from, struct slice to)
{
    const struct scheme *scheme = scheme_of(from);
    if (scheme == NULL || (scheme == &schemes[1] && scheme_of(to) != scheme))
        return;
    struct slice host = host_of(authority_of(from));
    const char *end = memchr(from.p, '#', from.n);
    buf_add_slice(out, scheme->text);
    if (http_url_same_origin(from, to)) {
        buf_add(out, host.p, (size_t)((end ? end : from.p + from.n) - host.p));
    } else {
        buf_add_slice(out, host);
        buf_add_str(out, "/");
    }
}

/* ------------------------------------------------------- the guard: addresses */

/* An IPv6 address. IPv4 is mapped: ::ffff:a.b.c.d. */
struct address {
    unsigned char b[ADDRESS_BYTES];
};
struct net {
    struct address a;
    unsigned bits;
};
struct nets {
    struct net *v;
    size_t n;
};

struct http_guard {
    const struct http_opts *o;
    struct nets allow, deny, private;
    struct http_range *ports;
};

/* Networks that a message's URL must not reach: RFC 6890 and later registrations. */
static const char *const private_nets[] = {
    "0.0.0.0/8",      /* this network */
    "10.0.0.0/8",     /* private, RFC 1918 */
    "100.64.0.0/10",  /* carrier-grade NAT */
    "127.0.0.0/8",    /* this host */
    "169.254.0.0/16", /* link-local, cloud metadata */
    "168.63.129.16",  /* Azure's metadata, although a public address */
    "172.16.0.0/12",  /* private */
    "192.0.0.0/24",   /* IETF protocols */
    "192.168.0.0/16", /* private */
    "198.18.0.0/15",  /* benchmarks */
    "224.0.0.0/4",    /* multicast */
    "240.0.0.0/4",    /* reserved, broadcast */
    "::/96",          /* unspecified, this host, deprecated IPv4-compatible */
    "64:ff9b:1::/48", /* local translation to IPv4 */
    "100::/64",       /* discard-only */
    "2001::/32",      /* Teredo, contains an obfuscated IPv4 address */
    "5f00::/16",      /* SRv6 segments, RFC 9602 */
    "fc00::/7",       /* private */
    "fe80::/10",      /* link-local */
    "fec0::/10",      /* deprecated site-local */
    "ff00::/8",       /* multicast */
};

/* IPv6 prefixes with an embedded IPv4 address, and its byte offset. */
static const struct carrier {
    unsigned char prefix[IPV4_AT];
    size_t prefix_bytes, at;
} carriers[] = {
    {{0x00, 0x64, 0xff, 0x9b}, 12, 12},                  /* NAT64, 64:ff9b::/96 */
    {{0x20, 0x02}, 2, 2},                                /* 6to4, 2002::/16 */
    {{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0}, 12, 12} /* translated, ::ffff:0:0:0/96 */
};

static const unsigned char mapped[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

static struct address of_ipv4(const void *bytes)
{
    struct address a;
    memcpy(a.b, mapped, IPV4_AT);
    memcpy(a.b + IPV4_AT, bytes, ADDRESS_BYTES - IPV4_AT);
    return a;
}

static int address_read(struct address *a, const char *text)
{
    struct in_addr ipv4;
    if (inet_pton(AF_INET6, text, a->b) == 1)
        return 0;
    if (inet_pton(AF_INET, text, &ipv4) != 1)
        return -1;
    *a = of_ipv4(&ipv4);
    return 0;
}

static bool net_holds(const struct net *net, const struct address *a)
{
    unsigned bytes = net->bits / 8, rest = net->bits % 8;
    if (net->bits < IPV4_BITS && memcmp(a->b, mapped, IPV4_AT) == 0) /* IPv6 only */
        return false;
    return memcmp(net->a.b, a->b, bytes) == 0 &&
           (rest == 0 || (net->a.b[bytes] ^ a->b[bytes]) >> (8 - rest) == 0);
}

static bool has_bits_beyond(const struct net *net)
{
    for (unsigned i = net->bits; i < ADDRESS_BITS; i++) {
        if (net->a.b[i / 8] & (0x80 >> i % 8))
            return true;
    }
    return false;
}

/* Parses "10.0.0.0/8", "fc00::/7", or a single address. */
static int net_read(struct net *net, const char *text)
{
    char address[INET6_ADDRSTRLEN];
    struct http_range bits;
    size_t n = strcspn(text, "/");
    if (n >= sizeof(address))
        return -1;
    memcpy(address, text, n);
    address[n] = '\0';
    unsigned before = strchr(address, ':') ? 0 : IPV4_BITS;
    if (address_read(&net->a, address) < 0)
        return -1;
    net->bits = ADDRESS_BITS;
    if (text[n] == '/') {
        if (http_range_read(&bits, text + n + 1, ADDRESS_BITS - before) < 0 ||
            bits.first != bits.last)
            return -1;
        net->bits = before + bits.first;
    }
    return has_bits_beyond(net) ? -1 : 0;
}

static int nets_read(struct nets *nets, const char *option, const char *const *text,
                     size_t n, struct err *err)
{
    nets->v = mem_alloc(n * sizeof(*nets->v));
    for (; nets->n < n; nets->n++) {
        if (net_read(&nets->v[nets->n], text[nets->n]) < 0)
            return err_set(
                err,
                "%s: \"%.60s\" is not a network: write \"10.0.0.0/8\", \"fc00::/7\" or "
                "one address, with no bits set after the prefix",
                option, text[nets->n]);
    }
    return 0;
}

static bool nets_contain(const struct nets *nets, const struct address *a)
{
    for (size_t i = 0; i < nets->n; i++) {
        if (net_holds(&nets->v[i], a))
            return true;
    }
    return false;
}

/* Was the URL named by an untrusted party? */
static bool is_outside(enum http_url_source from)
{
    return from == HTTP_URL_REDIRECT || from == HTTP_URL_MESSAGE;
}

static bool may_reach(const struct http_guard *g, enum http_url_source from,
                      const struct address *a)
{
    if (nets_contain(&g->allow, a))
        return true;
    return !nets_contain(&g->deny, a) &&
           !(is_outside(from) && nets_contain(&g->private, a));
}

static bool is_allowed(const struct http_guard *g, enum http_url_source from,
                       const struct address *a)
{
    bool fine = may_reach(g, from, a);
    for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]); i++) {
        const struct carrier *c = &carriers[i];
        if (memcmp(a->b, c->prefix, c->prefix_bytes) == 0) {
            struct address inner = of_ipv4(a->b + c->at);
            fine &= may_reach(g, from, &inner);
        }
    }
    return fine;
}

bool http_guard_ip(const struct http_guard *guard, enum http_url_source from,
                   const char *ip)
{
    struct address a;
    return address_read(&a, ip) == 0 && is_allowed(guard, from, &a);
}

bool http_guard_address(const struct http_guard *guard, enum http_url_source from,
                        const struct sockaddr *address)
{
    char ip[INET6_ADDRSTRLEN] = "";
    size_t at = address->sa_family == AF_INET ? offsetof(struct sockaddr_in, sin_addr)
                                              : offsetof(struct sockaddr_in6, sin6_addr);
    inet_ntop(address->sa_family, (const char *)address + at, ip, sizeof(ip));
    return http_guard_ip(guard, from, ip);
}

/* ------------------------------------------------------- the guard: hosts and ports */

static const char *host_error(const char *name)
{
    const char *rest = strncmp(name, "*.", 2) == 0 ? name + 2 : name;
    if (*rest == '\0' || strpbrk(rest, "*/@?# \\"))
        return "is not a host name: write \"hooks.example\" or \"*.example\"";
    if (*rest != '[' && strchr(rest, ':'))
        return "contains a colon: write a port into the option ports, and an IPv6 "
               "address in brackets";
    return NULL;
}

static int hosts_check(const struct opt_list *hosts, struct err *err)
{
    for (size_t i = 0; i < hosts->n; i++) {
        const char *trouble = host_error(hosts->v[i]);
        if (trouble)
            return err_set(err, "allow_hosts: \"%.60s\" %s", hosts->v[i], trouble);
    }
    return 0;
}

static int ports_read(struct http_guard *g, struct err *err)
{
    const struct opt_list *ports = &g->o->ports;
    g->ports = mem_alloc(ports->n * sizeof(*g->ports));
    for (size_t i = 0; i < ports->n; i++) {
        if (http_range_read(&g->ports[i], ports->v[i], PORT_MAX) < 0)
            return err_set(
                err, "ports: \"%.40s\" is not a port: write \"443\" or \"1024-65535\"",
                ports->v[i]);
    }
    return 0;
}

static bool host_is(const char *host, const char *allowed)
{
    size_t n = strlen(host), m = strlen(allowed);
    n -= n > 0 && host[n - 1] == '.'; /* "a.example." is the same name */
    if (strncmp(allowed, "*.", 2) != 0)
        return n == m && strncasecmp(host, allowed, n) == 0;
    return n > m - 1 && strncasecmp(host + n - (m - 1), allowed + 1, m - 1) == 0;
}

static bool host_is_allowed(const struct http_guard *g, const char *host)
{
    for (size_t i = 0; i < g->o->allow_hosts.n; i++) {
        if (host_is(host, g->o->allow_hosts.v[i]))
            return true;
    }
    return false;
}

static bool port_is_allowed(const struct http_guard *g, enum http_url_source from,
                            unsigned long port)
{
    if (g->o->ports.n == 0)
        return !is_outside(from) || port == 80 || port == 443 || port >= PORT_HIGH;
    for (size_t i = 0; i < g->o->ports.n; i++) {
        if (port >= g->ports[i].first && port <= g->ports[i].last)
            return true;
    }
    return false;
}

/* Host and port of a URL, parsed by curl, so that curl and the guard agree. */
struct place {
    char *host, *port; /* free with curl_free(); NULL: malformed URL */
};

static struct place place_of(const char *url)
{
    struct place p = {NULL, NULL};
    CURLU *u = curl_url();
    must(u != NULL);
    if (curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &p.host, 0) == CURLUE_OK)
        curl_url_get(u, CURLUPART_PORT, &p.port, CURLU_DEFAULT_PORT);
    curl_url_cleanup(u);
    return p;
}

static void place_free(struct place *p)
{
    curl_free(p->host);
    curl_free(p->port);
}

const char *http_guard_url(const struct http_guard *guard, enum http_url_source from,
                           const char *url)
{
    const char *why = NULL;
    if (from == HTTP_URL_MESSAGE && !guard->o->url_from_message)
        return "the URL comes from the message, which requires url_from_message = true "
               "in the sink";
    if (from == HTTP_URL_CONFIG)
        return NULL;
    struct place p = place_of(url);
    if (p.host == NULL || p.port == NULL)
        why = "the URL is malformed";
    else if (guard->o->allow_hosts.n > 0 && !host_is_allowed(guard, p.host))
        why = "the URL's host is not in the sink's option allow_hosts";
    else if (!port_is_allowed(guard, from, strtoul(p.port, NULL, 10)))
        why = "the URL's port is not in the sink's option ports";
    place_free(&p);
    return why;
}

bool http_guard_lists_host(const struct http_guard *guard, const char *url)
{
    struct place p = place_of(url);
    bool named = p.host && host_is_allowed(guard, p.host);
    place_free(&p);
    return named;
}

/* ------------------------------------------------------- the guard: its life */

struct http_guard *http_guard_new(const struct http_opts *o, struct err *err)
{
    struct http_guard *g = mem_alloc(sizeof(*g));
    size_t n = sizeof(private_nets) / sizeof(private_nets[0]);
    g->o = o;
    must(nets_read(&g->private, "", private_nets, n, NULL) == 0);
    if (nets_read(&g->allow, "allow", (const char *const *)o->allow.v, o->allow.n, err) ==
            0 &&
        nets_read(&g->deny, "deny", (const char *const *)o->deny.v, o->deny.n, err) ==
            0 &&
        hosts_check(&o->allow_hosts, err) == 0 && ports_read(g, err) == 0)
        return g;
    http_guard_free(g);
    return NULL;
}

void http_guard_free(struct http_guard *guard)
{
    if (guard == NULL)
        return;
    free(guard->allow.v);
    free(guard->deny.v);
    free(guard->private.v);
    free(guard->ports);
    free(guard);
}
