/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/camellia/camellia_stats.h"
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"

#include <stdlib.h>
#include <sys/random.h>

enum { SLOTS_FIRST = 256, TOPICS_MAX = 100000 };

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

/* FNV-1a with a seed that nobody outside knows. */
static uint64_t topic_hash(const struct camellia_stats *s, struct slice name)
{
    uint64_t hash = hash_fnv1a(s->seed ^ HASH_FNV1A, name);
    return hash ^ hash >> 32;
}

static void grow(struct camellia_stats *s)
{
    size_t count = s->slot_count ? s->slot_count * 4 : SLOTS_FIRST;
    struct camellia_topic **slots = mem_alloc(count * sizeof(struct camellia_topic *));
    for (size_t i = 0; i < s->slot_count; i++) {
        for (struct camellia_topic *t = s->slots[i], *next; t; t = next) {
            next = t->next;
            t->next = slots[t->hash % count];
            slots[t->hash % count] = t;
        }
    }
    free(s->slots);
    s->slots = slots;
    s->slot_count = count;
}

static struct camellia_topic *find(const struct camellia_stats *s, uint64_t hash,
                                   struct slice name)
{
    if (s->slot_count == 0)
        return NULL;
    for (struct camellia_topic *t = s->slots[hash % s->slot_count]; t; t = t->next) {
        if (t->hash == hash && slice_eq(t->name, name))
            return t;
    }
    return NULL;
}

struct camellia_topic *camellia_topic(struct camellia_stats *s, struct slice name)
{
    if (s->slot_count == 0 && getrandom(&s->seed, sizeof(s->seed), GRND_NONBLOCK) < 0)
        s->seed = 0;
    if (s->topic_count >= s->slot_count)
        grow(s);
    uint64_t hash = topic_hash(s, name);
    struct camellia_topic *t = find(s, hash, name);
    if (t || s->topic_count >= TOPICS_MAX)
        return t;
    struct camellia_topic **slot = &s->slots[hash % s->slot_count];
    t = mem_alloc(sizeof(*t));
    t->hash = hash;
    t->name = (struct slice){mem_strndup(name.p ? name.p : "", name.n), name.n};
    t->next = *slot;
    *slot = t;
    s->topic_count++;
    return t;
}

void camellia_counted(struct camellia_stats *s, struct slice topic,
                      enum camellia_count what, int64_t n)
{
    struct camellia_topic *t = camellia_topic(s, topic);
    if (t)
        t->now.counts[what] += n;
}

void camellia_counted_miss(struct camellia_stats *s, struct slice topic,
                           enum camellia_count what)
{
    struct camellia_topic *t = find(s, topic_hash(s, topic), topic);
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

static void topic_free(struct camellia_topic *t)
{
    free((char *)(uintptr_t)t->name.p);
    free(t);
}

static bool is_empty(const struct camellia_window *w)
{
    int64_t sum = w->pull.count + w->ready.count;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        sum += w->counts[i];
    return sum == 0;
}

void camellia_poll_ended(struct camellia_stats *s, struct camellia_topic *t)
{
    struct camellia_topic **at = &s->slots[t->hash % s->slot_count];
    if (--t->polls > 0 || !is_empty(&t->now) || !camellia_topic_is_quiet(t))
        return;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    topic_free(t);
    s->topic_count--;
}

void camellia_pulled(const struct camellia_stats *s, struct camellia_topic *t,
                     int64_t ready_ms, int64_t now_ms)
{
    camellia_gap_add(&t->now.ready, now_ms > ready_ms ? now_ms - ready_ms : 0);
    if (ready_ms >= s->from_ms)
        t->now.counts[CAMELLIA_N_READY]++;
    else if (s->last_from_ms > 0 && ready_ms >= s->last_from_ms)
        t->last.counts[CAMELLIA_N_READY]++; /* until now it was one that nobody pulled */
}

int64_t camellia_count_of(const struct camellia_topic *t, enum camellia_count what)
{
    return t->last.counts[what] + (what == CAMELLIA_N_READY ? t->unpulled_last : 0);
}

struct camellia_gap camellia_ready_gap(const struct camellia_topic *t)
{
    struct camellia_gap gap = t->last.ready;
    gap.count += t->unpulled.count;
    gap.sum_ms += t->unpulled.sum_ms;
    if (t->unpulled.max_ms > gap.max_ms)
        gap.max_ms = t->unpulled.max_ms;
    return gap;
}

bool camellia_topic_is_quiet(const struct camellia_topic *t)
{
    return is_empty(&t->last) && t->unpulled_last == 0 && t->unpulled.count == 0;
}

void camellia_forget_unpulled(struct camellia_stats *s)
{
    for (size_t i = 0; i < s->slot_count; i++) {
        for (struct camellia_topic *t = s->slots[i]; t; t = t->next) {
            t->unpulled_last = 0;
            t->unpulled = (struct camellia_gap){0};
        }
    }
}

void camellia_stats_turn(struct camellia_stats *s, int64_t now_ms)
{
    s->last_from_ms = s->from_ms;
    s->from_ms = now_ms;
    for (size_t i = 0; i < s->slot_count; i++) {
        for (struct camellia_topic **at = &s->slots[i]; *at;) {
            struct camellia_topic *t = *at;
            t->last = t->now;
            t->now = (struct camellia_window){0};
            t->unpulled_last = 0; /* of the window before */
            if (is_empty(&t->last) && t->polls == 0) {
                *at = t->next;
                topic_free(t);
                s->topic_count--;
            } else {
                at = &t->next;
            }
        }
    }
}

void camellia_each_topic(const struct camellia_stats *s, camellia_topic_cb *cb, void *arg)
{
    for (size_t i = 0; i < s->slot_count; i++) {
        for (const struct camellia_topic *t = s->slots[i]; t; t = t->next)
            cb(arg, t);
    }
}

void camellia_stats_free(struct camellia_stats *s)
{
    for (size_t i = 0; i < s->slot_count; i++) {
        while (s->slots[i]) {
            struct camellia_topic *next = s->slots[i]->next;
            topic_free(s->slots[i]);
            s->slots[i] = next;
        }
    }
    free(s->slots);
    *s = (struct camellia_stats){0};
}
