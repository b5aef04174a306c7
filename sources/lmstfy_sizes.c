/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_sizes.c - the gauges of how long the queues are. Redis is asked every five
 * seconds, and only while somebody has read them within the last minute; who reads them
 * after a longer silence waits until they are there, but not for a Redis that stalls.
 */
#include "sources/lmstfy_metrics.h"

#include <stdlib.h>

enum {
    PERIOD_MS = 5000,
    WANTED_MS = 60 * 1000,
    PATIENCE_MS = 2000,
    ASKED_AT_ONCE = 16 /* counts on their way to Redis */
};

struct queue_size {
    char *topic;
    size_t topic_n, pool;
    int64_t ready, timed, dead; /* ready -1: not told; timed: in the timer, there */
};

struct waiting {
    struct lmstfy_call *call;
    void (*ready)(struct lmstfy_call *call);
};

struct lmstfy_sizes {
    struct lmstfy_metrics *m;
    struct timer *timer, *patience;
    int64_t wanted_ms, told_ms; /* monotonic: last time; 0: never */
    bool busy, stopping;
    bool *away;  /* of each pool: its Redis does not answer, and it has no gauges */
    size_t pool; /* whose queues are being listed */
    struct queue_size *v;
    size_t n, asked, told;
    struct waiting *waiting;
    size_t waiting_n;
};

static void clear(struct lmstfy_sizes *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i].topic);
    free(s->v);
    s->v = NULL;
    s->n = s->asked = s->told = 0;
}

/* ------------------------------------------------------------ the gauges */

static void set_queue(const struct lmstfy_sizes *s, const struct queue_size *q)
{
    struct lmstfy_metrics *m = s->m;
    struct slice pool, ns, queue;
    if (q->ready < 0 || s->away[q->pool] ||
        lmstfy_cut_topic((struct slice){q->topic, q->topic_n}, &pool, &ns, &queue) < 0)
        return;
    const struct slice values[] = {ns, pool, queue};
    series_set(lmstfy_series(m, QUEUE_SIZES, values), (double)q->ready);
    series_set(lmstfy_series(m, DEADLETTER_SIZES, values), (double)q->dead);
    series_add(lmstfy_series(m, TIMER_SIZES, &pool), (double)q->timed);
}

static void set_gauges(struct lmstfy_sizes *s)
{
    struct lmstfy_metrics *m = s->m;
    family_clear(&m->family[TIMER_SIZES]);
    family_clear(&m->family[QUEUE_SIZES]);
    family_clear(&m->family[DEADLETTER_SIZES]);
    for (size_t i = 0; i < m->l->pools.n; i++) {
        const struct slice pool = slice_of(m->l->pools.v[i]);
        if (!s->away[i])
            series_set(lmstfy_series(m, TIMER_SIZES, &pool), 0);
    }
    for (size_t i = 0; i < s->n; i++)
        set_queue(s, &s->v[i]);
}

static void answer_all(void *arg)
{
    struct lmstfy_sizes *s = arg;
    struct waiting *waiting = s->waiting;
    size_t n = s->waiting_n;
    s->waiting = NULL;
    s->waiting_n = 0;
    timer_rest(s->patience);
    for (size_t i = 0; i < n; i++)
        waiting[i].ready(waiting[i].call);
    free(waiting);
}

static void finish(struct lmstfy_sizes *s)
{
    int64_t now_ms = loop_mono_ms();
    if (!s->stopping) {
        set_gauges(s);
        s->told_ms = now_ms;
    }
    clear(s);
    s->busy = false;
    if (!s->stopping && now_ms - s->wanted_ms < WANTED_MS)
        timer_set(s->timer, PERIOD_MS);
    answer_all(s);
}

/* ------------------------------------------------------------ how long each is */

static void ask_more(struct lmstfy_sizes *s);

struct count_call {
    struct lmstfy_sizes *sizes;
    size_t at;
};

static void on_counted(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct count_call *call = arg;
    struct lmstfy_sizes *s = call->sizes;
    struct lmstfy *l = s->m->l;
    struct queue_size *q = &s->v[call->at];
    free(call);
    s->told++;
    s->away[q->pool] |= code == QUEUE_AWAY;
    if (code == QUEUE_OK) {
        q->ready = counts->ready;
        q->timed = counts->waiting + counts->in_flight;
        q->dead = counts->dead;
    }
    ask_more(s);
    lmstfy_let_go(l);
}

static void ask_one(struct lmstfy_sizes *s)
{
    struct count_call *call = mem_alloc(sizeof(*call));
    const struct queue_size *q = &s->v[s->asked];
    *call = (struct count_call){s, s->asked++};
    lmstfy_hold(s->m->l);
    queue_count(s->m->l->src, (struct slice){q->topic, q->topic_n}, NULL, 0, on_counted,
                call);
}

static void ask_more(struct lmstfy_sizes *s)
{
    while (!s->stopping && s->asked < s->n && s->asked - s->told < ASKED_AT_ONCE) {
        if (!s->away[s->v[s->asked].pool]) {
            ask_one(s);
        } else {
            s->asked++;
            s->told++;
        }
    }
    if (s->told == s->asked)
        finish(s);
}

/* ------------------------------------------------------------ which there are */

static void list_pool(struct lmstfy_sizes *s);

static void keep(struct lmstfy_sizes *s, struct slice topic)
{
    const struct slice wanted = slice_of(s->m->l->pools.v[s->pool]);
    struct slice pool, ns, queue;
    if (lmstfy_cut_topic(topic, &pool, &ns, &queue) < 0 || !slice_eq(pool, wanted) ||
        s->n >= SERIES_MAX)
        return;
    s->v[s->n++] = (struct queue_size){.topic = mem_strndup(topic.p, topic.n),
                                       .topic_n = topic.n,
                                       .pool = s->pool,
                                       .ready = -1};
}

static void on_listed(void *arg, enum queue_code code, const struct queue_name *names,
                      unsigned n)
{
    struct lmstfy_sizes *s = arg;
    struct lmstfy *l = s->m->l;
    s->away[s->pool] = code == QUEUE_AWAY;
    if (code == QUEUE_OK && n > 0) {
        s->v = mem_realloc(s->v, (s->n + n) * sizeof(*s->v));
        for (unsigned i = 0; i < n; i++)
            keep(s, names[i].name);
    }
    s->pool++;
    list_pool(s);
    lmstfy_let_go(l);
}

static void list_pool(struct lmstfy_sizes *s)
{
    struct lmstfy *l = s->m->l;
    struct buf topic = {0};
    if (s->pool == l->pools.n || s->stopping) {
        ask_more(s);
        return;
    }
    lmstfy_any_topic(&topic, slice_of(l->pools.v[s->pool]));
    lmstfy_hold(l);
    queue_list(l->src, buf_slice(&topic), on_listed, s);
    buf_free(&topic);
}

static void refresh(struct lmstfy_sizes *s)
{
    if (s->busy)
        return;
    s->busy = true;
    s->pool = 0;
    list_pool(s);
}

static void on_timer(void *arg)
{
    refresh(arg);
}

/* ------------------------------------------------------------ start and stop */

void lmstfy_sizes_start(struct lmstfy_metrics *m)
{
    m->sizes = mem_alloc(sizeof(*m->sizes));
    m->sizes->m = m;
    m->sizes->away = mem_alloc((m->l->pools.n + 1) * sizeof(bool));
    m->sizes->timer = timer_new(on_timer, m->sizes);
    m->sizes->patience = timer_new(answer_all, m->sizes);
}

void lmstfy_sizes_stop(struct lmstfy_metrics *m)
{
    m->sizes->stopping = true;
    timer_rest(m->sizes->timer);
    answer_all(m->sizes);
}

void lmstfy_sizes_free(struct lmstfy_metrics *m)
{
    timer_del(m->sizes->timer);
    timer_del(m->sizes->patience);
    clear(m->sizes);
    free(m->sizes->away);
    free(m->sizes);
}

void lmstfy_sizes_wanted(struct lmstfy_metrics *m, struct lmstfy_call *call,
                         void (*ready)(struct lmstfy_call *call))
{
    struct lmstfy_sizes *s = m->sizes;
    s->wanted_ms = loop_mono_ms();
    if (s->stopping || (s->told_ms > 0 && s->wanted_ms - s->told_ms < 2 * PERIOD_MS)) {
        ready(call);
        return;
    }
    s->waiting = mem_realloc(s->waiting, (s->waiting_n + 1) * sizeof(*s->waiting));
    s->waiting[s->waiting_n++] = (struct waiting){call, ready};
    if (!timer_is_set(s->patience))
        timer_set(s->patience, PATIENCE_MS);
    refresh(s);
}
