/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_job.h - jobs out of HTTP requests, and jobs as JSON. No I/O, no state.
 */
#ifndef BRIDGE_HTTP_JOB_H
#define BRIDGE_HTTP_JOB_H

#include "bridge/base/mem.h"
#include "bridge/http/httpd.h"
#include "bridge/job/job.h"

/* The longest lease and time to live of a queue's job. */
#define HTTP_QUEUE_LEASE_MAX_MS (INT64_C(7) * 24 * 3600 * 1000)
#define HTTP_QUEUE_TIME_MAX_MS (INT64_C(36525) * 24 * 3600 * 1000)

struct http_place { /* where a job goes */
    struct slice name;
    bool queue;      /* a queue's name, as the job's topic; else a route's */
    struct slice id; /* the job takes the place of that one; p NULL: none is named */
};

/* One job of a whole request: body, headers, query parameters. Gives; NULL with a reason.
 */
struct job *http_job_from_request(const struct httpd_req *req, struct http_place place,
                                  struct err *err);

/* One job of a line of JSON. Gives; NULL with a reason. */
struct job *http_job_from_line(struct slice line, struct http_place place,
                               struct err *err);

/* The first control that a request names by header or parameter; NULL: none. */
const char *http_job_control(const struct httpd_req *req);

/* Appends ,"key":...,"headers":{...},"payload":... */
void http_job_members(struct buf *out, const struct job *job);

/* Does the header speak of the connection and its ends, and not of the job? */
bool http_job_is_foreign(struct slice name);

#endif
