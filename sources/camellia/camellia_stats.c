/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/camellia/camellia.h"

#include <stdlib.h>

enum { TOPICS_MAX = 100000 };

const char *const camellia_count_names[CAMELLIA_COUNTS] = {
    [CAMELLIA_N_SEND] = "sendMsg",
    [CAMELLIA_N_PULL] = "pullMsg",
    [CAMELLIA_N_DELETE] = "deleteMsg",
    [CAMELLIA_N_ACK] = "ackMsg",
    [CAMELLIA_N_GET] = "getMsg",
    [CAMELLIA_N_READY] = "triggerMsgReady",
    [CAMELLIA_N_END] = "triggerMsgEndLife",
    [CAMELLIA_N_TIMEOUT] = "triggerMsgTimeout",
};

static struct camellia_topic *find(const struct camellia_stats *s, struct slice name)
{
    struct camellia_topic *t;
    HASH_FIND(hh, s->topics, name.p, name.n, t);
    return t;
}

struct camellia_topic *camellia_topic(struct camellia_stats *s, struct slice name)
{
    struct camellia_topic *t = find(s, name);
    if (t || HASH_COUNT(s->topics) >= TOPICS_MAX)
        return t;
    t = mem_alloc(sizeof(*t) + name.n);
    slice_put(t->bytes, name);
    t->name = (struct slice){t->bytes, name.n};
    HASH_ADD(hh, s->topics, bytes[0], (unsigned)name.n, t);
    return t;
}

static void drop(struct camellia_stats *s, struct camellia_topic *t)
{
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
    HASH_DEL(s->topics, t);
    free(t);
}

void camellia_count_calls(struct camellia_stats *s, struct slice topic,
                          enum camellia_count what, int64_t n)
{
    struct camellia_topic *t = camellia_topic(s, topic);
    if (t)
        t->now.counts[what] += n;
}

void camellia_count_miss(struct camellia_stats *s, struct slice topic,
                         enum camellia_count what)
{
    struct camellia_topic *t = find(s, topic);
    if (t)
        t->now.counts[what]++;
}

void camellia_gap_add(struct camellia_gap *g, int64_t gap_ms)
{
    int64_t ms = gap_ms < 0 ? -gap_ms : gap_ms;
    g->count++;
    g->sum_ms += ms;
    if (ms > g->max_ms)
        g->max_ms = ms;
}

double camellia_gap_avg(const struct camellia_gap *g)
{
    return g->count ? (double)g->sum_ms / (double)g->count : 0;
}

struct camellia_window camellia_last(const struct camellia_topic *t)
{
    struct camellia_window w = t->last;
    w.counts[CAMELLIA_N_READY] += t->unpulled_last;
    w.ready.count += t->unpulled.count;
    w.ready.sum_ms += t->unpulled.sum_ms;
    if (t->unpulled.max_ms > w.ready.max_ms)
        w.ready.max_ms = t->unpulled.max_ms;
    return w;
}

bool camellia_is_empty(const struct camellia_window *w)
{
    int64_t sum = w->pull.count + w->ready.count;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        sum += w->counts[i];
    return sum == 0;
}

void camellia_poll_ended(struct camellia_stats *s, struct camellia_topic *t)
{
    const struct camellia_window last = camellia_last(t);
    if (--t->polls == 0 && camellia_is_empty(&t->now) && camellia_is_empty(&last))
        drop(s, t);
}

void camellia_count_pull(const struct camellia_stats *s, struct camellia_topic *t,
                         int64_t ready_ms, int64_t now_ms)
{
    camellia_gap_add(&t->now.ready, now_ms > ready_ms ? now_ms - ready_ms : 0);
    if (ready_ms >= s->from_ms)
        t->now.counts[CAMELLIA_N_READY]++;
    else if (s->last_from_ms > 0 && ready_ms >= s->last_from_ms)
        t->last.counts[CAMELLIA_N_READY]++; /* until now it was counted in unpulled */
}

void camellia_clear_unpulled(struct camellia_stats *s)
{
    for (struct camellia_topic *t = s->topics; t; t = t->hh.next) {
        t->unpulled_last = 0;
        t->unpulled = (struct camellia_gap){0};
    }
}

void camellia_stats_next_window(struct camellia_stats *s, int64_t now_ms)
{
    struct camellia_topic *t, *next;
    s->last_from_ms = s->from_ms;
    s->from_ms = now_ms;
    HASH_ITER (hh, s->topics, t, next) {
        t->last = t->now;
        t->now = (struct camellia_window){0};
        t->unpulled_last = 0; /* belongs to the previous window */
        if (camellia_is_empty(&t->last) && t->polls == 0)
            drop(s, t);
    }
}

void camellia_stats_free(struct camellia_stats *s)
{
    struct camellia_topic *t, *next;
    HASH_ITER (hh, s->topics, t, next)
        drop(s, t);
    *s = (struct camellia_stats){0};
}
