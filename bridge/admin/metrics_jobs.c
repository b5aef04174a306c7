/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics_jobs.c - metrics of routes, sinks and sources.
 */
#include "bridge/admin/metrics.h"
#include "bridge/engine/bridge.h"
#include "bridge/queue/queue_place.h"

#include <stddef.h>

static const char *const duplicates[] = {[DUPLICATE_EXISTS] = "exists",
                                         [DUPLICATE_REMEMBERED] = "remembered",
                                         [DUPLICATE_READ_AGAIN] = "read-again"};
static const char *const drops[] = {"expired", "late"};

/* Counters of a route, each one field of struct route_stats; count > 1: one per reason
 * or, where they have names of their own, per kind. */
static const struct counter_row {
    const char *name, *help;
    size_t offset;
    unsigned count;
    const char *const *kinds; /* NULL: reasons */
} counters[] = {
#define ROW(field, name, help)                                                           \
    {                                                                                    \
        name, help, offsetof(struct route_stats, field), 1, NULL                         \
    }
#define BY_REASON(field, name, help)                                                     \
    {                                                                                    \
        name, help, offsetof(struct route_stats, field), REASONS, NULL                   \
    }
#define BY_KIND(field, kinds, name, help)                                                \
    {                                                                                    \
        name, help, offsetof(struct route_stats, field),                                 \
            sizeof(kinds) / sizeof((kinds)[0]), kinds                                    \
    }
    ROW(received, "tarry_jobs_received_total",
        "Messages that sources handed to the route."),
    ROW(stored, "tarry_jobs_stored_total", "Jobs that Redis took as new."),
    BY_KIND(duplicates, duplicates, "tarry_jobs_duplicate_total",
            "Jobs that were not stored: one of that id exists, or is remembered, or the "
            "Kafka record was read again."),
    ROW(replaced, "tarry_jobs_replaced_total",
        "Jobs that were stored in the place of another of their id."),
    ROW(clamped, "tarry_jobs_clamped_total",
        "Jobs stored with max_delay instead of a longer delay."),
    BY_REASON(refused, "tarry_jobs_rejected_total",
              "Messages refused to the producer's face."),
    ROW(not_stored, "tarry_jobs_not_stored_total",
        "Messages that Redis did not take in time; the source keeps them."),
    ROW(cancels, "tarry_cancels_received_total", "Messages that were cancels."),
    ROW(delivered, "tarry_jobs_delivered_total",
        "Jobs that the other end has acknowledged."),
    ROW(retried, "tarry_jobs_retried_total", "Failed attempts that will be repeated."),
    ROW(redelivered, "tarry_jobs_redelivered_total", "Attempts after the first."),
    BY_REASON(dead, "tarry_jobs_dead_total", "Jobs given up, kept in the error bucket."),
    ROW(cancelled, "tarry_jobs_cancelled_total", "Jobs taken out before their delivery."),
    BY_KIND(expired, drops, "tarry_jobs_expired_total",
            "Jobs dropped because they were too late, by their own word or the route's."),
    ROW(late, "tarry_jobs_late_total", "Jobs delivered later than max_lateness."),
    ROW(repeated, "tarry_jobs_repeated_total", "Jobs put back for their next run."),
    ROW(replayed, "tarry_jobs_replayed_total", "Dead letters brought back."),
    ROW(dropped_dead, "tarry_jobs_dead_dropped_total",
        "Dead letters that an operator deleted."),
    ROW(parked, "tarry_jobs_parked_total",
        "Times that a job went back untried, since its target rests or has its rate."),
    ROW(newer, "tarry_jobs_newer_total",
        "Times that a job went back because a newer tarry wrote it."),
    ROW(cancels_missed, "tarry_cancels_missed_total",
        "Cancels that came too late, or named no job."),
    ROW(claims_late, "tarry_late_claims_total",
        "Claims of jobs that the bucket's owner had left, since it is gone or slow."),
    ROW(claims_in_vain, "tarry_empty_claims_total", "Claims that brought no job."),
    ROW(stale, "tarry_stale_acks_total",
        "Outcomes whose lease had ended; without effect."),
    ROW(rearms, "tarry_watchdog_rearms_total",
        "Times that a bucket was started again, since its due jobs did not leave."),
#undef ROW
#undef BY_REASON
#undef BY_KIND
};

static void print_counter(const struct bridge *bridge, const struct counter_row *row,
                          struct buf *out)
{
    metric_head(out, row->name, "counter", row->help);
    EACH_ROUTE (bridge, route) {
        const char *name = route->conf->name;
        const uint64_t *v = (const uint64_t *)((const char *)&route->stats + row->offset);
        if (row->count == 1)
            metric_count(out, row->name, LABELS({"route", name}), v[0]);
        for (unsigned r = 0; row->count > 1 && r < row->count; r++) {
            const char *kind = row->kinds ? row->kinds[r] : reason_name((enum reason)r);
            metric_count(out, row->name, LABELS({"route", name}, {"reason", kind}), v[r]);
        }
    }
}

/* What Redis says of each route. */
static const struct gauge_row {
    const char *name, *help;
    size_t offset;
} gauges[] = {
    {"tarry_jobs_pending", "Jobs that wait in Redis.", offsetof(struct counts, waiting)},
    {"tarry_jobs_far", "Of these, due later than redis.horizon, in less memory.",
     offsetof(struct counts, far)},
    {"tarry_jobs_inflight", "Jobs claimed and not yet acknowledged, all instances.",
     offsetof(struct counts, in_flight)},
    {"tarry_jobs_dead", "Dead letters in the error bucket.",
     offsetof(struct counts, dead)},
    {"tarry_jobs_due_overdue", "Jobs that wait although they are due.",
     offsetof(struct counts, overdue)},
};

static double overdue_s(const struct counts *c)
{
    return c->head_ms < 0 || c->head_ms > c->now_ms
               ? 0
               : (double)(c->now_ms - c->head_ms) / 1000;
}

static bool is_known(const struct route *route, int64_t since_ms)
{
    return route->sink->rules ? route->counted_ms > 0 : route->counted_ms >= since_ms;
}

static void print_gauges(const struct bridge *bridge, int64_t since_ms, struct buf *out)
{
    for (size_t r = 0; r < sizeof(gauges) / sizeof(gauges[0]); r++) {
        metric_head(out, gauges[r].name, "gauge", gauges[r].help);
        EACH_ROUTE (bridge, route) {
            const char *counts = (const char *)&route->counts;
            if (is_known(route, since_ms))
                metric_number(
                    out, gauges[r].name, LABELS({"route", route->conf->name}),
                    *(const int64_t *)(const void *)(counts + gauges[r].offset));
        }
    }
    metric_head(out, "tarry_oldest_overdue_seconds", "gauge",
                "For how long the oldest due job waits.");
    EACH_ROUTE (bridge, route)
        if (is_known(route, since_ms))
            metric_real(out, "tarry_oldest_overdue_seconds",
                        LABELS({"route", route->conf->name}), overdue_s(&route->counts));
    metric_head(out, "tarry_jobs_counted_age_seconds", "gauge",
                "How old these numbers are: those of queues are of the last sweep.");
    EACH_ROUTE (bridge, route)
        if (is_known(route, since_ms))
            metric_real(out, "tarry_jobs_counted_age_seconds",
                        LABELS({"route", route->conf->name}),
                        (double)(loop_mono_ms() - route->counted_ms) / 1000);
}

static void print_lateness(const struct bridge *bridge, struct buf *out)
{
    const char *name = "tarry_delivery_lateness_seconds";
    metric_head(out, name, "histogram",
                "From due to the hand-over to the sink, first attempts.");
    EACH_ROUTE (bridge, route)
        metric_histogram(out, name, LABELS({"route", route->conf->name}),
                         &route->stats.lateness);
}

static void print_sinks(const struct bridge *bridge, struct buf *out)
{
    static const char *const results[] = {"delivered", "try_again", "rejected"};
    metric_head(out, "tarry_delivery_attempts_total", "counter",
                "Hand-overs by what became of them.");
    EACH_SINK (bridge, sink)
        for (int o = 0; o < 3; o++)
            metric_count(out, "tarry_delivery_attempts_total",
                         LABELS({"sink", sink->conf->name}, {"result", results[o]}),
                         sink->stats.outcomes[o]);
    metric_head(out, "tarry_sink_duration_seconds", "histogram",
                "From hand-over to outcome.");
    EACH_SINK (bridge, sink)
        for (int o = 0; o < 3; o++)
            metric_histogram(out, "tarry_sink_duration_seconds",
                             LABELS({"sink", sink->conf->name}, {"result", results[o]}),
                             &sink->stats.duration[o]);
    metric_head(out, "tarry_sink_inflight", "gauge", "Hand-overs without an outcome.");
    EACH_SINK (bridge, sink)
        metric_number(out, "tarry_sink_inflight", LABELS({"sink", sink->conf->name}),
                      sink->in_flight);
}

static void print_sources(const struct bridge *bridge, struct buf *out)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"tarry_source_unrouted_total", "Messages refused, since no route takes them.",
         offsetof(struct source, unrouted)},
        {"tarry_source_session_lost_total",
         "Sessions that a broker lost, and with them perhaps messages.",
         offsetof(struct source, sessions_lost)},
        {"tarry_source_rewinds_total",
         "Times that a partition was read again from an earlier record.",
         offsetof(struct source, rewinds)},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        metric_head(out, rows[r].name, "counter", rows[r].help);
        EACH_SOURCE (bridge, src) {
            metric_count(
                out, rows[r].name, LABELS({"source", src->conf->name}),
                *(const uint64_t *)(const void *)((const char *)src + rows[r].offset));
        }
    }
    metric_head(out, "tarry_source_paused", "gauge", "1 while the source is held back.");
    EACH_SOURCE (bridge, src)
        metric_number(out, "tarry_source_paused", LABELS({"source", src->conf->name}),
                      src->paused);
}

/* Queue sinks: what consumers pulled, and what ended by itself. */
static void print_queues(const struct bridge *bridge, struct buf *out)
{
#define ROW(field, name, help)                                                           \
    {                                                                                    \
        name, help, offsetof(struct queue_stats, field)                                  \
    }
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        ROW(handed, "tarry_queue_delivered_total", "Deliveries to consumers."),
        ROW(timed_out, "tarry_queue_lease_ended_total",
            "Deliveries whose lease ended without a word, as seen by this instance."),
        ROW(exhausted, "tarry_queue_exhausted_total",
            "Jobs out of tries, as seen by this instance."),
        ROW(expired, "tarry_queue_expired_total",
            "Jobs whose time to live was over, as seen by this instance."),
        ROW(dropped, "tarry_queue_dropped_total",
            "Jobs that an operator deleted with others of their queue."),
    };
#undef ROW
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        metric_head(out, rows[r].name, "counter", rows[r].help);
        EACH_SINK (bridge, sink) {
            const char *stats = (const char *)&sink->queue_stats;
            if (sink->rules)
                metric_count(out, rows[r].name, LABELS({"sink", sink->conf->name}),
                             *(const uint64_t *)(const void *)(stats + rows[r].offset));
        }
    }
    metric_head(out, "tarry_queues", "gauge", "Queues that are listed.");
    EACH_SINK (bridge, sink)
        if (sink->rules)
            metric_number(out, "tarry_queues", LABELS({"sink", sink->conf->name}),
                          (int64_t)sink->sum_names);
    metric_head(out, "tarry_queue_consumers", "gauge",
                "Consumers of this instance that wait, once for each queue.");
    EACH_SINK (bridge, sink)
        if (sink->rules)
            metric_number(out, "tarry_queue_consumers",
                          LABELS({"sink", sink->conf->name}), queue_consumers(sink));
}

void metrics_print(const struct bridge *bridge, int64_t since_ms, struct buf *out)
{
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        print_counter(bridge, &counters[i], out);
    print_gauges(bridge, since_ms, out);
    print_lateness(bridge, out);
    print_sinks(bridge, out);
    print_sources(bridge, out);
    print_queues(bridge, out);
}
