/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later.h - converts tasks of Later's API to jobs, and jobs to its answers, for the tests
 * and the import.
 *
 * A job's payload is the complete body of the callback request, its target the callback
 * URL. Later's number of retries is the job's tries minus one. The creation time is the
 * job's timestamp. Later's execute_time is the first due time in whole seconds.
 */
#ifndef SOURCES_LATER_LATER_H
#define SOURCES_LATER_LATER_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"

struct later_task {
    struct slice id, topic, callback, content; /* UTF-8 */
    int64_t delay_s, retries;                  /* negative: 0 */
    int64_t created_ms, due_ms;
};

/* Returns a new job, owned by the caller. Copies the task. */
struct job *later_job_new(const struct later_task *task);

/* Parse a struct later_task from the body of /create, and of /query and /delete (only
 * id). */
extern const struct http_args later_create_args, later_id_args;

/* Sets created_ms, and due_ms to delay_s later, at least 1 and at most the last
 * representable date, which is beyond any max_delay. Keeps a time in the past: /query
 * shows it. */
void later_set_times(struct later_task *task, int64_t now_ms);

/* Appends the answer to /query. job: from Redis; failures: attempts so far. */
void later_show(struct buf *out, const struct job *job, unsigned failures);

/* --- later_import.c: imports from the Redis layout of Later (btfak/later) --- */
struct import;
/* For source_ops.import. */
int later_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
