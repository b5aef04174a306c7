/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_probe.c - asks a server about itself: all questions at once, answered in order.
 * What the answers mean: redis_facts.c.
 */
#include "bridge/redis/redis_probe.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

struct question {
    bool memory_too;   /* also asked by redis_probe_memory() */
    const char *info;  /* a section of INFO; NULL: */
    const char *param; /* of CONFIG GET. One at a time: Redis 6 takes no more. */
};

static const struct question questions[] = {
    {.info = "server"},
    {.info = "memory", .memory_too = true},
    {.info = "replication", .memory_too = true},
    {.info = "persistence"},
    {.param = "appendonly"},
    {.param = "appendfsync"},
    {.param = "no-appendfsync-on-rewrite"},
    {.param = "save"},
    {.param = "min-replicas-to-write"},
};
enum { QUESTIONS = sizeof(questions) / sizeof(questions[0]) };

struct probe {
    struct redis_facts *facts;
    struct redis_keeping keeping;
    bool memory_only;
    size_t next; /* question that the next answer is to */
    bool lost;
    redis_probe_cb *cb;
    void *arg;
};

/* The next question that this probe asks, from i on; QUESTIONS: none. */
static size_t next_question(const struct probe *p, size_t i)
{
    while (i < QUESTIONS && p->memory_only && !questions[i].memory_too)
        i++;
    return i;
}

static void take(struct probe *p, const struct question *q,
                 const struct redisReply *reply)
{
    struct slice value = {NULL, 0};
    if (q->info)
        redis_facts_info(p->facts, &p->keeping, redis_text(reply));
    else if (redis_items(reply) == 2)
        value = redis_text(redis_item(reply, 1));
    if (q->param)
        redis_facts_config(p->facts, &p->keeping, q->param, value);
}

static void on_answer(void *arg, const struct redisReply *reply)
{
    struct probe *p = arg;
    if (reply == NULL)
        p->lost = true;
    else
        take(p, &questions[p->next], reply);
    p->next = next_question(p, p->next + 1);
    if (p->next < QUESTIONS)
        return;
    if (!p->memory_only)
        p->facts->keeps = redis_facts_keeps(&p->keeping);
    p->cb(p->arg, !p->lost);
    free(p);
}

static void probe(struct redis *r, struct redis_facts *facts, bool memory_only,
                  redis_probe_cb *cb, void *arg)
{
    struct probe *p = mem_alloc(sizeof(*p));
    struct redis_facts fresh;
    redis_facts_begin(&fresh, &p->keeping);
    if (!memory_only)
        *facts = fresh;
    p->facts = facts;
    p->memory_only = memory_only;
    p->cb = cb;
    p->arg = arg;
    p->next = next_question(p, 0);
    for (size_t i = p->next; i < QUESTIONS; i = next_question(p, i + 1)) {
        const struct question *q = &questions[i];
        const struct slice info[] = {SLICE_LIT("INFO"), slice_of(q->info)};
        const struct slice config[] = {SLICE_LIT("CONFIG"), SLICE_LIT("GET"),
                                       slice_of(q->param)};
        redis_command(r, q->info ? info : config, q->info ? 2 : 3, on_answer, p);
    }
}

void redis_probe(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                 void *arg)
{
    probe(r, facts, false, cb, arg);
}

void redis_probe_memory(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                        void *arg)
{
    probe(r, facts, true, cb, arg);
}

/* ----------------------------------------------------------------------- its clock */

void clock_sample(struct clock *c, int64_t sent_us, int64_t received_us, int64_t redis_us)
{
    c->low_us[c->next] = redis_us - received_us;
    c->high_us[c->next] = redis_us - sent_us;
    unsigned latest = c->next;
    c->next = (c->next + 1) % CLOCK_SAMPLES;
    if (c->count < CLOCK_SAMPLES)
        c->count++;

    int64_t low = c->low_us[0], high = c->high_us[0];
    for (unsigned i = 1; i < c->count; i++) {
        low = c->low_us[i] > low ? c->low_us[i] : low;
        high = c->high_us[i] < high ? c->high_us[i] : high;
    }
    if (low > high) { /* a clock jumped: only the latest sample counts */
        low = c->low_us[latest];
        high = c->high_us[latest];
        c->low_us[0] = low;
        c->high_us[0] = high;
        c->count = c->next = 1;
    }
    c->best_low_us = low;
    c->best_high_us = high;
}

bool clock_is_set(const struct clock *c)
{
    return c->count > 0;
}

int64_t clock_now_ms(const struct clock *c, int64_t mono_us)
{
    return (mono_us + c->best_high_us + 999) / 1000;
}

int64_t clock_until_us(const struct clock *c, int64_t mono_us, int64_t due_ms)
{
    if (due_ms > INT64_MAX / 2000) /* out of the range of microseconds: far away */
        return INT64_MAX / 2;
    if (due_ms < 0)
        return 0;
    int64_t wait_us = due_ms * 1000 - (mono_us + c->best_low_us);
    return wait_us > 0 ? wait_us : 0;
}
