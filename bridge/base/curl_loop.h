/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * curl_loop.h - libcurl's multi interface on the event loop: a watch for each of its
 * sockets, a timer for its timeout. Loop thread.
 */
#ifndef BRIDGE_CURL_LOOP_H
#define BRIDGE_CURL_LOOP_H

#include <stdbool.h>

#include <curl/curl.h>

struct curl_loop;

/* Called for each finished transfer, whose handle has left the multi. transfer: its
 * CURLOPT_PRIVATE. */
typedef void curl_end_cb(void *transfer, CURLcode code);
/* Returns whether the connection of the transfer is fully set up. curl 7.88 closes others
 * without CURLOPT_CLOSESOCKETFUNCTION (cf_socket_close()). */
typedef bool curl_connected_cb(const void *transfer);

/* connected: the watch of such a connection stays until curl closes it, which saves two
 * system calls per transfer; NULL: no watch stays. */
struct curl_loop *curl_loop_new(curl_end_cb *end, curl_connected_cb *connected);
/* Frees the multi and closes its kept connections; no transfer may be open. */
void curl_loop_free(struct curl_loop *l);

/* Sets the options that the loop needs in a new handle. It must not outlive l. */
void curl_loop_prepare(struct curl_loop *l, CURL *easy);
/* For options, and to add and remove handles. Owned by l. */
CURLM *curl_loop_multi(const struct curl_loop *l);
unsigned curl_loop_connections(const struct curl_loop *l); /* open sockets */

#endif
