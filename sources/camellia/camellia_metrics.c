/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_metrics.c - /metrics by the names that dashboards for this server know, and
 * what a load balancer asks.
 *
 * What is said of a process's memory and time is this process's: there is no virtual
 * machine, so nothing is said of its collector.
 */
#include "sources/camellia/camellia_parts.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { QUIET_MS = 20 * 1000 }; /* without a call so long: nobody uses us any more */

/* ------------------------------------------------------------------- metrics */

static void begin_metric(struct buf *out, const char *name, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void add_label(struct buf *out, struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        if (c == '\n')
            buf_add_str(out, "\\n");
        else if (c == '"' || c == '\\')
            buf_add(out, (char[]){'\\', c}, 2);
        else
            buf_add(out, &c, 1);
    }
}

static void begin_line(struct buf *out, const char *name, struct slice topic,
                       const char *type)
{
    buf_addf(out, "%s{topic=\"", name);
    add_label(out, topic);
    buf_addf(out, "\", type=\"%s\"} ", type);
}

static void add_line(struct buf *out, const char *name, struct slice topic,
                     const char *type, int64_t value)
{
    begin_line(out, name, topic, type);
    buf_addf(out, "%lld\n", (long long)value);
}

struct family { /* lines of a metric, by topic */
    struct buf *out;
    unsigned topics;
};

static void add_counts(void *arg, const struct camellia_topic *t)
{
    struct family *f = arg;
    if (camellia_topic_is_quiet(t) || f->topics++ >= CAMELLIA_SHOWN_MAX)
        return;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        add_line(f->out, "request", t->name, camellia_count_names[i],
                 camellia_count_of(t, i));
}

static void add_gap(struct family *f, const char *name, struct slice topic,
                    const struct camellia_gap *gap)
{
    struct buf *out = f->out;
    if (gap->count == 0 || f->topics++ >= CAMELLIA_SHOWN_MAX)
        return;
    add_line(out, name, topic, "count", gap->count);
    begin_line(out, name, topic, "avg");
    buf_addf(out, "%f\n", camellia_gap_avg(gap));
    add_line(out, name, topic, "max", gap->max_ms);
}

static void add_pull_gap(void *arg, const struct camellia_topic *t)
{
    add_gap(arg, "pull_msg_time_gap", t->name, &t->last.pull);
}

static void add_ready_gap(void *arg, const struct camellia_topic *t)
{
    const struct camellia_gap gap = camellia_ready_gap(t);
    add_gap(arg, "ready_queue_time_gap", t->name, &gap);
}

static void add_info(struct buf *out, const struct camellia_info *info)
{
    static const char *const spans[CAMELLIA_SPANS] = {
        "size_0_1min",      "size_1min_10min",  "size_10min_30min",
        "size_30min_1hour", "size_1hour_6hour", "size_6hour_1day",
        "size_1day_7day",   "size_7day_30day",  "size_30day_infinite"};
    add_line(out, "topic_info", info->topic, "readyQueueSize", info->ready);
    add_line(out, "topic_info", info->topic, "ackQueueSize", info->acking);
    add_line(out, "topic_info", info->topic, "waitingQueueSize", info->waiting);
    for (int i = 0; i < CAMELLIA_SPANS; i++)
        add_line(out, "topic_info", info->topic, spans[i], info->span[i]);
}

/* Bytes that this process holds in memory. */
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

/* Share of one processor since the start. */
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
    int64_t uptime_ms = loop_wall_ms() - c->started_ms;
    int64_t memory_bytes = resident_bytes();
    begin_metric(out, "info", "Which API this is");
    buf_add_str(out, "info{camellia_version=\"1.4.2\"} 1\n");
    begin_metric(out, "uptime", "Time since the start in ms");
    buf_addf(out, "uptime %lld\n", (long long)uptime_ms);
    begin_metric(out, "start_time", "Time of the start in ms since 1970");
    buf_addf(out, "start_time %lld\n", (long long)c->started_ms);
    begin_metric(out, "memory_info", "Memory in bytes");
    buf_addf(out, "memory_info{type=\"total_memory\"} %lld\n", (long long)memory_bytes);
    buf_addf(out, "memory_info{type=\"heap_memory_usage\"} %lld\n",
             (long long)memory_bytes);
    begin_metric(out, "cpu", "Processors, and how many of them are used");
    buf_addf(out, "cpu{type=\"cpu_num\"} %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    buf_addf(out, "cpu{type=\"usage\"} %f\n", cpu_usage(uptime_ms));
}

static void on_infos(void *arg, const struct camellia_info *infos, size_t n)
{
    struct camellia_ask *ask = arg;
    const struct camellia *c = ask->c;
    struct buf out = {0};
    struct family requests = {&out, 0}, pulls = {&out, 0}, readies = {&out, 0};
    add_process(&out, c);
    begin_metric(&out, "request", "Calls of the last window, by topic");
    camellia_each_topic(&c->stats, add_counts, &requests);
    begin_metric(&out, "pull_msg_time_gap", "From the trigger time to the pull in ms");
    camellia_each_topic(&c->stats, add_pull_gap, &pulls);
    begin_metric(&out, "ready_queue_time_gap",
                 "Ready and not pulled: until the pull, or until now, in ms");
    camellia_each_topic(&c->stats, add_ready_gap, &readies);
    begin_metric(&out, "topic_info", "Messages now, by topic");
    for (size_t i = 0; infos && i < n; i++)
        add_info(&out, &infos[i]);
    camellia_tell(ask, CAMELLIA_PLAIN_TEXT, infos ? &out : NULL);
    buf_free(&out);
}

void camellia_metrics(void *arg, struct httpd_req *req)
{
    camellia_survey(arg, on_infos, camellia_ask(arg, req));
}

/* -------------------------------------------------------------------- health */

static void answer_health(struct httpd_req *req, bool well)
{
    httpd_answer(req, well ? 200 : 500, CAMELLIA_PLAIN_TEXT,
                 well ? SLICE_LIT("{\"code\":200}") : SLICE_LIT("{\"code\":500}"));
}

void camellia_health_status(void *arg, struct httpd_req *req)
{
    const struct camellia *c = arg;
    answer_health(req, !c->offline);
}

void camellia_health_check(void *arg, struct httpd_req *req)
{
    (void)arg;
    answer_health(req, true);
}

void camellia_health_online(void *arg, struct httpd_req *req)
{
    struct camellia *c = arg;
    c->offline = false;
    answer_health(req, true);
}

void camellia_health_offline(void *arg, struct httpd_req *req)
{
    struct camellia *c = arg;
    c->offline = true;
    answer_health(req, loop_mono_ms() - c->last_call_ms >= QUIET_MS);
}
