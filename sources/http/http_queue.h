/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_queue.h - the pull queues on the daemon's own listener, /v1/queues.
 *
 * In this API "lease" is always a duration, and "token" names one delivery of a job. A
 * queue is addressed by the topic that leads to it, one path segment, percent-encoded; in
 * a pull it may be a list with commas. etc/openapi.yaml describes all of it.
 */
#ifndef SOURCES_HTTP_HTTP_QUEUE_H
#define SOURCES_HTTP_HTTP_QUEUE_H

#include "sources/http/http_source.h"

enum {
    HTTP_QUEUE_PULL_MAX = 100, /* jobs of one answer, which is built in memory */
    HTTP_QUEUE_ACK_MAX = 1000, /* jobs of one request */
    HTTP_QUEUE_NAMES_MAX = 100 /* queues of one pull */
};
#define HTTP_QUEUE_LEASE_MAX_MS (INT64_C(7) * 24 * 3600 * 1000)
#define HTTP_QUEUE_TIME_MAX_MS (INT64_C(36525) * 24 * 3600 * 1000)

/* All but the way in; the arg is struct http_source. */
extern const struct httpd_route http_queue_rows[];

/* --- http_queue_pull.c --- */
void http_queue_pull(void *arg, struct httpd_req *req);
/* The n-th name of a list with commas, from 0; p NULL: there are no more. */
struct slice http_queue_name(struct slice list, unsigned n);

/* --- http_queue_job.c: one job --- */
void http_queue_get(void *arg, struct httpd_req *req);
void http_queue_delete(void *arg, struct httpd_req *req);
void http_queue_release(void *arg, struct httpd_req *req);
void http_queue_touch(void *arg, struct httpd_req *req);
void http_queue_peek(void *arg, struct httpd_req *req);

/* --- http_queue_ack.c --- */
void http_queue_ack(void *arg, struct httpd_req *req);

/* --- http_queue_whole.c --- */
void http_queue_count(void *arg, struct httpd_req *req);
void http_queue_list(void *arg, struct httpd_req *req);
void http_queue_destroy(void *arg, struct httpd_req *req);
void http_queue_respawn(void *arg, struct httpd_req *req);
void http_queue_drop_dead(void *arg, struct httpd_req *req);

/* --- http_queue.c --- */
/* Answers what is no success, and says whether it did. */
bool http_queue_failed(struct httpd_req *req, enum queue_code code);
/* Answers 400. */
void http_queue_bad(struct httpd_req *req, const struct err *err);
/* Is the name in the path one that a queue can have? Else it answers. */
bool http_queue_is_name(struct httpd_req *req, struct slice name);

/* --- http_queue_show.c --- */
/* Appends a job that was pulled, with its token. */
void http_queue_show_pulled(struct buf *out, struct slice queue,
                            const struct queue_job *job);
/* Appends a job that was looked at, with its state; content: and what it carries. */
void http_queue_show_found(struct buf *out, struct slice queue,
                           const struct queue_job *job, bool content);
const char *http_queue_state(enum queue_state state);

#endif
