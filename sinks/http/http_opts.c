/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http/http_sink.h"
#include "bridge/base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_MIN = 100 };

#define AT(field) offsetof(struct http_opts, field)
const struct opt http_opt_rows[] = {
    {"url", OPT_STR, AT(url), NULL, "URL for jobs whose route has no target.",
     .optional = true},
    {"method", OPT_CHOICE, AT(method), "POST", "Method of the request.",
     .choices = "POST|PUT"},
    {"timeout", OPT_MS, AT(timeout_ms), "10s",
     "Time limit of a delivery, from its start to the end of the answer, including "
     "redirects.",
     .min = 10, .max = 3600000},
    {"connect_timeout", OPT_MS, AT(connect_timeout_ms), "3s",
     "Time limit for the DNS query, the connection and the TLS handshake.", .min = 10,
     .max = 600000},
    {"accept", OPT_CHOICE, AT(accept), "status",
     "What counts as delivered. \"status\": the options delivered, retry, reject and "
     "stop decide. \"code100\": only a body that is a JSON object whose \"code\" is 100, "
     "with any status; tarry retries after any other answer.",
     .choices = "status|code100"},
    {"delivered", OPT_LIST, AT(codes[HTTP_DELIVERED]), "[ \"2xx\" ]",
     "Statuses that count as delivered: \"204\", \"200-204\", \"2xx\". If two of these "
     "four lists contain a status, the narrower range wins.",
     .min = 0},
    {"retry", OPT_LIST, AT(codes[HTTP_RETRY]), "[ \"408\", \"425\", \"429\", \"5xx\" ]",
     "Statuses after which tarry retries, as it does after a status in none of the "
     "lists.",
     .min = 0},
    {"reject", OPT_LIST, AT(codes[HTTP_REJECT]), "[ \"3xx\", \"4xx\" ]",
     "Statuses that make the job a dead letter at once.", .min = 0},
    {"stop", OPT_LIST, AT(codes[HTTP_STOP]), "[ \"410\" ]",
     "Statuses that stop the target until an operator restarts it; its jobs wait.",
     .min = 0},
    {"retry_after_max", OPT_MS, AT(retry_after_max_ms), "1h",
     "Maximum wait that tarry accepts from the header Retry-After of an answer; 0: "
     "ignore the header.",
     .max = 365LL * 86400 * 1000},
    {"response_max", OPT_BYTES, AT(response_max_bytes), "64KiB",
     "Maximum size of an answer's body. If a body is longer, tarry stops reading it; "
     "accept = \"status\" still uses the status, \"code100\" treats the answer as a "
     "failure.",
     .max = 1 << 30},
    {"redirects", OPT_INT, AT(redirects), "0",
     "Maximum number of redirects per delivery. tarry follows a redirect from a public "
     "address to a private network only if allow contains the network. It sends the "
     "sink's own headers only to the scheme, host and port of the first URL.",
     .max = 50},
    {"userinfo", OPT_BOOL, AT(userinfo), "false",
     "Whether a job's URL may be http://user:password@host/, which tarry sends as Basic "
     "authorization. If false, tarry rejects such a job.",
     .min = 0},
    {"host_connections", OPT_INT, AT(host_connections), "64",
     "Maximum number of connections to one host. Further deliveries wait for a "
     "connection; the wait counts towards their timeout.",
     .min = 1, .max = 10000},
    {"headers", OPT_PAIRS, AT(headers), "",
     "Headers of every request, such as Authorization; they override the job's headers.",
     .min = 0},
    {"user_agent", OPT_STR, AT(user_agent), "tarry",
     "User-Agent for jobs without a header of that name.", .min = 0},
    {"delay_headers", OPT_BOOL, AT(delay_headers), "true",
     "Whether requests contain webhook-id and the delay-* headers, such as delay-id and "
     "delay-attempt.",
     .min = 0},
    {"signing_keys", OPT_LIST, AT(signing_keys), "",
     "Keys of Standard Webhooks, the primary first: \"whsec_...\" signs with "
     "HMAC-SHA256, \"whsk_...\" with ed25519. Each request contains one signature per "
     "key. A request to a URL from a message contains them only if allow_hosts contains "
     "the host.",
     .secret = true},
    {"url_from_message", OPT_BOOL, AT(url_from_message), "false",
     "Whether a message may contain the URL. Such a URL may lead to a private network "
     "only if allow contains the network. tarry uses headers, signing_keys and cert_file "
     "for it only if allow_hosts contains the host.",
     .min = 0},
    {"allow_hosts", OPT_LIST, AT(allow_hosts), "",
     "Hosts that URLs of messages, routes and redirects may contain: \"hooks.example\", "
     "or \"*.example\" for all its subdomains. Empty: any host.",
     .min = 0},
    {"allow", OPT_LIST, AT(allow), "",
     "Networks that tarry may call, regardless of deny and of the ban on private "
     "networks: \"10.20.0.0/16\".",
     .min = 0},
    {"deny", OPT_LIST, AT(deny), "",
     "Networks that tarry never calls, regardless of where the URL comes from. URLs of "
     "messages may not lead to private networks either. tarry checks the address that "
     "DNS returns for the host name.",
     .min = 0},
    {"ports", OPT_LIST, AT(ports), "",
     "Ports that URLs of messages, routes and redirects may contain: \"443\", "
     "\"1024-65535\". Empty: for messages, and redirects from public addresses, 80, 443 "
     "and all from 1024; for others any port.",
     .min = 0},
    {"ca_file", OPT_FILE, AT(ca_file), NULL,
     "PEM file of the CA certificates to trust instead of the system's.",
     .optional = true},
    {"cert_file", OPT_FILE, AT(cert_file), NULL, "PEM file of the client certificate.",
     .optional = true},
    {"key_file", OPT_KEY_FILE, AT(key_file), NULL,
     "PEM file of the client certificate's private key.", .optional = true},
    {"proxy", OPT_STR, AT(proxy), NULL,
     "URL of a proxy. tarry ignores the proxy settings of the environment.",
     .optional = true},
    {"proxy_guards", OPT_BOOL, AT(proxy_guards), "false",
     "Whether the proxy checks the addresses. Behind a proxy tarry cannot do that: allow "
     "and deny apply only to the address of the proxy.",
     .min = 0},
    {"verify", OPT_BOOL, AT(verify), "true",
     "Whether tarry checks that the receiver's certificate is valid and contains its "
     "host name.",
     .min = 0},
    {0}};

/* ------------------------------------------------------------- verdict of a status */

static const char *const list_names[HTTP_VERDICTS] = {
    [HTTP_DELIVERED] = "delivered",
    [HTTP_RETRY] = "retry",
    [HTTP_REJECT] = "reject",
    [HTTP_STOP] = "stop",
};

/* Parses a number and returns the text after it; NULL: no number, or above most. */
static const char *read_number(const char *p, unsigned most, unsigned *n)
{
    char *end;
    if (!isdigit((unsigned char)*p))
        return NULL;
    const unsigned long number = strtoul(p, &end, 10);
    *n = (unsigned)number;
    return number <= most ? end : NULL;
}

int http_range_read(struct http_range *range, const char *text, unsigned most)
{
    const char *p = read_number(text, most, &range->first);
    if (p == NULL)
        return -1;
    range->last = range->first;
    if (*p == '-')
        p = read_number(p + 1, most, &range->last);
    return p && *p == '\0' && range->first <= range->last ? 0 : -1;
}

static int read_codes(struct http_range *range, const char *text)
{
    if (text[0] >= '1' && text[0] <= '9' && strcasecmp(text + 1, "xx") == 0) {
        range->first = (unsigned)(text[0] - '0') * 100;
        range->last = range->first + 99;
        return 0;
    }
    int rc = http_range_read(range, text, HTTP_STATUS_MAX);
    return rc == 0 && range->first >= STATUS_MIN ? 0 : -1;
}

/* width: size of the range that set each status; 0: not set. */
static int enter(struct http_rules *rules, unsigned width[], const struct http_range *r,
                 enum http_verdict verdict, struct err *err)
{
    unsigned w = r->last - r->first + 1;
    for (unsigned i = r->first; i <= r->last; i++) {
        if (width[i] == w && rules->verdict[i] != verdict)
            return err_set(err,
                           "status %u is in both %s and %s: remove it from one of them",
                           i, list_names[rules->verdict[i]], list_names[verdict]);
        if (width[i] != 0 && width[i] <= w)
            continue;
        width[i] = w;
        rules->verdict[i] = (unsigned char)verdict;
    }
    return 0;
}

int http_rules_read(struct http_rules *rules, const struct opt_list lists[HTTP_VERDICTS],
                    struct err *err)
{
    unsigned width[HTTP_STATUS_MAX + 1] = {0};
    *rules = (struct http_rules){{0}};
    for (unsigned v = 0; v < HTTP_VERDICTS; v++) {
        for (size_t i = 0; i < lists[v].n; i++) {
            struct http_range r;
            if (read_codes(&r, lists[v].v[i]) < 0)
                return err_set(
                    err,
                    "%s: \"%.40s\" is not a status: write \"409\", \"200-204\" or "
                    "\"2xx\"",
                    list_names[v], lists[v].v[i]);
            if (enter(rules, width, &r, (enum http_verdict)v, err) < 0)
                return -1;
        }
    }
    return 0;
}

enum http_verdict http_rules_verdict(const struct http_rules *rules, long status)
{
    if (status < 0 || status > HTTP_STATUS_MAX)
        return HTTP_RETRY;
    return (enum http_verdict)rules->verdict[status];
}

/* -------------------------------------------------------------------- checks */

static int check_headers(const struct http_opts *o, struct err *err)
{
    for (size_t i = 0; i < o->headers.n; i++) {
        struct slice name = slice_of(o->headers.v[i].name);
        if (!text_is_token(name) || http_is_transport_header(name) ||
            !text_is_header_value(slice_of(o->headers.v[i].value)))
            return err_set(err,
                           "headers: \"%s\" cannot be set: the name is invalid or only "
                           "the transport may set it, or the value contains a line break",
                           name.p);
        if (o->signing_keys.n > 0 && http_is_webhook_header(name))
            return err_set(
                err, "headers: \"%s\" cannot be set together with signing_keys", name.p);
    }
    return 0;
}

int http_opts_parse(struct http_sink *s, struct err *err)
{
    s->signer = NULL;
    s->guard = http_guard_new(&s->o, err);
    if (s->guard == NULL)
        return -1;
    if (s->o.signing_keys.n > 0)
        s->signer = http_signer_new(&s->o.signing_keys, err);
    if ((s->signer || s->o.signing_keys.n == 0) &&
        http_rules_read(&s->rules, s->o.codes, err) == 0)
        return 0;
    http_opts_release(s);
    return -1;
}

void http_opts_release(struct http_sink *s)
{
    http_guard_free(s->guard);
    http_signer_free(s->signer);
    s->guard = NULL;
    s->signer = NULL;
}

static int check_urls(const struct http_opts *o, struct err *err)
{
    if (o->url && !http_is_url(slice_of(o->url)))
        return err_set(
            err, "url must begin with http:// or https:// and be shorter than %d bytes",
            HTTP_URL_MAX);
    if (o->url && http_url_check_port(slice_of(o->url), err) < 0)
        return err_in(err, "url");
    if (o->proxy && strstr(o->proxy, "://") == NULL)
        return err_set(err, "proxy must be a URL such as http://proxy.example:3128");
    if (o->proxy && !o->proxy_guards &&
        (o->url_from_message || o->allow.n > 0 || o->deny.n > 0))
        return err_set(err, "behind a proxy tarry cannot check addresses: remove "
                            "url_from_message, allow and deny, or set proxy_guards = "
                            "true if the proxy itself blocks private networks");
    return 0;
}

int http_opts_check(const void *self, struct err *err)
{
    const struct http_opts *o = self;
    if (check_urls(o, err) < 0)
        return -1;
    if ((o->cert_file == NULL) != (o->key_file == NULL))
        return err_set(err, "cert_file and key_file must be set together");
    if (!text_is_header_value(slice_of(o->user_agent)))
        return err_set(err, "user_agent must be one line");
    struct http_sink parsed = {.o = *o};
    if (check_headers(o, err) < 0 || http_opts_parse(&parsed, err) < 0)
        return -1;
    http_opts_release(&parsed);
    return 0;
}
