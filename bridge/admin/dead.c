/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dead.c - a run through the dead letters of a route: bucket after bucket, until enough
 * letters match or enough were looked at.
 */
#include "bridge/admin/dead.h"
#include "bridge/admin/cursor.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/tries.h"
#include "bridge/engine/route.h"
#include "bridge/store/store.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct row {
    struct dead_item item;
    struct tries tries;
    struct job *job;
    char *bytes; /* of its id and what can't be read */
};

struct run {
    struct route *route;
    struct dead_query q; /* its slices are in texts */
    char *texts;
    dead_cb *cb;
    void *arg;
    struct dead_cursor at; /* where the next call goes on */
    bool over;             /* there is nothing behind it */
    enum dead_code code;
    struct buf why; /* it is not DEAD_OK */
    struct row *rows;
    unsigned count, done, refused, looked;
    size_t bytes; /* of the records in rows */
};

/* --- the cursor --- */

void dead_cursor_add(const struct dead_cursor *c, struct buf *out)
{
    const int64_t numbers[] = {c->bucket, c->end_ms, c->next_us, c->after_ms};
    cursor_add(out, numbers, 4, buf_slice(&c->after));
}

int dead_cursor_read(struct slice text, struct dead_cursor *c)
{
    int64_t numbers[4];
    if (cursor_read(text, numbers, 4, JOB_ID_MAX, &c->after) < 0)
        return -1;
    c->bucket = numbers[0];
    c->end_ms = numbers[1];
    c->next_us = numbers[2];
    c->after_ms = numbers[3];
    return 0;
}

/* --- the answer --- */

static void run_free(struct run *run)
{
    for (unsigned i = 0; i < run->count; i++) {
        job_free(run->rows[i].job);
        free(run->rows[i].bytes);
    }
    free(run->rows);
    free(run->texts);
    buf_free(&run->at.after);
    buf_free(&run->why);
    if (run->route)
        run->route->refs--;
    free(run);
}

static void count_up(const struct run *run)
{
    if (run->route == NULL || run->q.dry_run)
        return;
    if (run->q.what == DEAD_REPLAY)
        run->route->stats.replayed += run->done;
    else if (run->q.what == DEAD_DROP)
        run->route->stats.dropped_dead += run->done;
}

static void answer(void *arg)
{
    struct run *run = arg;
    struct buf cursor = {0};
    struct dead_item *items = mem_alloc((run->count + 1) * sizeof(*items));
    for (unsigned i = 0; i < run->count; i++) {
        items[i] = run->rows[i].item;
        items[i].letter.reason = run->rows[i].tries.reason;
        items[i].letter.error = run->rows[i].tries.error;
    }
    if (run->code == DEAD_OK && !run->over)
        dead_cursor_add(&run->at, &cursor);
    const struct dead_reply reply = {
        .code = run->code,
        .items = items,
        .count = run->count,
        .done = run->done,
        .refused = run->refused,
        .looked = run->looked,
        .cursor = buf_slice(&cursor),
        .not_before_ms = run->q.what == DEAD_REPLAY ? (run->at.next_us + 999) / 1000 : 0,
        .why = buf_str(&run->why)};
    count_up(run);
    run->cb(run->arg, &reply);
    free(items);
    buf_free(&cursor);
    run_free(run);
}

/* --- the buckets --- */

/* The bucket where the run goes on; NULL: there is none. */
static struct sched *next_bucket(struct run *run)
{
    const struct route *route = run->route;
    return run->at.bucket < route->bucket_count ? route->scheds[run->at.bucket] : NULL;
}

/* --- the letters --- */

static enum dead_code wrong(struct run *run, enum dead_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static enum dead_code wrong(struct run *run, enum dead_code code, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_add_str(&run->why, text);
    return code;
}

static void keep(struct run *run, const struct store_dead_item *found)
{
    struct row *row = &run->rows[run->count++];
    struct err err;
    *row = (struct row){0};
    tries_parse(found->tries, &row->tries);
    if (found->record.n > 0)
        row->job = job_decode(found->id, found->record, &run->route->names, &err);
    size_t raw_n = row->job ? 0 : found->record.n;
    row->bytes = mem_alloc(found->id.n + raw_n + 1);
    slice_put(slice_put(row->bytes, found->id), (struct slice){found->record.p, raw_n});
    run->bytes += found->record.n;
    row->item = (struct dead_item){
        .id = {row->bytes, found->id.n},
        .job = row->job,
        .raw = {row->bytes + found->id.n, raw_n},
        .letter = {.status = row->tries.status,
                   .attempts = row->tries.attempts,
                   .replays = row->tries.replays,
                   .first_ms = row->tries.first_ms,
                   .last_ms = row->tries.last_ms},
        .buried_ms = found->buried_ms,
        .refused = found->refused,
        .due_ms = found->due_ms,
    };
}

static void ask(struct run *run);

static void on_told(void *arg, const struct store_dead_reply *told)
{
    struct run *run = arg;
    if (told == NULL) {
        /* What was done before counts, and the cursor names the bucket without answer. */
        run->code = run->looked > 0
                        ? DEAD_OK
                        : wrong(run, DEAD_AWAY, "Redis did not answer; ask again");
        answer(run);
        return;
    }
    run->rows =
        mem_realloc(run->rows, (run->count + told->count + 1) * sizeof(*run->rows));
    for (unsigned i = 0; i < told->count; i++)
        keep(run, &told->items[i]);
    run->looked += (unsigned)told->looked;
    run->done += (unsigned)told->done;
    run->refused += (unsigned)told->refused;
    run->at.end_ms = told->end_ms;
    run->at.next_us = told->next_us;
    run->at.after_ms = told->more ? told->after_ms : 0;
    buf_clear(&run->at.after);
    if (told->more)
        buf_add_slice(&run->at.after, told->after);
    else
        run->at.bucket++;
    run->over = run->q.id_whole || next_bucket(run) == NULL;
    if (run->over || told->more || run->count >= run->q.max ||
        run->looked >= STORE_DEAD_MAX || run->bytes >= STORE_DEAD_BYTES)
        answer(run);
    else
        ask(run);
}

static void ask(struct run *run)
{
    static const char whats[] = {[DEAD_LIST] = DEAD_WHAT_LIST,
                                 [DEAD_REPLAY] = DEAD_WHAT_REPLAY,
                                 [DEAD_DROP] = DEAD_WHAT_DROP};
    const struct dead_query *q = &run->q;
    const struct sched *s = next_bucket(run);
    const struct store_dead_ask how = {
        .what = whats[q->what],
        .dry_run = q->dry_run,
        .id_whole = q->id_whole,
        .id = q->id_prefix,
        .reason = slice_of(q->reason ? q->reason : ""),
        .from_ms = q->from_ms,
        .to_ms = run->at.end_ms,
        .after_ms = run->at.after_ms,
        .after = buf_slice(&run->at.after),
        .max = q->max - run->count,
        .look = STORE_DEAD_MAX - run->looked,
        .replays_max = run->route->conf->replays_max,
        .step_us = q->rate > 0 ? (int64_t)ceil(1e6 / q->rate) : 0,
        .next_us = run->at.next_us,
        .bytes_max = STORE_DEAD_BYTES,
    };
    must(s != NULL); /* since the last look at it */
    store_dead(s->bucket, &how, on_told, run);
}

/* --- the question --- */

static void copy_texts(struct run *run)
{
    struct dead_query *q = &run->q;
    size_t reason_n = q->reason ? strlen(q->reason) : 0;
    run->texts = mem_alloc(q->id_prefix.n + reason_n + 1);
    slice_put(run->texts, q->id_prefix);
    q->id_prefix.p = run->texts;
    if (q->reason)
        q->reason = memcpy(run->texts + q->id_prefix.n, q->reason, reason_n);
}

static bool is_reason(const char *word)
{
    return strcmp(reason_name(reason_find(word)), word) == 0;
}

static enum dead_code wrong_reason(struct run *run)
{
    wrong(run, DEAD_BAD_REASON, "\"%.40s\" is no reason; there are:", run->q.reason);
    for (int i = 0; i < REASONS; i++)
        buf_addf(&run->why, " %s", reason_name((enum reason)i));
    return DEAD_BAD_REASON;
}

static bool is_good(struct run *run)
{
    const struct dead_cursor *c = &run->at;
    return next_bucket(run) != NULL && c->end_ms <= WHEN_LAST_MS &&
           c->next_us <= WHEN_LAST_MS * 1000 && c->after_ms <= WHEN_LAST_MS;
}

/* Sets where the run begins. */
static enum dead_code begin(struct run *run, struct slice name, struct slice cursor)
{
    const struct dead_query *q = &run->q;
    struct dead_cursor *at = &run->at;
    if (run->route == NULL)
        return wrong(run, DEAD_NO_ROUTE,
                     "there is no route %.*s; routes are configured under routes: { }",
                     name.n < 100 ? (int)name.n : 100, name.p);
    if (run->route->sink->rules)
        return wrong(
            run, DEAD_IS_QUEUE,
            "the route %s ends at queues, which keep their own dead letters: GET "
            "/v1/queues/NAME counts them, POST /v1/queues/NAME/dead/respawn brings them "
            "back, DELETE /v1/queues/NAME/dead deletes them",
            run->route->conf->name);
    if (run->route->bucket_count == 0)
        return wrong(run, DEAD_AWAY, "Redis was not there yet; ask again");
    if (q->reason && !is_reason(q->reason))
        return wrong_reason(run);
    at->end_ms = q->to_ms;
    if (cursor.n > 0 && (dead_cursor_read(cursor, at) < 0 || !is_good(run)))
        return wrong(run, DEAD_BAD_CURSOR,
                     "this cursor is none that the route %s has given; begin without one",
                     run->route->conf->name);
    if (q->id_whole)
        at->bucket = route_bucket_number(run->route, q->id_prefix);
    if (at->next_us < q->not_before_ms * 1000)
        at->next_us = q->not_before_ms * 1000;
    return DEAD_OK;
}

void dead_ask(struct bridge *bridge, struct slice route, const struct dead_query *q,
              dead_cb *cb, void *arg)
{
    struct run *run = mem_alloc(sizeof(*run));
    run->route = route_of_name(bridge, route);
    if (run->route)
        run->route->refs++;
    run->q = *q;
    run->cb = cb;
    run->arg = arg;
    copy_texts(run);
    must(q->max > 0 && q->max <= DEAD_MAX);
    run->code = begin(run, route, q->cursor);
    if (run->code == DEAD_OK)
        ask(run);
    else
        loop_defer(answer, run);
}
