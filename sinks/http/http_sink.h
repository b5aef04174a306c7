/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_sink.h - what the parts of the http sink know of each other: http.c starts and
 * stops it, http_call.c makes one delivery, http_multi.c runs curl on the loop.
 */
#ifndef SINKS_HTTP_HTTP_SINK_H
#define SINKS_HTTP_HTTP_SINK_H

#include "bridge/plugin.h"
#include "sinks/http/http_message.h"
#include "sinks/http/http_url.h"

#include <curl/curl.h>

struct http_call;

struct http_sink {
    struct http_opts o; /* first: its rows say so */
    struct sink *sink;
    struct http_rules rules;
    struct http_guard *guard;
    struct http_signer *signer; /* NULL: nothing is signed */
    CURLM *multi;
    struct timer *timer;
    struct http_socket **sockets; /* by descriptor, of http_multi.c */
    size_t sockets_room;
    struct http_call *idle; /* calls to be used again, with their easy handles */
    int64_t answers_bytes;  /* held of all answers under way */
    struct log_limit bad_header;
};

void http_call_begin(struct http_sink *s, struct delivery *d);
/* The request of the call is over; its handle is out of the multi. */
void http_call_end(struct http_call *c, CURLcode code);
/* Has its request a connection of its own, set up to the end? One that never was, curl
 * 7.88 closes without a word (cf_socket_close()). */
bool http_call_is_connected(CURL *easy);
void http_calls_free(struct http_sink *s);

void http_multi_start(struct http_sink *s);
void http_multi_stop(struct http_sink *s);
/* For CURLOPT_CLOSESOCKETFUNCTION; arg: the sink. */
int http_multi_close(void *arg, curl_socket_t fd);

#endif
