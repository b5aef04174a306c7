/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_opts.h - the options of the http sink, their checks, and the mapping from status
 * codes to verdicts (delivered, retry, reject, stop). Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_HTTP_OPTS_H
#define SINKS_HTTP_HTTP_OPTS_H

#include "bridge/plugin.h"

enum http_verdict { HTTP_RETRY, HTTP_DELIVERED, HTTP_REJECT, HTTP_STOP };
enum { HTTP_VERDICTS = HTTP_STOP + 1 };

struct http_range {
    unsigned first, last;
};
/* Parses "443" or "1024-65535"; no number may exceed most. -1: invalid. */
int http_range_read(struct http_range *range, const char *text, unsigned most);

enum { HTTP_STATUS_MAX = 999 };
struct http_rules {
    unsigned char verdict[HTTP_STATUS_MAX + 1];
};
/* Parses the lists, one for each verdict, of codes, ranges and classes such as "2xx". If
 * two lists contain a status, the narrower range wins. -1: equally narrow ranges, or an
 * invalid entry. */
int http_rules_read(struct http_rules *rules, const struct opt_list lists[HTTP_VERDICTS],
                    struct err *err);
/* Returns the verdict for a status; HTTP_RETRY if no list contains it. */
enum http_verdict http_rules_verdict(const struct http_rules *rules, long status);

enum http_method { HTTP_POST, HTTP_PUT };

/* How to judge an answer. */
enum http_accept {
    HTTP_BY_STATUS, /* by the status, see codes */
    HTTP_BY_CODE100 /* by the body: a JSON object whose code is 100 */
};

struct http_opts {
    char *url;
    int method; /* enum http_method */
    int accept; /* enum http_accept */
    int64_t timeout_ms, connect_timeout_ms, response_max_bytes, host_connections;
    struct opt_list codes[HTTP_VERDICTS];
    int64_t retry_after_max_ms;
    int64_t redirects; /* maximum; 0: follow none */
    struct pairs headers;
    char *user_agent;
    char *ca_file, *cert_file, *key_file, *proxy;
    bool verify;
    bool userinfo;                /* a job's URL may contain a user name */
    bool delay_headers;           /* send delay-* and webhook-id */
    struct opt_list signing_keys; /* secrets, the primary first */
    bool url_from_message;
    struct opt_list allow_hosts, allow, deny, ports; /* see http_url.h */
    bool proxy_guards; /* the proxy checks addresses instead of tarry */
};

/* Option rows for a plugin whose struct begins with a struct http_opts. */
extern const struct opt http_opt_rows[];
/* sink_ops.check for such a plugin. */
int http_opts_check(const void *self, struct err *err);

#endif
