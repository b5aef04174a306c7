/* SPDX-License-Identifier: BSD-2-Clause */
/* http_job.h - converts HTTP requests to jobs, and jobs to JSON. No I/O, no state. */
#ifndef BRIDGE_HTTP_JOB_H
#define BRIDGE_HTTP_JOB_H

#include "bridge/base/mem.h"
#include "bridge/http/httpd.h"
#include "bridge/job/job.h"

/* Limits for a queue job: lease, and delay or time to live. */
#define HTTP_QUEUE_LEASE_MAX_MS (INT64_C(7) * 24 * 3600 * 1000)
#define HTTP_QUEUE_TIME_MAX_MS (INT64_C(36525) * 24 * 3600 * 1000)

struct http_place { /* destination of a job */
    struct slice name;
    bool queue;      /* true: name is a queue, stored as the job's topic; false: a
                      * route */
    struct slice id; /* id of the job to replace; p NULL: none */
};

/* Returns a job from a whole request (body, headers, query parameters); the caller owns
 * it. NULL: err contains the reason. */
struct job *http_job_from_request(const struct httpd_req *req, struct http_place place,
                                  struct err *err);

/* The same from a line of JSON. */
struct job *http_job_from_line(struct slice line, struct http_place place,
                               struct err *err);

/* Returns the first control header or parameter of a request, or NULL. */
const char *http_job_control(const struct httpd_req *req);

/* Appends ,"key":...,"headers":{...},"payload":... */
void http_job_members(struct buf *out, const struct job *job);

/* Appends ,"name":"2026-01-31T12:00:00.123Z", or null where ms is 0. */
void http_add_when(struct buf *out, const char *name, int64_t ms);

/* Returns whether a header concerns the connection or the client instead of the job. */
bool http_job_is_foreign(struct slice name);

#endif
