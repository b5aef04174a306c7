/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_opts.h - the options of the http sink, and what its core finds wrong with them.
 * Pure: no I/O.
 */
#ifndef SINKS_HTTP_HTTP_OPTS_H
#define SINKS_HTTP_HTTP_OPTS_H

#include "bridge/plugin.h"
#include "sinks/http/http_rules.h"

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
    struct opt_list allow_hosts, allow, deny, ports; /* see http_guard.h */
    bool proxy_guards; /* the proxy judges addresses in our place */
};

/* For a plugin whose struct begins with a struct http_opts. */
extern const struct opt http_opt_rows[];
/* For sink_ops.check of such a plugin. -1: err says what is wrong. */
int http_opts_check(const void *self, struct err *err);

#endif
