/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_sizes.c - the gauges of queue sizes. Redis is queried every five seconds, but
 * only if somebody has read the gauges within the last minute. After a longer pause a
 * reader waits for the query, but not for a hanging Redis.
 *
 * Due jobs are counted when they are consumed, if they became ready since the last query.
 * Each query adds the ready jobs that are not consumed yet.
 */
#include "sources/lmstfy/lmstfy_metrics.h"

#include <stdlib.h>

enum { PERIOD_MS = 5000, WANTED_MS = 60 * 1000, PATIENCE_MS = 2000 };

struct pool_state {
    struct slice name;
    int64_t looked_ms, before_ms; /* start of this query and of the last, on the clock of
                                   * its Redis */
    int64_t pushed;        /* published without a delay and not consumed, since this query
                            * began */
    int64_t pushed_before; /* likewise, between the last query and this one */
};

struct lmstfy_sizes {
    struct lmstfy_metrics *m;
    struct timer *timer, *patience;
    int64_t wanted_ms, told_ms; /* monotonic: last read by a client, last answer; 0:
                                 * never */
    bool busy, stopping;
    struct pool_state *pools;
    size_t pool_n, pool;          /* pool: index of the pool being queried */
    struct family next[FAMILIES]; /* gauges of the running query */
    struct lmstfy_req **waiting;  /* requests that wait for the query */
    size_t waiting_n;
};

/* ------------------------------------------------------------ what came due */

static struct pool_state *pool_at(const struct lmstfy_metrics *m, struct slice name)
{
    for (size_t i = 0; i < m->sizes->pool_n; i++)
        if (slice_eq(name, m->sizes->pools[i].name))
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
        return; /* the query has counted it */
    if (job->attempts > 1 || lmstfy_id_due_ms(job->id) > 0)
        series_add(lmstfy_series(m, TIMER_DUE_JOBS, &pool), 1);
    else if (p->pushed > 0)
        p->pushed--;
}

/* Removes the job from the jobs published since the last query. */
void lmstfy_sizes_deleted(struct lmstfy_metrics *m, struct slice pool, struct slice id)
{
    struct pool_state *p = pool_at(m, pool);
    if (p && p->pushed > 0 && lmstfy_id_due_ms(id) == 0 &&
        lmstfy_id_ms(id) >= p->looked_ms)
        p->pushed--;
}

/* ready: jobs that became ready since the last query, because they were due or published
 * without a delay. */
static void count_due(struct lmstfy_sizes *s, const struct pool_state *p, int64_t ready)
{
    if (ready > p->pushed_before)
        series_add(lmstfy_series(s->m, TIMER_DUE_JOBS, &p->name),
                   (double)(ready - p->pushed_before));
}

/* ------------------------------------------------------------ the gauges */

static struct series *gauge(struct lmstfy_sizes *s, enum lmstfy_family f,
                            const struct slice *values)
{
    return family_at(&s->next[f], values, SERIES_MAX, &s->m->scratch);
}

static void answer_all(void *arg)
{
    struct lmstfy_sizes *s = arg;
    struct lmstfy_req **waiting = s->waiting;
    size_t n = s->waiting_n;
    s->waiting = NULL;
    s->waiting_n = 0;
    timer_stop(s->patience);
    for (size_t i = 0; i < n; i++)
        lmstfy_metrics_show(waiting[i]);
    free(waiting);
}

static void finish(struct lmstfy_sizes *s)
{
    const int64_t now_ms = loop_mono_ms();
    for (int f = TIMER_SIZES; f < FAMILIES && !s->stopping; f++) {
        family_free(&s->m->family[f]);
        s->m->family[f].series = s->next[f].series;
        s->next[f].series = NULL;
    }
    s->told_ms = now_ms;
    s->busy = false;
    if (!s->stopping && now_ms - s->wanted_ms < WANTED_MS)
        timer_set(s->timer, PERIOD_MS);
    answer_all(s);
}

/* ------------------------------------------------------------ one pool */

static void look(struct lmstfy_sizes *s);

static void on_usage(void *arg, enum queue_code code, const struct queue_usage *usage)
{
    struct lmstfy_sizes *s = arg;
    struct lmstfy *l = s->m->l;
    const struct slice *pool = &s->pools[s->pool++].name;
    if (code == QUEUE_OK) {
        const int64_t values[] = {usage->max_bytes, usage->used_bytes,
                                  usage->clients,   usage->blocked_clients,
                                  usage->keys,      usage->expiring_keys};
        for (int f = MAX_MEM_BYTES; f < FAMILIES; f++)
            series_set(gauge(s, f, pool), (double)values[f - MAX_MEM_BYTES]);
    }
    look(s);
    lmstfy_unref(l);
}

static void set_queues(struct lmstfy_sizes *s, const struct queue_counted *queues,
                       size_t n)
{
    const struct pool_state *p = &s->pools[s->pool];
    struct slice pool = p->name, ns, queue;
    int64_t ready = 0;
    series_set(gauge(s, TIMER_SIZES, &pool), 0);
    for (size_t i = 0; i < n; i++) {
        const struct queue_counts *counts = &queues[i].counts;
        if (!queues[i].known ||
            lmstfy_split_topic(queues[i].name, &pool, &ns, &queue) < 0)
            continue;
        const struct slice values[] = {ns, pool, queue};
        series_set(gauge(s, QUEUE_SIZES, values), (double)counts->ready);
        series_set(gauge(s, DEADLETTER_SIZES, values), (double)counts->dead);
        series_add(gauge(s, TIMER_SIZES, &pool),
                   (double)(counts->waiting + counts->in_flight));
        ready += counts->span[1];
    }
    count_due(s, p, ready);
}

static void on_surveyed(void *arg, const struct queue_counted *queues, size_t n)
{
    struct lmstfy_sizes *s = arg;
    struct lmstfy *l = s->m->l;
    struct pool_state *p = &s->pools[s->pool];
    struct buf topic = {0};
    if (queues) {
        set_queues(s, queues, n);
    } else { /* the next query counts from the same time */
        p->looked_ms = p->before_ms;
        p->pushed += p->pushed_before;
    }
    lmstfy_any_topic(&topic, p->name);
    lmstfy_ref(l);
    queue_usage(l->api.src, buf_slice(&topic), on_usage, s);
    buf_free(&topic);
    lmstfy_unref(l);
}

/* The second span contains jobs that became ready between the last query and this one. */
static int set_limits(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS])
{
    const struct lmstfy_sizes *s = arg;
    const struct pool_state *p = &s->pools[s->pool];
    struct slice pool, ns, queue;
    if (s->stopping || lmstfy_split_topic(name, &pool, &ns, &queue) < 0 ||
        !slice_eq(pool, p->name))
        return -1;
    const int64_t now_ms = source_now_ms(s->m->l->api.src, name);
    limits_ms[0] = p->before_ms - 1 - now_ms;
    limits_ms[1] = p->looked_ms - 1 - now_ms;
    return 2;
}

/* Queries the next pool. Jobs that are ready now are counted only by this query. */
static void look(struct lmstfy_sizes *s)
{
    struct lmstfy *l = s->m->l;
    struct pool_state *p = &s->pools[s->pool];
    struct buf topic = {0};
    if (s->pool == s->pool_n || s->stopping) {
        finish(s);
        return;
    }
    lmstfy_any_topic(&topic, p->name);
    p->before_ms = p->looked_ms;
    p->looked_ms = source_now_ms(l->api.src, buf_slice(&topic));
    p->pushed_before = p->pushed;
    p->pushed = 0;
    lmstfy_ref(l);
    queue_survey(
        l->api.src, buf_slice(&topic),
        &(struct queue_survey){
            .most = SERIES_MAX, .limits = set_limits, .cb = on_surveyed, .arg = s});
    buf_free(&topic);
}

static void refresh(void *arg)
{
    struct lmstfy_sizes *s = arg;
    if (s->busy)
        return;
    s->busy = true;
    s->pool = 0;
    look(s);
}

/* ------------------------------------------------------------ start and stop */

void lmstfy_sizes_start(struct lmstfy_metrics *m)
{
    const struct opt_list *pools = &m->l->pools;
    struct lmstfy_sizes *s = mem_alloc(sizeof(*s));
    m->sizes = s;
    s->m = m;
    s->pools = mem_alloc((pools->n + 1) * sizeof(*s->pools));
    for (; s->pool_n < pools->n; s->pool_n++) {
        s->pools[s->pool_n].name = slice_of(pools->v[s->pool_n]);
        s->pools[s->pool_n].looked_ms = source_now_ms(m->l->api.src, SLICE_LIT(""));
    }
    for (int f = TIMER_SIZES; f < FAMILIES; f++)
        s->next[f].row = &lmstfy_families[f];
    s->timer = timer_new(refresh, s);
    s->patience = timer_new(answer_all, s);
}

void lmstfy_sizes_stop(struct lmstfy_metrics *m)
{
    m->sizes->stopping = true;
    timer_stop(m->sizes->timer);
    answer_all(m->sizes);
}

void lmstfy_sizes_free(struct lmstfy_metrics *m)
{
    struct lmstfy_sizes *s = m->sizes;
    timer_del(s->timer);
    timer_del(s->patience);
    for (int f = TIMER_SIZES; f < FAMILIES; f++)
        family_free(&s->next[f]);
    free(s->pools);
    free(s);
}

void lmstfy_sizes_request(struct lmstfy_metrics *m, struct lmstfy_req *r)
{
    struct lmstfy_sizes *s = m->sizes;
    s->wanted_ms = loop_mono_ms();
    if (s->stopping || (s->told_ms > 0 && s->wanted_ms - s->told_ms < 2 * PERIOD_MS)) {
        lmstfy_metrics_show(r);
        return;
    }
    s->waiting = mem_realloc(s->waiting, (s->waiting_n + 1) * sizeof(*s->waiting));
    s->waiting[s->waiting_n++] = r;
    if (!timer_is_set(s->patience))
        timer_set(s->patience, PATIENCE_MS);
    refresh(s);
}
