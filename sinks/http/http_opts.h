/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_opts.h - the options of the http sink, their checks, and what the status of an
 * answer means by them (delivered, retry, reject, stop). Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_HTTP_OPTS_H
#define SINKS_HTTP_HTTP_OPTS_H

#include "bridge/plugin.h"

enum http_verdict { HTTP_RETRY, HTTP_DELIVERED, HTTP_REJECT, HTTP_STOP };
enum { HTTP_VERDICTS = HTTP_STOP + 1 };

struct http_range {
    unsigned first, last;
};
/* "443" or "1024-65535", no number above most. -1: it is neither. */
int http_range_read(struct http_range *range, const char *text, unsigned most);

enum { HTTP_STATUS_MAX = 999 };
struct http_rules {
    unsigned char verdict[HTTP_STATUS_MAX + 1];
};
/* lists: one for each verdict, of codes, ranges and "2xx". Where two hold a status, the
 * narrower range counts; -1: they are equally narrow, or an entry is no code. */
int http_rules_read(struct http_rules *rules, const struct opt_list lists[HTTP_VERDICTS],
                    struct err *err);
/* What no list holds is tried again. */
enum http_verdict http_rules_verdict(const struct http_rules *rules, long status);

enum http_method { HTTP_POST, HTTP_PUT };

/* By what an answer is judged. */
enum http_accept {
    HTTP_BY_STATUS, /* as codes says */
    HTTP_BY_CODE100 /* as the body says: a JSON object whose code is 100 */
};

struct http_opts {
    char *url;
    int method; /* enum http_method */
    int accept; /* enum http_accept */
    int64_t timeout_ms, connect_timeout_ms, response_max_bytes, host_connections;
    struct opt_list codes[HTTP_VERDICTS];
    int64_t retry_after_max_ms;
    int64_t redirects; /* at most; 0: none is followed */
    struct pairs headers;
    char *user_agent;
    char *ca_file, *cert_file, *key_file, *proxy;
    bool verify;
    bool userinfo;                /* a job's URL may hold a user name */
    bool delay_headers;           /* delay-* and webhook-id go along */
    struct opt_list signing_keys; /* secrets, the primary first */
    bool url_from_message;
    struct opt_list allow_hosts, allow, deny, ports; /* see http_url.h */
    bool proxy_guards; /* the proxy judges addresses in our place */
};

/* For a plugin whose struct begins with a struct http_opts. */
extern const struct opt http_opt_rows[];
/* For sink_ops.check of such a plugin. -1: err says what is wrong. */
int http_opts_check(const void *self, struct err *err);

#endif
