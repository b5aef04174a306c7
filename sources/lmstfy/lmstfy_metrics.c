/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.c - the statistics with the metric names of the original's dashboards.
 * The gauges are read from Redis for each request, which waits for them, but not for a
 * hanging Redis. Concurrent requests share the answer.
 */
#include "sources/lmstfy/lmstfy_metrics.h"
#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "bridge/metrics/stats.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 2000 };

/* ------------------------------------------------------------ families */

struct series {
    UT_hash_handle hh;
    double value; /* histogram: the sum of observed values */
    uint64_t count, bucket[SERIES_BUCKETS];
    char key[]; /* each value and a NUL */
};

unsigned family_count(const struct family *f)
{
    return HASH_COUNT(f->series);
}

void family_free(struct family *f)
{
    struct series *s, *next;
    HASH_ITER (hh, f->series, s, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(f->series, s);
        free(s);
    }
}

/* Returns the value, or "" if it is not a valid name. */
static struct slice good(struct slice s)
{
    bool bad = s.n > SERIES_VALUE_MAX || (s.n > 0 && memchr(s.p, 0, s.n) != NULL) ||
               !text_is_utf8(s);
    return bad ? SLICE_LIT("") : s;
}

struct series *family_at(struct family *f, const struct slice *values, unsigned most,
                         struct buf *scratch)
{
    struct series *s;
    buf_clear(scratch);
    for (unsigned i = 0; f->row->labels[i]; i++) {
        buf_add_slice(scratch, good(values[i]));
        buf_add(scratch, "", 1);
    }
    HASH_FIND(hh, f->series, scratch->p, scratch->n, s);
    if (s || family_count(f) >= most)
        return s;
    s = mem_alloc(sizeof(*s) + scratch->n);
    memcpy(s->key, scratch->p, scratch->n);
    HASH_ADD(hh, f->series, key[0], (unsigned)scratch->n, s);
    return s;
}

void series_add(struct series *s, double amount)
{
    if (s)
        s->value += amount;
}

void series_set(struct series *s, double value)
{
    if (s)
        s->value = value;
}

void series_observe(struct series *s, const struct series_type *type, double value)
{
    double bound = type->first;
    unsigned i = 0;
    if (s == NULL)
        return;
    s->value += value;
    s->count++;
    for (; i < type->buckets && value > bound; i++)
        bound *= type->factor;
    if (i < type->buckets)
        s->bucket[i]++;
}

/* labels: those of s, with space for another at `at`. */
static void add_histogram(struct buf *out, const struct series_row *row,
                          const struct series *s, struct label *labels, unsigned at)
{
    char name[128], le[32] = "+Inf";
    double bound = row->type->first;
    uint64_t so_far = 0;
    snprintf(name, sizeof(name), "%s_bucket", row->name);
    for (unsigned i = 0; i < row->type->buckets; i++) {
        so_far += s->bucket[i];
        snprintf(le, sizeof(le), "%.15g", bound);
        labels[at] = (struct label){"le", le};
        metric_count(out, name, labels, so_far);
        bound *= row->type->factor;
    }
    labels[at] = (struct label){"le", "+Inf"};
    metric_count(out, name, labels, s->count);
    labels[at] = (struct label){NULL, NULL};
    snprintf(name, sizeof(name), "%s_sum", row->name);
    metric_real(out, name, labels, s->value);
    snprintf(name, sizeof(name), "%s_count", row->name);
    metric_count(out, name, labels, s->count);
}

void family_text(const struct family *f, struct buf *out)
{
    const struct series_row *row = f->row;
    metric_head(out, row->name, row->type->word, row->help);
    for (const struct series *s = f->series; s; s = s->hh.next) {
        struct label labels[SERIES_LABELS + 2] = {{NULL, NULL}};
        const char *value = s->key;
        unsigned n = 0;
        for (; row->labels[n]; value += strlen(value) + 1, n++)
            labels[n] = (struct label){row->labels[n], value};
        if (row->type->buckets > 0)
            add_histogram(out, row, s, labels, n);
        else
            metric_real(out, row->name, labels, s->value);
    }
}

/* ------------------------------------------------------------ those of lmstfy */

static const struct series_type counter = {"counter", 0, 0, 0};
static const struct series_type gauge = {"gauge", 0, 0, 0};
static const struct series_type latency = {"histogram", 15, 2.5, 9};
static const struct series_type elapsed = {"histogram", 15, 3.5, 7};
static const char *const by_pool[] = {"pool", NULL};
static const char *const by_queue[] = {"namespace", "pool", "queue", NULL};
static const char *const by_code[] = {"api", "code", "method", "namespace", "pool", NULL};
static const char *const by_api[] = {"api", "method", "namespace", "pool", NULL};
static const char *const by_token[] = {"action", "namespace", "pool", "token", NULL};

enum family_name {
    HTTP_RATE_LIMIT = HTTP_LATENCY + 1,
    PUBLISH_JOBS,
    PUBLISH_QUEUE_JOBS,
    CONSUME_MULTI_JOBS,
    CONSUME_QUEUE_JOBS,
    POOL_ADD_JOBS,
    POOL_GET_JOBS,
    POOL_DELETE_JOBS,
    TIMER_ADD_JOBS,
    TIMER_DUE_JOBS,
    QUEUE_DIRECT_PUSH_JOBS,
    QUEUE_POP_JOBS,
    JOB_ELAPSED_MS,
    JOB_ACK_ELAPSED_MS,
    TIMER_SIZES, /* from here on: gauges */
    QUEUE_SIZES,
    DEADLETTER_SIZES,
    MAX_MEM_BYTES, /* from here on: of the pool's Redis */
    USED_MEM_BYTES,
    CONNECTIONS,
    BLOCKING_CONNECTIONS,
    TOTAL_KEYS,
    TOTAL_TTL_KEYS,
    FAMILIES
};
_Static_assert((int)FAMILIES <= (int)FAMILIES_MAX, "all families have a place");

#define ROW(family, type, labels, name, help)                                            \
    [family] = {"infra_lmstfy_" name, help, &(type), labels}
static const struct series_row families[FAMILIES] = {
    ROW(HTTP_CODES, counter, by_code, "http_http_codes", "Requests by their status."),
    ROW(HTTP_LATENCY, latency, by_api, "http_latency_milliseconds",
        "Successful requests."),
    ROW(HTTP_RATE_LIMIT, counter, by_token, "http_rate_limit", "Requests above a limit."),
    ROW(PUBLISH_JOBS, counter, by_pool, "redis_publish_jobs", "Jobs published."),
    ROW(PUBLISH_QUEUE_JOBS, counter, by_queue, "redis_publish_queue_jobs",
        "Jobs published."),
    ROW(CONSUME_MULTI_JOBS, counter, by_pool, "redis_consume_multi_jobs", "Deliveries."),
    ROW(CONSUME_QUEUE_JOBS, counter, by_queue, "redis_consume_queue_jobs", "Deliveries."),
    ROW(POOL_ADD_JOBS, counter, by_pool, "redis_pool_add_jobs", "Bodies stored."),
    ROW(POOL_GET_JOBS, counter, by_pool, "redis_pool_get_jobs", "Bodies read."),
    ROW(POOL_DELETE_JOBS, counter, by_pool, "redis_pool_delete_jobs", "Jobs deleted."),
    ROW(TIMER_ADD_JOBS, counter, by_pool, "redis_timer_add_jobs", "Jobs with a delay."),
    ROW(TIMER_DUE_JOBS, counter, by_pool, "redis_timer_due_jobs", "Delay or ttr ended."),
    ROW(QUEUE_DIRECT_PUSH_JOBS, counter, by_pool, "redis_queue_direct_push_jobs",
        "Jobs published without a delay."),
    ROW(QUEUE_POP_JOBS, counter, by_pool, "redis_queue_pop_jobs", "Deliveries."),
    ROW(JOB_ELAPSED_MS, elapsed, by_queue, "redis_job_elapsed_ms",
        "From the publication to a delivery."),
    ROW(JOB_ACK_ELAPSED_MS, elapsed, by_queue, "redis_job_ack_elapsed_ms",
        "From the publication to the deletion."),
    ROW(TIMER_SIZES, gauge, by_pool, "redis_timer_sizes", "Delayed or in flight."),
    ROW(QUEUE_SIZES, gauge, by_queue, "redis_queue_sizes", "Ready jobs."),
    ROW(DEADLETTER_SIZES, gauge, by_queue, "redis_deadletter_sizes", "Dead letters."),
    ROW(MAX_MEM_BYTES, gauge, by_pool, "redis_max_mem_bytes", "maxmemory; 0: no limit."),
    ROW(USED_MEM_BYTES, gauge, by_pool, "redis_used_mem_bytes", "Memory in use."),
    ROW(CONNECTIONS, gauge, by_pool, "redis_connections", "Connected clients."),
    ROW(BLOCKING_CONNECTIONS, gauge, by_pool, "redis_blocking_connections",
        "Clients in a blocking command."),
    ROW(TOTAL_KEYS, gauge, by_pool, "redis_total_keys", "Keys in the database."),
    ROW(TOTAL_TTL_KEYS, gauge, by_pool, "redis_total_ttl_keys", "Keys that expire."),
};

static struct series *series_of(struct lmstfy_metrics *m, enum family_name f,
                                const struct slice *values)
{
    return family_at(&m->family[f], values, SERIES_MAX, &m->scratch);
}

static void count(struct lmstfy_metrics *m, enum family_name f,
                  const struct slice *values, int64_t n)
{
    series_add(series_of(m, f, values), (double)n);
}

static void observe(struct lmstfy_metrics *m, enum family_name f,
                    const struct slice *values, int64_t ms)
{
    if (ms >= 0)
        series_observe(series_of(m, f, values), &elapsed, (double)ms);
}

/* ------------------------------------------------------------ what came due */

/* A job comes due when its delay or the ttr of its consumer ends. It is counted when it
 * is consumed, or when the gauges are read and it is ready. */
struct pool {
    struct lmstfy_metrics *m;
    struct slice name;
    int64_t direct; /* jobs published without a delay, neither consumed nor deleted */
    int64_t due;    /* ready jobs that are counted; -1: the gauges were not read yet */
};

static struct pool *pool_of(const struct lmstfy_req *r)
{
    struct pool *p = r->l->metrics->pools;
    while (!slice_eq(p->name, r->pool))
        p++;
    return p;
}

static void take_one(int64_t *n)
{
    if (*n > 0)
        --*n;
}

static void count_pulled(struct pool *p, const struct queue_job *job)
{
    if (job->attempts <= 1 && lmstfy_id_due_ms(job->id) <= 0)
        take_one(&p->direct);
    else if (p->due > 0)
        p->due--;
    else
        count(p->m, TIMER_DUE_JOBS, &p->name, 1);
}

static void count_ready(struct pool *p, int64_t ready)
{
    if (p->direct > ready)
        p->direct = ready; /* others have left the queue otherwise */
    const int64_t due = ready - p->direct;
    if (p->due >= 0 && due > p->due)
        count(p->m, TIMER_DUE_JOBS, &p->name, due - p->due);
    p->due = due;
}

void lmstfy_count_http(struct lmstfy_req *r, const char *method, unsigned status,
                       int64_t latency_ms)
{
    struct lmstfy_metrics *m = r->l->metrics;
    const struct slice api = slice_of(r->row ? r->row->path : "");
    /* Names from unauthenticated clients must leave room for those of real clients. */
    const unsigned most = r->known ? SERIES_MAX : SERIES_MAX / 2;
    char code[16];
    if (m == NULL)
        return;
    snprintf(code, sizeof(code), "%u", status);
    const struct slice of_code[] = {api, slice_of(code), slice_of(method), r->ns,
                                    r->pool};
    const struct slice of_time[] = {api, slice_of(method), r->ns, r->pool};
    series_add(family_at(&m->family[HTTP_CODES], of_code, most, &m->scratch), 1);
    if (status < 300)
        series_observe(family_at(&m->family[HTTP_LATENCY], of_time, most, &m->scratch),
                       &latency, (double)latency_ms);
}

void lmstfy_count_publish(struct lmstfy_req *r, unsigned jobs)
{
    struct lmstfy_metrics *m = r->l->metrics;
    const struct slice of_queue[] = {r->ns, r->pool, r->queue};
    count(m, PUBLISH_JOBS, &r->pool, jobs);
    count(m, PUBLISH_QUEUE_JOBS, of_queue, jobs);
    count(m, POOL_ADD_JOBS, &r->pool, jobs);
    count(m, r->delayed ? TIMER_ADD_JOBS : QUEUE_DIRECT_PUSH_JOBS, &r->pool, jobs);
    if (!r->delayed)
        pool_of(r)->direct += jobs;
}

void lmstfy_count_consume(struct lmstfy_req *r, struct slice queue,
                          const struct queue_job *job)
{
    struct lmstfy_metrics *m = r->l->metrics;
    const struct slice of_queue[] = {r->ns, r->pool, queue};
    count_pulled(pool_of(r), job);
    count(m, CONSUME_MULTI_JOBS, &r->pool, 1);
    count(m, CONSUME_QUEUE_JOBS, of_queue, 1);
    count(m, QUEUE_POP_JOBS, &r->pool, 1);
    count(m, POOL_GET_JOBS, &r->pool, 1);
    observe(m, JOB_ELAPSED_MS, of_queue, lmstfy_elapsed_ms(job));
}

void lmstfy_count_deleted(struct lmstfy_req *r, enum queue_state was)
{
    struct lmstfy_metrics *m = r->l->metrics;
    const struct slice of_queue[] = {r->ns, r->pool, r->queue};
    int64_t since_ms = lmstfy_id_ms(r->id);
    if (was == QUEUE_READY && lmstfy_id_due_ms(r->id) == 0)
        take_one(&pool_of(r)->direct);
    count(m, POOL_DELETE_JOBS, &r->pool, 1);
    if (since_ms >= 0)
        observe(m, JOB_ACK_ELAPSED_MS, of_queue,
                source_now_ms(r->l->api.src, lmstfy_topic(r)) - since_ms);
}

/* If accounts protect the tokens, /metrics, which is public, shows only their last four
 * characters. */
void lmstfy_count_limited(struct lmstfy_req *r)
{
    struct slice token = r->token;
    if (r->l->accounts.n > 0 && token.n > 4)
        token = (struct slice){token.p + token.n - 4, 4};
    const struct slice values[] = {slice_of(r->row->produces ? "produce" : "consume"),
                                   r->ns, r->pool, token};
    count(r->l->metrics, HTTP_RATE_LIMIT, values, 1);
}

/* ------------------------------------------------------------ gauges */

static void show(struct lmstfy_req *r)
{
    const struct lmstfy_metrics *m = r->l->metrics;
    for (int f = 0; f < FAMILIES; f++) {
        if (family_count(&m->family[f]) > 0)
            family_text(&m->family[f], &r->out);
    }
    lmstfy_answer_text(r, 200, "text/plain; version=0.0.4; charset=utf-8");
}

static void show_all(void *arg)
{
    struct lmstfy_metrics *m = arg;
    timer_stop(m->patience);
    while (!STAILQ_EMPTY(&m->waiting)) {
        struct lmstfy_req *r = STAILQ_FIRST(&m->waiting);
        STAILQ_REMOVE_HEAD(&m->waiting, waiting_link);
        show(r);
    }
}

static void free_all(struct lmstfy_metrics *m)
{
    for (int f = 0; f < FAMILIES; f++)
        family_free(&m->family[f]);
    timer_del(m->patience);
    buf_free(&m->scratch);
    free(m->pools);
    free(m);
}

/* A query of Redis has ended. */
static void end_query(struct lmstfy_metrics *m)
{
    if (--m->queries > 0)
        return;
    if (m->stopped)
        free_all(m);
    else
        show_all(m);
}

static void set_usage(const struct pool *p, const struct queue_usage *usage)
{
    const int64_t values[] = {usage->max_bytes, usage->used_bytes,
                              usage->clients,   usage->blocked_clients,
                              usage->keys,      usage->expiring_keys};
    for (int f = MAX_MEM_BYTES; f < FAMILIES; f++)
        series_set(series_of(p->m, f, &p->name), (double)values[f - MAX_MEM_BYTES]);
}

static void on_surveyed(void *arg, const struct queue_counted *queues, size_t n)
{
    struct pool *p = arg;
    int64_t timers = 0, ready = 0;
    for (size_t i = 0; i < n; i++) {
        const struct queue_counts *counts = &queues[i].counts;
        struct slice pool, ns, queue;
        if (!queues[i].known ||
            lmstfy_split_topic(queues[i].name, &pool, &ns, &queue) < 0)
            continue;
        const struct slice values[] = {ns, pool, queue};
        series_set(series_of(p->m, QUEUE_SIZES, values), (double)counts->ready);
        series_set(series_of(p->m, DEADLETTER_SIZES, values), (double)counts->dead);
        timers += counts->waiting + counts->in_flight;
        ready += counts->ready;
    }
    if (queues) {
        series_set(series_of(p->m, TIMER_SIZES, &p->name), (double)timers);
        count_ready(p, ready);
    }
    end_query(p->m);
}

/* Skips queues of other pools in the same sink. */
static int set_limits(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS])
{
    const struct pool *p = arg;
    struct slice pool, ns, queue;
    (void)limits_ms;
    return !p->m->stopped && lmstfy_split_topic(name, &pool, &ns, &queue) == 0 &&
                   slice_eq(pool, p->name)
               ? 0
               : -1;
}

static void query(struct pool *p)
{
    struct source *src = p->m->l->api.src;
    const struct queue_survey how = {SERIES_MAX, set_limits, on_surveyed, p};
    struct buf topic = {0};
    struct queue_usage usage;
    lmstfy_any_topic(&topic, p->name);
    p->m->queries++;
    queue_survey(src, buf_slice(&topic), &how);
    if (queue_usage(src, buf_slice(&topic), &usage))
        set_usage(p, &usage);
    buf_free(&topic);
}

void lmstfy_metrics_get(struct lmstfy_req *r)
{
    struct lmstfy_metrics *m = r->l->metrics;
    if (STAILQ_EMPTY(&m->waiting))
        timer_set(m->patience, PATIENCE_MS);
    STAILQ_INSERT_TAIL(&m->waiting, r, waiting_link);
    if (m->queries > 0)
        return;
    for (int f = TIMER_SIZES; f < FAMILIES; f++)
        family_free(&m->family[f]);
    for (size_t i = 0; i < r->l->pools.n; i++)
        query(&m->pools[i]);
}

void lmstfy_metrics_start(struct lmstfy *l)
{
    struct lmstfy_metrics *m = mem_alloc(sizeof(*m));
    m->l = l;
    m->patience = timer_new(show_all, m);
    m->pools = mem_alloc((l->pools.n + 1) * sizeof(*m->pools));
    STAILQ_INIT(&m->waiting);
    for (int f = 0; f < FAMILIES; f++)
        m->family[f].row = &families[f];
    for (size_t i = 0; i < l->pools.n; i++) {
        m->pools[i] = (struct pool){m, slice_of(l->pools.v[i]), 0, -1};
        for (int f = 0; f < TIMER_SIZES; f++) /* counters of a pool begin at 0 */
            if (families[f].labels == by_pool)
                series_of(m, f, &m->pools[i].name);
    }
    l->metrics = m;
}

void lmstfy_metrics_stop(struct lmstfy *l)
{
    struct lmstfy_metrics *m = l->metrics;
    l->metrics = NULL;
    m->stopped = true;
    if (m->queries == 0)
        free_all(m);
}
