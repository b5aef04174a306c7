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

#include "bridge/plugin.h"

enum { LATER_ID_SIZE = 37 }; /* with the NUL */

struct later_task {
    struct slice id, topic, callback, content; /* UTF-8 */
    int64_t retries;                           /* below 0 as 0 */
    int64_t created_ms, due_ms;
};

/* Gives; copies. */
struct job *later_job_new(const struct later_task *task);

/* The body of /create as a task without id, by the time now_ms. Its texts stand in room,
 * which the caller frees. -1: not what the API takes. */
int later_read_task(struct slice body, int64_t now_ms, struct later_task *task,
                    struct buf *room);
/* The id in the body of /query and /delete, in room as above. -1: there is none. */
int later_read_id(struct slice body, struct slice *id, struct buf *room);

/* Appends the answer of /query. job: as Redis has it; failures: attempts so far. */
void later_show(struct buf *out, const struct job *job, unsigned failures);

/* A random UUID, version 4. */
void later_new_id(char out[LATER_ID_SIZE]);

#endif
