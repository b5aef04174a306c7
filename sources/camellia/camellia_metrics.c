/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_metrics.c - /metrics with the metric names of the original's dashboards, and
 * health checks for load balancers.
 *
 * Memory and CPU values are those of this process. Without a JVM there are no metrics of
 * a garbage collector.
 */
#include "bridge/metrics/stats.h"
#include "sources/camellia/camellia.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { QUIET_MS = 20 * 1000 }; /* without calls for this time: unused */

struct family { /* lines of a metric by topic */
    struct buf *out;
    const char *name;
    unsigned topics;
    struct buf topic; /* scratch */
};

static void begin(struct family *f, const char *name, const char *help)
{
    f->name = name;
    f->topics = 0;
    metric_head(f->out, name, "gauge", help);
}

/* False: too many topics. */
static bool set_topic(struct family *f, struct slice topic)
{
    buf_clear(&f->topic);
    buf_add_slice(&f->topic, topic);
    return f->topics++ < CAMELLIA_SHOWN_MAX;
}

static void add(struct family *f, const char *type, int64_t value)
{
    metric_number(f->out, f->name, LABELS({"topic", buf_str(&f->topic)}, {"type", type}),
                  value);
}

static void add_counts(struct family *f, const struct camellia_topic *t)
{
    const struct camellia_window w = camellia_last(t);
    if (camellia_is_empty(&w) || !set_topic(f, t->name))
        return;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        add(f, camellia_count_names[i], w.counts[i]);
}

static void add_gap(struct family *f, struct slice topic, struct camellia_gap gap)
{
    if (gap.count == 0 || !set_topic(f, topic))
        return;
    add(f, "count", gap.count);
    metric_real(f->out, f->name, LABELS({"topic", buf_str(&f->topic)}, {"type", "avg"}),
                camellia_gap_avg(&gap));
    add(f, "max", gap.max_ms);
}

static void add_queue(struct family *f, const struct queue_counted *queue)
{
    static const char *const spans[CAMELLIA_SPANS] = {
        "size_0_1min",      "size_1min_10min",  "size_10min_30min",
        "size_30min_1hour", "size_1hour_6hour", "size_6hour_1day",
        "size_1day_7day",   "size_7day_30day",  "size_30day_infinite"};
    set_topic(f, queue->name);
    add(f, "readyQueueSize", queue->counts.ready);
    add(f, "ackQueueSize", queue->counts.in_flight);
    add(f, "waitingQueueSize", queue->counts.waiting);
    for (unsigned i = 0; i < CAMELLIA_SPANS; i++)
        add(f, spans[i], camellia_span(&queue->counts, i));
}

/* Returns the resident memory of this process in bytes. */
static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*s %lld", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Returns the share of one processor used since the start. */
static double cpu_usage(int64_t uptime_ms)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double used_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    return uptime_ms > 0 ? used_s * 1000 / (double)uptime_ms : 0;
}

static void add_process(struct buf *out, const struct camellia *c)
{
    const int64_t uptime_ms = loop_wall_ms() - c->started_ms;
    const int64_t memory_bytes = resident_bytes();
    metric_head(out, "info", "gauge", "Which API this is");
    metric_number(out, "info", LABELS({"camellia_version", "1.4.2"}), 1);
    metric_head(out, "uptime", "gauge", "Time since the start in ms");
    metric_number(out, "uptime", NO_LABELS, uptime_ms);
    metric_head(out, "start_time", "gauge", "Time of the start in ms since 1970");
    metric_number(out, "start_time", NO_LABELS, c->started_ms);
    metric_head(out, "memory_info", "gauge", "Memory in bytes");
    metric_number(out, "memory_info", LABELS({"type", "total_memory"}), memory_bytes);
    metric_number(out, "memory_info", LABELS({"type", "heap_memory_usage"}),
                  memory_bytes);
    metric_head(out, "cpu", "gauge",
                "Number of processors, and how many of them are in use");
    metric_number(out, "cpu", LABELS({"type", "cpu_num"}), sysconf(_SC_NPROCESSORS_ONLN));
    metric_real(out, "cpu", LABELS({"type", "usage"}), cpu_usage(uptime_ms));
}

static void on_surveyed(void *arg, const struct queue_counted *queues, size_t n)
{
    const struct camellia_query *query = arg;
    const struct camellia_topic *const topics = query->c->stats.topics;
    struct buf out = {0};
    struct family f = {.out = &out};
    add_process(&out, query->c);
    begin(&f, "request", "Calls of the last window, by topic");
    for (const struct camellia_topic *t = topics; t; t = t->hh.next)
        add_counts(&f, t);
    begin(&f, "pull_msg_time_gap", "From the trigger time to the pull in ms");
    for (const struct camellia_topic *t = topics; t; t = t->hh.next)
        add_gap(&f, t->name, t->last.pull);
    begin(&f, "ready_queue_time_gap",
          "Time from ready to the pull, or until now if not pulled, in ms");
    for (const struct camellia_topic *t = topics; t; t = t->hh.next)
        add_gap(&f, t->name, camellia_last(t).ready);
    begin(&f, "topic_info", "Messages now, by topic");
    for (size_t i = 0; i < n; i++)
        add_queue(&f, &queues[i]);
    buf_free(&f.topic);
    camellia_query_answer(arg, CAMELLIA_PLAIN_TEXT, queues ? &out : NULL);
    buf_free(&out);
}

void camellia_metrics(void *arg, struct httpd_req *req)
{
    camellia_survey(camellia_query(arg, req), on_surveyed);
}

void camellia_health(void *arg, struct httpd_req *req)
{
    struct camellia *c = arg;
    struct slice path = httpd_path(req);
    bool well = true;
    if (slice_is(path, "/camellia/health/status")) {
        well = !c->offline;
    } else if (slice_is(path, "/camellia/health/online")) {
        c->offline = false;
    } else if (slice_is(path, "/camellia/health/offline")) {
        c->offline = true;
        well = loop_mono_ms() - c->last_call_ms >= QUIET_MS;
    }
    httpd_answer(req, well ? 200 : 500, CAMELLIA_PLAIN_TEXT,
                 well ? SLICE_LIT("{\"code\":200}") : SLICE_LIT("{\"code\":500}"));
}
