/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_batch.h - many jobs in one request: a JSON object per line, an answer per line.
 */
#ifndef SOURCES_HTTP_HTTP_BATCH_H
#define SOURCES_HTTP_HTTP_BATCH_H

#include "sources/http/http_job.h"

enum { HTTP_BATCH_LINES_MAX = 10000 };

/* Submits every line and answers the request when the last one has its reply. */
void http_batch_submit(struct source *src, struct httpd_req *req,
                       struct http_place place);

/* The members of a reply: "id":...,"due":... or "error":...,"message":... */
void http_reply_members(struct buf *out, const struct stored_reply *reply);
/* The status a single job's reply has. */
unsigned http_reply_status(const struct stored_reply *reply);

#endif
