/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_sizes.c - the gauges of how long the queues are. Redis is asked every five
 * seconds, and only while somebody has read them within the last minute; who reads them
 * after a longer silence waits until they are there, but not for a Redis that stalls.
 *
 * Jobs that came due are counted where they are consumed, if they were ready since the
 * last look into Redis, and at each look those that nobody has consumed.
 */
#include "sources/lmstfy/lmstfy_id.h"
#include "sources/lmstfy/lmstfy_metrics.h"

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
    int64_t fresh;              /* of the ready: since the look before, until this one */
};

struct pool_state {
    bool away; /* its Redis does not answer, and it has no gauges */
    bool has_usage;
    struct queue_usage usage;
    int64_t looked_ms,
        before_ms; /* its Redis' clock: when this look began, the last one */
    int64_t pushed,
        pushed_before; /* without a delay, and not consumed; before the look */
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
    struct pool_state *pools;
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
    if (q->ready < 0 || s->pools[q->pool].away ||
        lmstfy_cut_topic((struct slice){q->topic, q->topic_n}, &pool, &ns, &queue) < 0)
        return;
    const struct slice values[] = {ns, pool, queue};
    series_set(lmstfy_series(m, QUEUE_SIZES, values), (double)q->ready);
    series_set(lmstfy_series(m, DEADLETTER_SIZES, values), (double)q->dead);
    series_add(lmstfy_series(m, TIMER_SIZES, &pool), (double)q->timed);
}

static void set_usage(struct lmstfy_metrics *m, struct slice pool,
                      const struct queue_usage *usage)
{
    const struct {
        enum lmstfy_family f;
        int64_t n;
    } rows[] = {
        {MAX_MEM_BYTES, usage->max_bytes}, {USED_MEM_BYTES, usage->used_bytes},
        {CONNECTIONS, usage->clients},     {BLOCKING_CONNECTIONS, usage->blocked_clients},
        {TOTAL_KEYS, usage->keys},         {TOTAL_TTL_KEYS, usage->expiring_keys}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        series_set(lmstfy_series(m, rows[i].f, &pool), (double)rows[i].n);
}

static void set_gauges(struct lmstfy_sizes *s)
{
    struct lmstfy_metrics *m = s->m;
    for (int f = TIMER_SIZES; f < FAMILIES; f++)
        family_clear(&m->family[f]);
    for (size_t i = 0; i < m->l->pools.n; i++) {
        const struct slice pool = slice_of(m->l->pools.v[i]);
        if (!s->pools[i].away)
            series_set(lmstfy_series(m, TIMER_SIZES, &pool), 0);
        if (s->pools[i].has_usage)
            set_usage(m, pool, &s->pools[i].usage);
    }
    for (size_t i = 0; i < s->n; i++)
        set_queue(s, &s->v[i]);
}

/* ------------------------------------------------------------ what came due */

static struct pool_state *pool_at(const struct lmstfy_metrics *m, struct slice name)
{
    const struct opt_list *pools = &m->l->pools;
    for (size_t i = 0; i < pools->n; i++)
        if (slice_is(name, pools->v[i]))
            return &m->sizes->pools[i];
    return NULL;
}

void lmstfy_sizes_pushed(struct lmstfy_metrics *m, struct slice pool, unsigned jobs)
{
    struct pool_state *p = pool_at(m, pool);
    if (p)
        p->pushed += jobs;
}

void lmstfy_sizes_pulled(struct lmstfy_metrics *m, struct slice pool,
                         const struct queue_job *job)
{
    struct pool_state *p = pool_at(m, pool);
    if (p == NULL || job->ready_ms < p->looked_ms)
        return; /* the look has counted it */
    if (job->attempts > 1 || lmstfy_id_due_ms(job->id) > 0)
        series_add(lmstfy_series(m, TIMER_DUE_JOBS, &pool), 1);
    else if (p->pushed > 0)
        p->pushed--;
}

/* Of those that were published since the last look, it must not find this one. */
void lmstfy_sizes_deleted(struct lmstfy_metrics *m, struct slice pool, struct slice id)
{
    struct pool_state *p = pool_at(m, pool);
    if (p && p->pushed > 0 && lmstfy_id_due_ms(id) == 0 &&
        lmstfy_id_ms(id) >= p->looked_ms)
        p->pushed--;
}

/* What is ready since the last look was due, or was published without a delay. */
static void count_due(struct lmstfy_sizes *s, size_t pool)
{
    struct pool_state *p = &s->pools[pool];
    const struct slice name = slice_of(s->m->l->pools.v[pool]);
    int64_t fresh = -p->pushed_before;
    for (size_t i = 0; i < s->n; i++)
        fresh += s->v[i].pool == pool && s->v[i].ready >= 0 ? s->v[i].fresh : 0;
    if (p->away) { /* the next look counts from where this one did */
        p->looked_ms = p->before_ms;
        p->pushed += p->pushed_before;
    } else if (fresh > 0)
        series_add(lmstfy_series(s->m, TIMER_DUE_JOBS, &name), (double)fresh);
}

/* From here on what is ready by now is counted by the look alone. */
static void begin_look(struct lmstfy_sizes *s)
{
    struct pool_state *p = &s->pools[s->pool];
    struct buf topic = {0};
    lmstfy_any_topic(&topic, slice_of(s->m->l->pools.v[s->pool]));
    p->before_ms = p->looked_ms;
    p->looked_ms = source_now_ms(s->m->l->src, buf_slice(&topic));
    p->pushed_before = p->pushed;
    p->pushed = 0;
    buf_free(&topic);
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
        for (size_t i = 0; i < s->m->l->pools.n; i++)
            count_due(s, i);
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
static void ask_usage(struct lmstfy_sizes *s);

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
    s->pools[q->pool].away |= code == QUEUE_AWAY;
    if (code == QUEUE_OK) {
        q->ready = counts->ready;
        q->fresh = counts->span[1];
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
    const struct slice topic = {q->topic, q->topic_n};
    const struct pool_state *p = &s->pools[q->pool];
    const int64_t now_ms = source_now_ms(s->m->l->src, topic);
    const int64_t limits_ms[] = {p->before_ms - 1 - now_ms, p->looked_ms - 1 - now_ms};
    lmstfy_hold(s->m->l);
    queue_count(s->m->l->src, topic, limits_ms, 2, on_counted, call);
}

static void ask_more(struct lmstfy_sizes *s)
{
    while (!s->stopping && s->asked < s->n && s->asked - s->told < ASKED_AT_ONCE) {
        if (!s->pools[s->v[s->asked].pool].away) {
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

static void on_usage(void *arg, enum queue_code code, const struct queue_usage *usage)
{
    struct lmstfy_sizes *s = arg;
    struct lmstfy *l = s->m->l;
    struct pool_state *p = &s->pools[s->pool];
    p->has_usage = code == QUEUE_OK;
    if (usage)
        p->usage = *usage;
    s->pool++;
    list_pool(s);
    lmstfy_let_go(l);
}

static void ask_usage(struct lmstfy_sizes *s)
{
    struct lmstfy *l = s->m->l;
    struct buf topic = {0};
    lmstfy_any_topic(&topic, slice_of(l->pools.v[s->pool]));
    lmstfy_hold(l);
    queue_usage(l->src, buf_slice(&topic), on_usage, s);
    buf_free(&topic);
}

static void on_listed(void *arg, enum queue_code code, const struct queue_name *names,
                      unsigned n)
{
    struct lmstfy_sizes *s = arg;
    struct lmstfy *l = s->m->l;
    s->pools[s->pool].away = code == QUEUE_AWAY;
    if (code == QUEUE_OK && n > 0) {
        s->v = mem_realloc(s->v, (s->n + n) * sizeof(*s->v));
        for (unsigned i = 0; i < n; i++)
            keep(s, names[i].name);
    }
    ask_usage(s);
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
    begin_look(s);
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
    m->sizes->pools = mem_alloc((m->l->pools.n + 1) * sizeof(*m->sizes->pools));
    for (size_t i = 0; i < m->l->pools.n; i++)
        m->sizes->pools[i].looked_ms = source_now_ms(m->l->src, SLICE_LIT(""));
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
    free(m->sizes->pools);
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
