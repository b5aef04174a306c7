/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.c - the statistics with the metric names of the original's dashboards.
 */
#include "sources/lmstfy/lmstfy_metrics.h"
#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "bridge/metrics/stats.h"

#include <stdio.h>
#include <stdlib.h>

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

#define HTTP "infra_lmstfy_http_"
#define REDIS "infra_lmstfy_redis_"
const struct series_row lmstfy_families[FAMILIES] = {
    [HTTP_CODES] = {HTTP "http_codes", "Requests of the job API by route and status.",
                    &counter, by_code},
    [HTTP_LATENCY] = {HTTP "latency_milliseconds",
                      "Time of successful requests of the job API.", &latency, by_api},
    [HTTP_RATE_LIMIT] = {HTTP "rate_limit",
                         "Requests rejected by the rate limit of their token.", &counter,
                         by_token},
    [PUBLISH_JOBS] = {REDIS "publish_jobs", "Jobs published.", &counter, by_pool},
    [PUBLISH_QUEUE_JOBS] = {REDIS "publish_queue_jobs", "Jobs published, by queue.",
                            &counter, by_queue},
    [CONSUME_MULTI_JOBS] = {REDIS "consume_multi_jobs", "Jobs consumed.", &counter,
                            by_pool},
    [CONSUME_QUEUE_JOBS] = {REDIS "consume_queue_jobs", "Jobs consumed, by queue.",
                            &counter, by_queue},
    [POOL_ADD_JOBS] = {REDIS "pool_add_jobs", "Bodies of jobs stored.", &counter,
                       by_pool},
    [POOL_GET_JOBS] = {REDIS "pool_get_jobs", "Bodies of jobs read.", &counter, by_pool},
    [POOL_DELETE_JOBS] = {REDIS "pool_delete_jobs", "Jobs deleted by their id.", &counter,
                          by_pool},
    [TIMER_ADD_JOBS] = {REDIS "timer_add_jobs", "Jobs published with a delay.", &counter,
                        by_pool},
    [TIMER_DUE_JOBS] = {REDIS "timer_due_jobs",
                        "Jobs that became ready because their delay or the time of their "
                        "consumer has passed.",
                        &counter, by_pool},
    [QUEUE_DIRECT_PUSH_JOBS] = {REDIS "queue_direct_push_jobs",
                                "Jobs published without a delay.", &counter, by_pool},
    [QUEUE_POP_JOBS] = {REDIS "queue_pop_jobs", "Jobs taken from their queue.", &counter,
                        by_pool},
    [JOB_ELAPSED_MS] = {REDIS "job_elapsed_ms",
                        "Time from the publication of a job to its delivery.", &elapsed,
                        by_queue},
    [JOB_ACK_ELAPSED_MS] = {REDIS "job_ack_elapsed_ms",
                            "Time from the publication of a job to its deletion.",
                            &elapsed, by_queue},
    [TIMER_SIZES] = {REDIS "timer_sizes", "Delayed jobs and jobs in flight.", &gauge,
                     by_pool},
    [QUEUE_SIZES] = {REDIS "queue_sizes", "Jobs ready to be consumed.", &gauge, by_queue},
    [DEADLETTER_SIZES] = {REDIS "deadletter_sizes", "Dead letters.", &gauge, by_queue},
    [MAX_MEM_BYTES] = {REDIS "max_mem_bytes", "maxmemory of Redis; 0: no limit.", &gauge,
                       by_pool},
    [USED_MEM_BYTES] = {REDIS "used_mem_bytes", "Memory that Redis uses.", &gauge,
                        by_pool},
    [CONNECTIONS] = {REDIS "connections", "Clients that are connected to Redis.", &gauge,
                     by_pool},
    [BLOCKING_CONNECTIONS] = {REDIS "blocking_connections",
                              "Clients that are blocked in a command of Redis.", &gauge,
                              by_pool},
    [TOTAL_KEYS] = {REDIS "total_keys", "Keys in the database.", &gauge, by_pool},
    [TOTAL_TTL_KEYS] = {REDIS "total_ttl_keys", "Keys in the database that expire.",
                        &gauge, by_pool},
};

void lmstfy_metrics_start(struct lmstfy *l)
{
    struct lmstfy_metrics *m = mem_alloc(sizeof(*m));
    m->l = l;
    for (int f = 0; f < FAMILIES; f++) {
        m->family[f].row = &lmstfy_families[f];
        /* Counters of a pool begin at 0. */
        for (size_t i = 0; i < l->pools.n && f < TIMER_SIZES; i++) {
            const struct slice pool = slice_of(l->pools.v[i]);
            if (lmstfy_families[f].labels == by_pool)
                lmstfy_series(m, f, &pool);
        }
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
    if (m == NULL)
        return;
    for (int f = 0; f < FAMILIES; f++)
        family_free(&m->family[f]);
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
        series_observe(lmstfy_series(m, f, values), &elapsed, (double)ms);
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
        lmstfy_sizes_pushed(m, r->pool, jobs);
}

void lmstfy_count_consume(struct lmstfy_req *r, struct slice queue,
                          const struct queue_job *job)
{
    struct lmstfy_metrics *m = r->l->metrics;
    const struct slice of_queue[] = {r->ns, r->pool, queue};
    lmstfy_sizes_pulled(m, r->pool, job);
    count(m, CONSUME_MULTI_JOBS, &r->pool, 1);
    count(m, CONSUME_QUEUE_JOBS, of_queue, 1);
    count(m, QUEUE_POP_JOBS, &r->pool, 1);
    count(m, POOL_GET_JOBS, &r->pool, 1);
    observe(m, JOB_ELAPSED_MS, of_queue, lmstfy_elapsed_ms(job));
}

void lmstfy_count_unconsumed(struct lmstfy_req *r)
{
    lmstfy_sizes_deleted(r->l->metrics, r->pool, r->id);
}

void lmstfy_count_ack(struct lmstfy_req *r, int64_t elapsed_ms)
{
    struct lmstfy_metrics *m = r->l->metrics;
    const struct slice of_queue[] = {r->ns, r->pool, r->queue};
    count(m, POOL_DELETE_JOBS, &r->pool, 1);
    observe(m, JOB_ACK_ELAPSED_MS, of_queue, elapsed_ms);
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

/* ------------------------------------------------------------ GET /metrics */

void lmstfy_metrics_show(struct lmstfy_req *r)
{
    const struct lmstfy_metrics *m = r->l->metrics;
    for (int f = 0; f < FAMILIES; f++) {
        if (family_count(&m->family[f]) > 0)
            family_text(&m->family[f], &r->out);
    }
    lmstfy_answer_text(r, 200, "text/plain; version=0.0.4; charset=utf-8");
}

void lmstfy_metrics_get(struct lmstfy_req *r)
{
    lmstfy_sizes_request(r->l->metrics, r);
}
