/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_source.h - shared by the files of the http source: the native API on the daemon's
 * own listener. etc/openapi.yaml describes the API.
 *
 * http.c serves jobs of routes and new jobs, http_queue.c the pull queues, http_ack.c
 * batches of acknowledgements. http_show.c writes jobs as JSON.
 */
#ifndef SOURCES_HTTP_HTTP_SOURCE_H
#define SOURCES_HTTP_HTTP_SOURCE_H

#include "bridge/http/http_args.h"
#include "bridge/http/http_job.h"
#include "bridge/plugin.h"

/* The arg of the handlers in http.c. The handlers of the other files get src. */
struct http_source {
    struct source *src;
    bool paused;
};

/* --- http_queue.c: /v1/queues, except publishing --- */
/* In this API "lease" is always a duration, and "token" identifies one delivery of a job.
 * The path contains the topic that leads to the queue: one percent-encoded segment; in a
 * pull, a comma-separated list. */
extern const struct httpd_route http_queue_rows[];
/* First parameter row of a request for a queue. offset: where the name is stored. */
#define HTTP_QUEUE_ROW(offset)                                                           \
    {                                                                                    \
        "a queue's name", HTTP_TEXT, offset, .from = FROM_PATH, .max = JOB_TOPIC_MAX     \
    }
/* Returns the n-th name (from 0) of a comma-separated list. p NULL: the list is
 * shorter. */
struct slice http_queue_name(struct slice list, unsigned n);

/* --- http_ack.c --- */
extern const struct http_args http_ack_args;
void http_ack(void *arg, struct httpd_req *req);

/* --- http_show.c --- */
/* Appends {"id":...,"state":...} and a newline for a found job. */
void http_job_show(struct buf *out, struct slice id, const struct found_reply *found);
/* Appends a pulled job with its token. */
void http_queue_show_pulled(struct buf *out, struct slice queue,
                            const struct queue_job *job);
/* Appends a job with its state. content: include headers and payload. */
void http_queue_show_found(struct buf *out, struct slice queue,
                           const struct queue_job *job, bool content);
const char *http_queue_state(enum queue_state state);
/* Appends the members of a reply: "id":...,"due":... or "error":...,"message":... */
void http_reply_members(struct buf *out, const struct stored_reply *reply);
/* Returns the HTTP status for the reply to a single job. */
unsigned http_reply_status(const struct stored_reply *reply);

#endif
