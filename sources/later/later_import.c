/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later_import.c - Later's layout: each task is JSON in a string named by its id. The
 * sorted set later_delay, later_unack or later_error contains the id, scored in seconds.
 *
 * The score decides when a task is called back, not its ExecuteTime. Later's TTL of one
 * day per task is not imported, since it loses tasks with a longer delay.
 */
#include "bridge/base/json.h"
#include "bridge/import/import.h"
#include "sources/later/later.h"

struct task {
    struct slice id, topic, callback, content;
    int64_t execute_s, max_retry, has_retry, created_s;
};
static const struct task no_task = {
    .topic = SLICE_LIT(""), .callback = SLICE_LIT(""), .content = SLICE_LIT("")};

static const struct json_field fields[] = {
    {"ID", JSON_TEXT, offsetof(struct task, id), 0, 0},
    {"Topic", JSON_TEXT, offsetof(struct task, topic), 0, 0},
    {"ExecuteTime", JSON_INT, offsetof(struct task, execute_s), 0, 0},
    {"MaxRetry", JSON_INT, offsetof(struct task, max_retry), 0, 0},
    {"HasRetry", JSON_INT, offsetof(struct task, has_retry), 0, 0},
    {"Callback", JSON_TEXT, offsetof(struct task, callback), 0, 0},
    {"Content", JSON_TEXT, offsetof(struct task, content), 0, 0},
    {"CreatTime", JSON_INT, offsetof(struct task, created_s), 0, 0},
    {0},
};

/* Ordered by precedence, for an id that a crash left in two sets: a recorded failure
 * overrides its attempt. For an id in later_unack it is unknown whether the callback
 * arrived, so it is due again. */
static const struct import_part parts[] = {
    {.keys = "later_error", .shape = IMPORT_SETS, .state = IMPORT_PENDING},
    {.keys = "later_unack", .shape = IMPORT_SETS, .state = IMPORT_IN_FLIGHT},
    {.keys = "later_delay", .shape = IMPORT_SETS, .state = IMPORT_PENDING},
    {0},
};

static unsigned attempts_of(const struct task *task, bool in_flight)
{
    int64_t most = task->max_retry > 0 ? task->max_retry : 0; /* leave one attempt */
    int64_t n = (task->has_retry > 0 ? task->has_retry : 0) + in_flight;
    n = n < most ? n : most;
    return n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

static struct job *read_task(void *arg, const struct import_entry *e,
                             const struct import_body *body, struct import_how *how,
                             enum import_skip *why)
{
    struct task task = no_task;
    bool in_flight = how->state == IMPORT_IN_FLIGHT;
    (void)arg, (void)why;
    if (json_read(body->text, fields, &task, body->room) < 0)
        return NULL;
    how->attempts = attempts_of(&task, in_flight);
    how->at_ms = in_flight ? body->now_ms : import_s(e->score);
    const struct later_task as_new = {
        .id = e->member,
        .topic = task.topic,
        .callback = task.callback,
        .content = task.content,
        .retries = task.max_retry,
        .created_ms = import_s(task.created_s),
        .due_ms = import_s(task.execute_s),
    };
    return later_job_new(&as_new);
}

int later_import(struct source *src, void *self, struct import *im, struct err *err)
{
    static const struct import_layout layout = {
        .parts = parts, .read = read_task, .shared = true};
    (void)src, (void)self;
    return import_options(im, NULL, err) < 0 ? -1 : import_walk(im, &layout, NULL, err);
}
