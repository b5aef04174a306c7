/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_opts.h - the options of the http sink, and what its core finds wrong with them.
 * Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_OPTS_H
#define SINKS_HTTP_OPTS_H

#include "bridge/plugin.h"

enum http_method { HTTP_POST, HTTP_PUT };

/* What counts as a delivery. */
enum http_accept {
    HTTP_BY_STATUS, /* 2xx */
    HTTP_BY_CODE100 /* the body is a JSON object whose code is 100; the status counts not
                     */
};

struct http_opts {
    char *url;
    int method; /* enum http_method */
    int accept; /* enum http_accept */
    int64_t timeout_ms, connect_timeout_ms, response_max_bytes, host_connections;
    int64_t redirects; /* at most; 0: none is followed */
    struct opt_pairs headers;
    char *user_agent;
    char *ca_file, *cert_file, *key_file, *proxy;
    bool verify;
    bool userinfo;      /* a job's URL may hold a user name */
    bool delay_headers; /* delay-* and webhook-id go along */
};

/* For a plugin whose struct begins with a struct http_opts. */
extern const struct opt http_opt_rows[];
/* For sink_ops.check of such a plugin. -1: err says what is wrong. */
int http_opts_check(const void *self, struct err *err);

#endif
