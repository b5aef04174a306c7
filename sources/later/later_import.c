/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later_import.c - Later's layout: each task is JSON in a string named by its id; its id
 * stands in the sorted set later_delay, later_unack or later_error, scored in seconds.
 *
 * The score decides when a task is called back, not its ExecuteTime. The TTL of a day
 * that Later gives every task is not kept: it loses whatever waits longer.
 */
#include "sources/later/later_import.h"
#include "bridge/base/json.h"
#include "bridge/base/when.h"
#include "sources/later/later_job.h"

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

/* In the order in which they count where a crash left an id in two of them: a failure
 * that was noted beats the attempt it came from. */
static const struct part {
    const char *key;
    bool in_flight; /* nobody knows whether its callback arrived: it is due again */
} parts[] = {{"later_error", false}, {"later_unack", true}, {"later_delay", false}};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

struct walk {
    struct import *im;
    const struct part *part;
    struct buf room; /* of the texts of one task */
};

static int64_t to_ms(int64_t seconds)
{
    if (seconds > WHEN_LAST_MS / 1000)
        return WHEN_LAST_MS;
    return seconds > 0 ? seconds * 1000 : 1; /* below: an overflow, or long ago */
}

static unsigned attempts_of(const struct task *task, bool in_flight)
{
    int64_t most = task->max_retry > 0 ? task->max_retry : 0; /* one attempt is left */
    int64_t n = (task->has_retry > 0 ? task->has_retry : 0) + in_flight;
    n = n < most ? n : most;
    return n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

static int move(struct walk *w, const struct task *task, const struct import_entry *entry,
                struct err *err)
{
    const struct slice id = entry->member;
    const struct slice args[PARTS + 1][3] = {
        {SLICE_LIT("ZREM"), slice_of(parts[0].key), id},
        {SLICE_LIT("ZREM"), slice_of(parts[1].key), id},
        {SLICE_LIT("ZREM"), slice_of(parts[2].key), id},
        {SLICE_LIT("DEL"), id, {NULL, 0}},
    };
    const struct import_command clean[] = {
        {args[0], 3}, {args[1], 3}, {args[2], 3}, {args[3], 2}};
    const struct import_how how = {
        .key = id,
        .state = w->part->in_flight ? IMPORT_IN_FLIGHT : IMPORT_PENDING,
        .attempts = attempts_of(task, w->part->in_flight),
        .at_ms = w->part->in_flight ? import_now_ms(w->im) : to_ms(entry->score),
        .clean = clean,
        .clean_count = PARTS + 1,
    };
    const struct later_task as_new = {
        .id = id,
        .topic = task->topic,
        .callback = task->callback,
        .content = task->content,
        .retries = task->max_retry,
        .created_ms = to_ms(task->created_s),
        .due_ms = to_ms(task->execute_s),
    };
    return import_job(w->im, later_job_new(&as_new), &how, err);
}

static int on_page(void *arg, const struct import_entry *entries, size_t n,
                   struct err *err)
{
    struct walk *w = arg;
    struct slice keys[IMPORT_PAGE] = {{NULL, 0}};
    struct import_value bodies[IMPORT_PAGE];
    int result = 0;
    for (size_t i = 0; i < n; i++)
        keys[i] = entries[i].member;
    if (import_get_each(w->im, keys, (unsigned)n, bodies, err) < 0)
        return -1;
    for (size_t i = 0; i < n && result == 0; i++) {
        struct task task = no_task;
        if (bodies[i].kind == IMPORT_NIL)
            import_skip(w->im, IMPORT_NO_BODY, entries[i].member);
        else if (bodies[i].kind != IMPORT_TEXT)
            import_skip(w->im, IMPORT_WRONG_TYPE, entries[i].member);
        else if (json_read(bodies[i].text, fields, &task, &w->room) < 0)
            import_skip(w->im, IMPORT_UNREADABLE, entries[i].member);
        else
            result = move(w, &task, &entries[i], err);
    }
    import_values_free(bodies, n);
    return result;
}

int later_import(struct source *src, void *self, struct import *im, struct err *err)
{
    struct walk w = {.im = im};
    int result = import_options(im, NULL, err);
    (void)src;
    (void)self;
    for (size_t i = 0; i < PARTS && result == 0; i++) {
        w.part = &parts[i];
        result = import_each_member(im, slice_of(parts[i].key), on_page, &w, err);
    }
    buf_free(&w.room);
    return result;
}
