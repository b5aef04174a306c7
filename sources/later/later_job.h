/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later_job.h - tasks of Later's API as jobs, and jobs as its answers. No I/O, no state.
 *
 * The payload of a job is the body of its callback, whole; the target is the URL. The
 * number of retries is one less than the tries of the job, a creation time is its
 * timestamp, and what Later calls execute_time its first due time in whole seconds.
 */
#ifndef SOURCES_LATER_LATER_JOB_H
#define SOURCES_LATER_LATER_JOB_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"

enum { LATER_ID_SIZE = 37 }; /* with the NUL */

struct later_task {
    struct slice id, topic, callback, content; /* UTF-8 */
    int64_t delay_s, retries;                  /* below 0 as 0 */
    int64_t created_ms, due_ms;
};

/* Gives; copies. */
struct job *later_job_new(const struct later_task *task);

/* A struct later_task of the body of /create, and of /query and /delete (its id). */
extern const struct http_args later_create_args, later_id_args;

/* Sets created_ms, and due_ms delay_s later: from 1 to the last date there is, which is
 * further off than any max_delay. A past time stays: /query shows it. */
void later_begin(struct later_task *task, int64_t now_ms);

/* Appends the answer of /query. job: as Redis has it; failures: attempts so far. */
void later_show(struct buf *out, const struct job *job, unsigned failures);

/* A random UUID, version 4. */
void later_new_id(char out[LATER_ID_SIZE]);

/* --- later_import.c: moving over from Later (btfak/later), its Redis layout --- */
struct import;
/* For source_ops.import. */
int later_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
