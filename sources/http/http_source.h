/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_source.h - what the files of the http source share: the native API on the daemon's
 * own listener. etc/openapi.yaml describes all of it.
 *
 * http.c serves jobs of routes, http_batch.c many of them in one request, http_queue.c
 * the pull queues, http_ack.c acknowledges many jobs, http_show.c writes jobs as JSON.
 */
#ifndef SOURCES_HTTP_HTTP_SOURCE_H
#define SOURCES_HTTP_HTTP_SOURCE_H

#include "bridge/http/http_args.h"
#include "bridge/http/http_job.h"
#include "bridge/plugin.h"

struct http_source { /* the arg of every handler */
    struct source *src;
    bool paused;
};

/* --- http_batch.c: a JSON object per line, an answer per line --- */
enum { HTTP_BATCH_LINES_MAX = 10000 };
/* Submits every line and answers the request when the last one has its reply. */
void http_batch_submit(struct source *src, struct httpd_req *req,
                       struct http_place place);
/* The members of a reply: "id":...,"due":... or "error":...,"message":... */
void http_reply_members(struct buf *out, const struct stored_reply *reply);
/* The status a single job's reply has. */
unsigned http_reply_status(const struct stored_reply *reply);

/* --- http_queue.c: /v1/queues, all but the way in --- */
/* In this API "lease" is always a duration, and "token" names one delivery of a job. A
 * queue is addressed by the topic that leads to it, one path segment, percent-encoded; in
 * a pull it may be a list with commas. */
extern const struct httpd_route http_queue_rows[];
/* The first row of the parameters of a queue's request: its name, at offset. */
#define HTTP_QUEUE_ROW(offset)                                                           \
    {                                                                                    \
        "a queue's name", HTTP_TEXT, offset, .from = FROM_PATH, .max = JOB_TOPIC_MAX     \
    }
/* The n-th name of a list with commas, from 0; p NULL: there are no more. */
struct slice http_queue_name(struct slice list, unsigned n);

/* --- http_ack.c --- */
extern const struct http_args http_ack_args;
void http_ack(void *arg, struct httpd_req *req);

/* --- http_show.c --- */
/* Appends {"id":...,"state":...} of a job that was found, with a line's end. */
void http_job_show(struct buf *out, struct slice id, const struct found_reply *found);
/* Appends a job that was pulled, with its token. */
void http_queue_show_pulled(struct buf *out, struct slice queue,
                            const struct queue_job *job);
/* Appends a job that was looked at, with its state; content: and what it carries. */
void http_queue_show_found(struct buf *out, struct slice queue,
                           const struct queue_job *job, bool content);
const char *http_queue_state(enum queue_state state);

#endif
