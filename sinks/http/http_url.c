/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http/http_url.h"

static const struct scheme {
    struct slice text;
    const char *port;
} schemes[] = {{SLICE_LIT("http://"), "80"}, {SLICE_LIT("https://"), "443"}};

/* NULL: neither http nor https, or nothing behind it. */
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

/* What stands between the scheme and the path. */
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

/* "host" of "host:80" where 80 is what the scheme says anyway. */
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

/* What no URL holds as it is; readers differ in what they make of it. */
static bool is_odd(char c)
{
    return strchr(" \"<>\\^`{|}", c) != NULL;
}

static bool can_be_sent(struct slice url, struct slice authority)
{
    bool fine = host_of(authority).n > 0;
    for (size_t i = 0; i < url.n; i++)
        fine &= (unsigned char)url.p[i] >= 0x20 && url.p[i] != 0x7f;
    for (size_t i = 0; i < authority.n; i++)
        fine &= !is_odd(authority.p[i]);
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
        /* A query goes out as it came, but for what would end the request line. */
        query |= *p == '?';
        if (*p == ' ' || (!query && (is_odd(*p) || (unsigned char)*p > 0x7f)))
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
