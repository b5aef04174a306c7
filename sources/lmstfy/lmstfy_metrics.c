/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.c - the statistics under the names that dashboards know.
 */
#include "sources/lmstfy/lmstfy_item.h"
#include "sources/lmstfy/lmstfy_metrics.h"

#include <stdio.h>
#include <stdlib.h>

#define PREFIX "infra_lmstfy_"
#define REDIS_COUNTER(word, text)                                                        \
    {                                                                                    \
        PREFIX "redis_" word, text, SERIES_COUNTER, {"pool"}, .buckets = 0               \
    }
#define REDIS_GAUGE(word, text)                                                          \
    {                                                                                    \
        PREFIX "redis_" word, text, SERIES_GAUGE, {"pool"}, .buckets = 0                 \
    }
#define QUEUE_LABELS                                                                     \
    {                                                                                    \
        "namespace", "pool", "queue"                                                     \
    }

static const struct series_row rows[FAMILIES] = {
    [HTTP_CODES] = {PREFIX "http_http_codes",
                    "Requests of the job API by route and status.",
                    SERIES_COUNTER,
                    {"api", "code", "method", "namespace", "pool"},
                    .buckets = 0},
    [HTTP_LATENCY] = {PREFIX "http_latency_milliseconds",
                      "Time of successful requests of the job API.",
                      SERIES_HISTOGRAM,
                      {"api", "method", "namespace", "pool"},
                      15,
                      2.5,
                      9},
    [HTTP_RATE_LIMIT] = {PREFIX "http_rate_limit",
                         "Requests refused for the limit of their token.",
                         SERIES_COUNTER,
                         {"action", "namespace", "pool", "token"},
                         .buckets = 0},
    [PUBLISH_JOBS] = REDIS_COUNTER("publish_jobs", "Jobs published."),
    [PUBLISH_QUEUE_JOBS] = {PREFIX "redis_publish_queue_jobs",
                            "Jobs published, by queue.", SERIES_COUNTER, QUEUE_LABELS,
                            .buckets = 0},
    [CONSUME_MULTI_JOBS] = REDIS_COUNTER("consume_multi_jobs", "Jobs handed out."),
    [CONSUME_QUEUE_JOBS] = {PREFIX "redis_consume_queue_jobs",
                            "Jobs handed out, by queue.", SERIES_COUNTER, QUEUE_LABELS,
                            .buckets = 0},
    [POOL_ADD_JOBS] = REDIS_COUNTER("pool_add_jobs", "Bodies of jobs stored."),
    [POOL_GET_JOBS] = REDIS_COUNTER("pool_get_jobs", "Bodies of jobs read."),
    [POOL_DELETE_JOBS] = REDIS_COUNTER("pool_delete_jobs", "Jobs deleted by their id."),
    [TIMER_ADD_JOBS] = REDIS_COUNTER("timer_add_jobs", "Jobs published with a delay."),
    [TIMER_DUE_JOBS] = REDIS_COUNTER(
        "timer_due_jobs", "Jobs whose delay has ended, or the time of their consumer."),
    [QUEUE_DIRECT_PUSH_JOBS] =
        REDIS_COUNTER("queue_direct_push_jobs", "Jobs published without a delay."),
    [QUEUE_POP_JOBS] = REDIS_COUNTER("queue_pop_jobs", "Jobs taken from their queue."),
    [JOB_ELAPSED_MS] = {PREFIX "redis_job_elapsed_ms",
                        "Time from the publication of a job to its delivery.",
                        SERIES_HISTOGRAM, QUEUE_LABELS, 15, 3.5, 7},
    [JOB_ACK_ELAPSED_MS] = {PREFIX "redis_job_ack_elapsed_ms",
                            "Time from the publication of a job to its deletion.",
                            SERIES_HISTOGRAM, QUEUE_LABELS, 15, 3.5, 7},
    [TIMER_SIZES] = {PREFIX "redis_timer_sizes",
                     "Jobs that are not due, and those that consumers have.",
                     SERIES_GAUGE,
                     {"pool"},
                     .buckets = 0},
    [QUEUE_SIZES] = {PREFIX "redis_queue_sizes", "Jobs ready to be consumed.",
                     SERIES_GAUGE, QUEUE_LABELS, .buckets = 0},
    [DEADLETTER_SIZES] = {PREFIX "redis_deadletter_sizes", "Jobs in the dead letter.",
                          SERIES_GAUGE, QUEUE_LABELS, .buckets = 0},
    [MAX_MEM_BYTES] = REDIS_GAUGE("max_mem_bytes", "maxmemory of Redis; 0: no limit."),
    [USED_MEM_BYTES] = REDIS_GAUGE("used_mem_bytes", "Memory that Redis uses."),
    [CONNECTIONS] = REDIS_GAUGE("connections", "Clients that are connected to Redis."),
    [BLOCKING_CONNECTIONS] =
        REDIS_GAUGE("blocking_connections", "Clients that wait in a command of Redis."),
    [TOTAL_KEYS] = REDIS_GAUGE("total_keys", "Keys in the database."),
    [TOTAL_TTL_KEYS] = REDIS_GAUGE("total_ttl_keys", "Keys in the database that expire."),
};

static void add_pools(struct lmstfy_metrics *m, enum lmstfy_family f)
{
    for (size_t i = 0; i < m->l->pools.n; i++) {
        const struct slice pool = slice_of(m->l->pools.v[i]);
        lmstfy_series(m, f, &pool);
    }
}

void lmstfy_metrics_start(struct lmstfy *l)
{
    struct lmstfy_metrics *m = mem_alloc(sizeof(*m));
    m->l = l;
    for (int i = 0; i < FAMILIES; i++)
        family_init(&m->family[i], &rows[i]);
    for (int i = PUBLISH_JOBS; i <= QUEUE_POP_JOBS; i++) {
        if (rows[i].label[1] == NULL) /* counters of a pool begin at 0 */
            add_pools(m, (enum lmstfy_family)i);
    }
    lmstfy_sizes_start(m);
    l->metrics = m;
}

void lmstfy_metrics_stop(struct lmstfy *l)
{
    lmstfy_sizes_stop(l->metrics);
}

void lmstfy_metrics_free(struct lmstfy *l)
{
    struct lmstfy_metrics *m = l->metrics;
    for (int i = 0; i < FAMILIES; i++)
        family_free(&m->family[i]);
    lmstfy_sizes_free(m);
    buf_free(&m->scratch);
    free(m);
    l->metrics = NULL;
}

/* ------------------------------------------------------------ counting */

struct series *lmstfy_series(struct lmstfy_metrics *m, enum lmstfy_family f,
                             const struct slice *values)
{
    return family_at(&m->family[f], values, SERIES_MAX, &m->scratch);
}

static void count(struct lmstfy_metrics *m, enum lmstfy_family f,
                  const struct slice *values, unsigned n)
{
    series_add(lmstfy_series(m, f, values), n);
}

static void observe(struct lmstfy_metrics *m, enum lmstfy_family f,
                    const struct slice *values, int64_t ms)
{
    if (ms >= 0)
        series_observe(lmstfy_series(m, f, values), &rows[f], (double)ms);
}

void lmstfy_count_http(struct lmstfy *l, const struct lmstfy_seen *seen)
{
    struct lmstfy_metrics *m = l->metrics;
    const struct slice api = slice_of(seen->api), method = slice_of(seen->method);
    /* Names that strangers make up must leave room for those of our clients. */
    const unsigned most = seen->known ? SERIES_MAX : SERIES_MAX / 2;
    char code[16];
    if (m == NULL)
        return;
    int n = snprintf(code, sizeof(code), "%u", seen->status);
    const struct slice of_code[] = {api, {code, (size_t)n}, method, seen->ns, seen->pool};
    const struct slice of_time[] = {api, method, seen->ns, seen->pool};
    series_add(family_at(&m->family[HTTP_CODES], of_code, most, &m->scratch), 1);
    if (seen->status < 300)
        series_observe(family_at(&m->family[HTTP_LATENCY], of_time, most, &m->scratch),
                       &rows[HTTP_LATENCY], (double)seen->latency_ms);
}

void lmstfy_count_publish(struct lmstfy *l, struct slice pool, struct slice ns,
                          struct slice queue, unsigned jobs, bool delayed)
{
    struct lmstfy_metrics *m = l->metrics;
    if (m == NULL)
        return;
    const struct slice of_queue[] = {ns, pool, queue};
    count(m, PUBLISH_JOBS, &pool, jobs);
    count(m, PUBLISH_QUEUE_JOBS, of_queue, jobs);
    count(m, POOL_ADD_JOBS, &pool, jobs);
    count(m, delayed ? TIMER_ADD_JOBS : QUEUE_DIRECT_PUSH_JOBS, &pool, jobs);
    if (!delayed)
        lmstfy_sizes_pushed(m, pool, jobs);
}

void lmstfy_count_consume(struct lmstfy *l, struct slice pool, struct slice ns,
                          struct slice queue, const struct queue_job *job)
{
    struct lmstfy_metrics *m = l->metrics;
    if (m == NULL)
        return;
    const struct slice of_queue[] = {ns, pool, queue};
    lmstfy_sizes_pulled(m, pool, job);
    count(m, CONSUME_MULTI_JOBS, &pool, 1);
    count(m, CONSUME_QUEUE_JOBS, of_queue, 1);
    count(m, QUEUE_POP_JOBS, &pool, 1);
    count(m, POOL_GET_JOBS, &pool, 1);
    observe(m, JOB_ELAPSED_MS, of_queue, lmstfy_elapsed_ms(job));
}

void lmstfy_count_unconsumed(struct lmstfy *l, struct slice pool, struct slice id)
{
    if (l->metrics)
        lmstfy_sizes_deleted(l->metrics, pool, id);
}

void lmstfy_count_ack(struct lmstfy *l, struct slice pool, struct slice ns,
                      struct slice queue, int64_t elapsed_ms)
{
    struct lmstfy_metrics *m = l->metrics;
    if (m == NULL)
        return;
    const struct slice of_queue[] = {ns, pool, queue};
    count(m, POOL_DELETE_JOBS, &pool, 1);
    observe(m, JOB_ACK_ELAPSED_MS, of_queue, elapsed_ms);
}

/* Where accounts guard the tokens, /metrics, which is open to all, must not show them:
 * then their last four characters have to do. */
void lmstfy_count_refused(struct lmstfy *l, struct slice pool, struct slice ns,
                          struct slice token, enum lmstfy_action action)
{
    struct lmstfy_metrics *m = l->metrics;
    if (m == NULL)
        return;
    if (l->accounts.n > 0 && token.n > 4)
        token = (struct slice){token.p + token.n - 4, 4};
    const struct slice values[] = {
        slice_of(action == LMSTFY_PRODUCE ? "produce" : "consume"), ns, pool, token};
    count(m, HTTP_RATE_LIMIT, values, 1);
}

/* ------------------------------------------------------------ GET /metrics */

static void answer(struct lmstfy_call *call)
{
    const struct lmstfy_metrics *m = call->l->metrics;
    for (int i = 0; i < FAMILIES; i++) {
        if (m->family[i].n > 0)
            family_text(&m->family[i], &call->out);
    }
    lmstfy_call_text(call, 200, "text/plain; version=0.0.4; charset=utf-8");
}

void lmstfy_metrics_get(struct lmstfy_call *call)
{
    lmstfy_sizes_wanted(call->l->metrics, call, answer);
}
