/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_sink.h - shared by the files of the http sink: http.c starts and stops it,
 * http_call.c makes a delivery, http_multi.c runs curl on the loop.
 */
#ifndef SINKS_HTTP_HTTP_SINK_H
#define SINKS_HTTP_HTTP_SINK_H

#include "bridge/plugin.h"
#include "sinks/http/http_message.h"
#include "sinks/http/http_url.h"

#include <curl/curl.h>

struct http_call;

struct http_sink {
    struct http_opts o; /* must be first: http_opt_rows use its offsets */
    struct sink *sink;
    struct http_rules rules;
    struct http_guard *guard;
    struct http_signer *signer; /* NULL: do not sign */
    CURLM *multi;
    struct timer *timer;
    struct http_socket **sockets; /* indexed by descriptor; used by http_multi.c */
    size_t sockets_room;
    unsigned connections;   /* open sockets */
    struct http_call *idle; /* free list of calls with their easy handles */
    int64_t answers_bytes;  /* memory of all unfinished answers */
    struct log_limit bad_header;
};

void http_call_begin(struct http_sink *s, struct delivery *d);
/* Handles the end of a call's request. Its handle has left the multi. */
void http_call_end(struct http_call *c, CURLcode code);
/* Is the request's connection fully set up? curl 7.88 closes others without calling
 * http_multi_close() (cf_socket_close()). */
bool http_call_is_connected(CURL *easy);
void http_calls_free(struct http_sink *s);

/* Makes a handle with the proxy and TLS options. why: CURL_ERROR_SIZE bytes that must
 * outlive the handle. */
CURL *http_easy_new(const struct http_opts *o, char *why);
void http_multi_start(struct http_sink *s);
void http_multi_stop(struct http_sink *s);
/* For CURLOPT_CLOSESOCKETFUNCTION; arg: the sink. */
int http_multi_close(void *arg, curl_socket_t fd);

#endif
