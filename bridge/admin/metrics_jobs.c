/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics_jobs.c - metrics of routes, sinks and sources: one table.
 */
#include "bridge/admin/metrics.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/queue_object.h"

#include <stddef.h>
#include <stdio.h>

/* ------------------------------------------------------------------- the table */

enum whose {
    OF_ROUTES,
    OF_COUNTED, /* routes whose jobs Redis has counted */
    OF_SINKS,
    OF_SINKS_ABROAD, /* sinks and sources that open connections */
    OF_SOURCES,
    OF_SOURCES_ABROAD,
    OF_QUEUES,
    WHOSE
};
static const char *const labels_of[WHOSE] = {
    [OF_ROUTES] = "route",      [OF_COUNTED] = "route",  [OF_SINKS] = "sink",
    [OF_SINKS_ABROAD] = "sink", [OF_SOURCES] = "source", [OF_SOURCES_ABROAD] = "source",
    [OF_QUEUES] = "sink"};

static const char *const duplicates[] = {[DUPLICATE_EXISTS] = "exists",
                                         [DUPLICATE_REMEMBERED] = "remembered",
                                         [DUPLICATE_READ_AGAIN] = "read-again"};
static const char *const drops[] = {"expired", "late"};
static const char *const results[] = {"delivered", "try_again", "rejected"};

static double overdue(const void *of)
{
    return (double)census_overdue(of);
}

static double overdue_s(const void *of)
{
    return (double)census_overdue_ms(of) / 1000;
}

static double counted_age_s(const void *of)
{
    return (double)(loop_mono_ms() - ((const struct route *)of)->counted_ms) / 1000;
}

static double in_flight(const void *of)
{
    return ((const struct sink *)of)->in_flight;
}

static double paused(const void *of)
{
    return ((const struct source *)of)->paused;
}

static double sink_connections(const void *of)
{
    const struct sink *sink = of;
    return sink->ops->connections(sink->self);
}

static double source_connections(const void *of)
{
    const struct source *src = of;
    return src->ops->connections(src->self);
}

static double names(const void *of)
{
    return (double)((const struct sink *)of)->sum_names;
}

static double consumers(const void *of)
{
    return (double)queue_consumers(of);
}

/* One metric. Its value is the result of a function, or count adjacent fields. */
static const struct row {
    const char *name, *help;
    enum whose whose;
    enum { COUNTER, GAUGE, HISTOGRAM } type; /* of uint64_t, int64_t, struct histogram */
    size_t offset;
    unsigned count;
    const char *label, *const *kinds; /* if count > 1: label and its values; kinds NULL:
                                       * reasons */
    unsigned usual; /* bit k: value k is printed even if it is 0 and metrics are brief */
    double (*value)(const void *of); /* of a gauge; NULL: read the field */
} rows[] = {
#define FIELDS(whose, type, owner, field, count, label, kinds, usual, name, help)        \
    {                                                                                    \
        name, help, whose, type, offsetof(struct owner, field), count, label, kinds,     \
            usual, NULL                                                                  \
    }
#define ALL ~0U
#define ROUTE(field, name, help)                                                         \
    FIELDS(OF_ROUTES, COUNTER, route, stats.field, 1, NULL, NULL, ALL, name, help)
#define RARE(field, name, help)                                                          \
    FIELDS(OF_ROUTES, COUNTER, route, stats.field, 1, NULL, NULL, 0, name, help)
#define BY_REASON(field, usual, name, help)                                              \
    FIELDS(OF_ROUTES, COUNTER, route, stats.field, REASONS, "reason", NULL, usual, name, \
           help)
#define BY_KIND(field, kinds, name, help)                                                \
    FIELDS(OF_ROUTES, COUNTER, route, stats.field, sizeof(kinds) / sizeof((kinds)[0]),   \
           "reason", kinds, 0, name, help)
#define COUNTED(field, name, help)                                                       \
    FIELDS(OF_COUNTED, GAUGE, route, counts.field, 1, NULL, NULL, ALL, name, help)
#define SOURCE(field, name, help)                                                        \
    FIELDS(OF_SOURCES, COUNTER, source, field, 1, NULL, NULL, ALL, name, help)
#define QUEUE(field, name, help)                                                         \
    FIELDS(OF_QUEUES, COUNTER, sink, queue_stats.field, 1, NULL, NULL, ALL, name, help)
#define GAUGE_OF(whose, value, name, help)                                               \
    {                                                                                    \
        name, help, whose, GAUGE, 0, 1, NULL, NULL, ALL, value                           \
    }
    ROUTE(received, "tarry_jobs_received_total",
          "Messages that sources submitted to the route."),
    ROUTE(stored, "tarry_jobs_stored_total", "Jobs stored as new."),
    BY_KIND(duplicates, duplicates, "tarry_jobs_duplicate_total",
            "Jobs not stored: a job of the same id exists or is remembered, or the Kafka "
            "record was read again."),
    RARE(replaced, "tarry_jobs_replaced_total",
         "Jobs that replaced a pending job of the same id."),
    RARE(clamped, "tarry_jobs_clamped_total",
         "Jobs stored with max_delay instead of a longer delay."),
    BY_REASON(refused, 1U << REASON_BAD_DELAY, "tarry_jobs_rejected_total",
              "Messages rejected with an error to the producer."),
    ROUTE(not_stored, "tarry_jobs_not_stored_total",
          "Messages that Redis did not store in time; the source keeps them."),
    RARE(cancels, "tarry_cancels_received_total", "Messages that were cancels."),
    ROUTE(delivered, "tarry_jobs_delivered_total",
          "Jobs that the receiver has acknowledged."),
    ROUTE(retried, "tarry_jobs_retried_total", "Failed attempts that will be retried."),
    ROUTE(redelivered, "tarry_jobs_redelivered_total", "Attempts after the first."),
    BY_REASON(dead,
              1U << REASON_RETRIES | 1U << REASON_REJECTED | 1U << REASON_EXPIRED |
                  1U << REASON_UNDECODABLE,
              "tarry_jobs_dead_total",
              "Jobs that became dead letters, stored in the error bucket."),
    ROUTE(cancelled, "tarry_jobs_cancelled_total",
          "Jobs cancelled before their delivery."),
    BY_KIND(
        expired, drops, "tarry_jobs_expired_total",
        "Jobs dropped because they were too late, by deliver-before or max_lateness."),
    RARE(late, "tarry_jobs_late_total", "Jobs delivered later than max_lateness."),
    RARE(repeated, "tarry_jobs_repeated_total",
         "Repeating jobs scheduled for their next run."),
    RARE(replayed, "tarry_jobs_replayed_total", "Dead letters replayed."),
    RARE(dropped_dead, "tarry_jobs_dead_dropped_total",
         "Dead letters that an operator deleted."),
    ROUTE(parked, "tarry_jobs_parked_total",
          "Times that a job was released without an attempt, because its target is "
          "stopped, its breaker is open or its limit is reached."),
    RARE(newer, "tarry_jobs_newer_total",
         "Times that a job was released because a newer version of tarry wrote it."),
    RARE(cancels_missed, "tarry_cancels_missed_total",
         "Cancels that were too late, or named no job."),
    RARE(claims_late, "tarry_late_claims_total",
         "Claims of due jobs that the owner of the bucket had not claimed."),
    RARE(claims_empty, "tarry_empty_claims_total", "Claims that returned no job."),
    ROUTE(stale, "tarry_stale_acks_total",
          "Outcomes reported after the lease expired; they have no effect."),
    ROUTE(
        rearms, "tarry_watchdog_rearms_total",
        "Times that the watchdog restarted a bucket because its due jobs were stalled."),

    COUNTED(waiting, "tarry_jobs_pending", "Pending jobs in Redis."),
    COUNTED(far, "tarry_jobs_far",
            "Pending jobs due later than redis.horizon, which use less memory."),
    COUNTED(in_flight, "tarry_jobs_inflight",
            "Jobs in flight: claimed and not yet acknowledged, all instances."),
    COUNTED(dead, "tarry_dead_letters", "Dead letters in the error bucket."),
    GAUGE_OF(OF_COUNTED, overdue, "tarry_jobs_due_overdue",
             "Pending jobs that are already due; 0 while the route is paused."),
    GAUGE_OF(OF_COUNTED, overdue_s, "tarry_oldest_overdue_seconds",
             "Time since the oldest pending job was due; 0 while the route is paused."),
    GAUGE_OF(OF_COUNTED, counted_age_s, "tarry_jobs_counted_age_seconds",
             "Age of these numbers; those of queues are from the last sweep."),
    FIELDS(OF_ROUTES, HISTOGRAM, route, stats.lateness, 1, NULL, NULL, ALL,
           "tarry_delivery_lateness_seconds",
           "Time from the due time to the start of the first attempt."),

    FIELDS(OF_SINKS, COUNTER, sink, stats.outcomes, 3, "result", results, ALL,
           "tarry_delivery_attempts_total", "Delivery attempts by outcome."),
    FIELDS(OF_SINKS, HISTOGRAM, sink, stats.duration, 3, "result", results,
           1U << DELIVERED, "tarry_sink_duration_seconds",
           "Time from the start of an attempt to its outcome."),
    GAUGE_OF(OF_SINKS, in_flight, "tarry_sink_inflight", "Delivery attempts in flight."),
    GAUGE_OF(OF_SINKS_ABROAD, sink_connections, "tarry_sink_connections",
             "Open connections to brokers and receivers; of Kafka as of 5 seconds ago."),

    SOURCE(unrouted, "tarry_source_unrouted_total",
           "Messages rejected because no route accepts them."),
    SOURCE(sessions_lost, "tarry_source_session_lost_total",
           "Sessions that a broker lost, possibly with messages."),
    SOURCE(rewinds, "tarry_source_rewinds_total",
           "Times that a partition was read again from an earlier record."),
    GAUGE_OF(OF_SOURCES, paused, "tarry_source_paused", "1 while the source is paused."),
    GAUGE_OF(OF_SOURCES_ABROAD, source_connections, "tarry_source_connections",
             "Open connections to brokers; of Kafka as of 5 seconds ago."),

    QUEUE(handed, "tarry_queue_delivered_total", "Deliveries to consumers."),
    QUEUE(timed_out, "tarry_queue_lease_ended_total",
          "Deliveries whose lease expired without an acknowledgement, as seen by this "
          "instance."),
    QUEUE(exhausted, "tarry_queue_exhausted_total",
          "Jobs that have used all their attempts, as seen by this instance."),
    QUEUE(expired, "tarry_queue_expired_total",
          "Jobs whose time to live expired, as seen by this instance."),
    QUEUE(dropped, "tarry_queue_dropped_total",
          "Jobs deleted by operations on a whole queue."),
    GAUGE_OF(OF_QUEUES, names, "tarry_queues", "Queues in the list of queues."),
    GAUGE_OF(OF_QUEUES, consumers, "tarry_queue_consumers",
             "Long polls waiting at this instance, counted once per queue."),
};

/* ------------------------------------------------------------------- its lines */

static const char *const types[] = {
    [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

/* Return whether the metric has counted anything. */
static bool has_counted(const struct row *row, const void *at, unsigned k)
{
    return row->type == HISTOGRAM ? histogram_count((const struct histogram *)at + k) > 0
                                  : ((const uint64_t *)at)[k] > 0;
}

static void print_value(const struct row *row, const char *name, const void *of,
                        unsigned k, bool full, struct buf *out)
{
    const void *at = (const char *)of + row->offset;
    if (!full && !(row->usual >> k & 1) && !has_counted(row, at, k))
        return;
    const char *kind = row->kinds ? row->kinds[k] : reason_name((enum reason)k);
    const struct label labels[] = {
        {labels_of[row->whose], name}, {row->label, kind}, {NULL, NULL}};
    if (row->value)
        metric_real(out, row->name, labels, row->value(of));
    else if (row->type == HISTOGRAM)
        metric_histogram(out, row->name, labels, (const struct histogram *)at + k, full);
    else if (row->type == COUNTER)
        metric_count(out, row->name, labels, ((const uint64_t *)at)[k]);
    else
        metric_number(out, row->name, labels, *(const int64_t *)at);
}

/* Prints the metric of one owner. */
static void print_of(const struct row *row, const char *name, const void *of,
                     const struct bridge *bridge, struct buf *out)
{
    for (unsigned k = 0; k < row->count; k++)
        print_value(row, name, of, k, bridge->conf->metrics == METRICS_FULL, out);
}

static void print_row(const struct row *row, const struct bridge *bridge,
                      int64_t since_ms, struct buf *out)
{
    enum whose whose = row->whose;
    metric_head(out, row->name, types[row->type], row->help);
    EACH_ROUTE (bridge, route)
        if (whose == OF_ROUTES || (whose == OF_COUNTED && census_knows(route, since_ms)))
            print_of(row, route->conf->name, route, bridge, out);
    EACH_SINK (bridge, sink) {
        bool abroad = sink->ops->connections && sink->run == PART_RUNS;
        if (whose == OF_SINKS || (whose == OF_SINKS_ABROAD && abroad) ||
            (whose == OF_QUEUES && sink->rules))
            print_of(row, sink->conf->name, sink, bridge, out);
    }
    EACH_SOURCE (bridge, src) {
        bool abroad = src->ops->connections && src->run == PART_RUNS;
        if (whose == OF_SOURCES || (whose == OF_SOURCES_ABROAD && abroad))
            print_of(row, src->conf->name, src, bridge, out);
    }
}

/* ------------------------------------------------ the lag of each source's partitions */

enum { PARTITIONS_MAX = 500 /* of a source, with lines of their own */ };
static const char lag_name[] = "tarry_source_lag_records";

struct lags { /* of one source */
    const struct source *src;
    struct buf *out;
    unsigned partitions;
    int64_t others; /* records of the partitions that have no line of their own */
};

static void print_lag(const struct lags *l, const char *topic, const char *partition,
                      int64_t records)
{
    metric_number(l->out, lag_name,
                  LABELS({"source", l->src->conf->name}, {"topic", topic},
                         {"partition", partition}),
                  records);
}

static void on_lag(void *arg, const char *topic, int32_t partition, int64_t records)
{
    struct lags *l = arg;
    char number[16];
    snprintf(number, sizeof(number), "%d", (int)partition);
    if (l->partitions++ < PARTITIONS_MAX)
        print_lag(l, topic, number, records);
    else
        l->others += records;
}

static void print_lags(const struct bridge *bridge, struct buf *out)
{
    metric_head(out, lag_name, "gauge",
                "Records of the partition that Redis has not stored yet, for the "
                "partitions that this instance reads.");
    EACH_SOURCE (bridge, src) {
        struct lags l = {.src = src, .out = out};
        if (src->ops->lag && src->run == PART_RUNS)
            src->ops->lag(src->self, on_lag, &l);
        if (l.partitions > PARTITIONS_MAX)
            print_lag(&l, "others", "others", l.others);
    }
}

void metrics_print(const struct bridge *bridge, int64_t since_ms, struct buf *out)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        print_row(&rows[i], bridge, since_ms, out);
    print_lags(bridge, out);
}
