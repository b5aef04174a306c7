/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/stats.h"
#include "bridge/alive.h"
#include "bridge/bridge.h"
#include "bridge/meta_keep.h"
#include "bridge/pace.h"
#include "bridge/queue_place.h"
#include "bridge/version.h"

#include <inttypes.h>
#include <stddef.h>

static const double bounds[HISTOGRAM_BOUNDS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                0.1,   0.2,   0.5,   1,    2,    5,
                                                10,    30,    60,    300,  1800, 3600};

void histogram_add(struct histogram *h, double seconds)
{
    unsigned i = 0;
    if (seconds < 0)
        seconds = 0;
    while (i < HISTOGRAM_BOUNDS && seconds > bounds[i])
        i++;
    h->bucket[i]++;
    h->sum += seconds;
}

void histogram_print(const struct histogram *h, const char *name, const char *labels,
                     struct buf *out)
{
    uint64_t count = 0;
    const char *comma = *labels ? "," : "";
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        count += h->bucket[i];
        buf_addf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                 bounds[i], count);
    }
    count += h->bucket[HISTOGRAM_BOUNDS];
    buf_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    buf_addf(out, "%s_sum{%s} %.6f\n%s_count{%s} %" PRIu64 "\n", name, labels, h->sum,
             name, labels, count);
}

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

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
            "Kafka "
            "record was read again."),
    ROW(replaced, "tarry_jobs_replaced_total",
        "Jobs that were stored in the place of another of their id."),
    ROW(clamped, "tarry_jobs_clamped_total",
        "Jobs stored with max_delay instead of a longer delay."),
    BY_REASON(refused, "tarry_jobs_rejected_total",
              "Messages refused to the producer's face."),
    ROW(not_stored, "tarry_jobs_not_stored_total",
        "Messages that Redis did not take in time; the source keeps them."),
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
#undef ROW
#undef BY_REASON
};

static void print_counter(const struct bridge *bridge, const struct counter_row *row,
                          struct buf *out)
{
    head(out, row->name, "counter", row->help);
    for (size_t i = 0; i < bridge->route_count; i++) {
        const struct route *route = bridge->routes[i];
        const uint64_t *v = (const uint64_t *)((const char *)&route->stats + row->offset);
        for (unsigned r = 0; r < row->count; r++) {
            buf_addf(out, "%s{route=\"%s\"", row->name, route->conf->name);
            if (row->count > 1)
                buf_addf(out, ",reason=\"%s\"",
                         row->kinds ? row->kinds[r] : reason_name((enum reason)r));
            buf_addf(out, "} %" PRIu64 "\n", v[r]);
        }
    }
}

static double overdue_s(const struct counts *c)
{
    return c->head_ms < 0 || c->head_ms > c->now_ms
               ? 0
               : (double)(c->now_ms - c->head_ms) / 1000;
}

/* What Redis says of each route. */
static void print_gauges(const struct bridge *bridge, const struct counts *counts,
                         struct buf *out)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"tarry_jobs_pending", "Jobs that wait in Redis.",
         offsetof(struct counts, waiting)},
        {"tarry_jobs_far", "Of these, due later than redis.horizon, in less memory.",
         offsetof(struct counts, far)},
        {"tarry_jobs_inflight", "Jobs claimed and not yet acknowledged, all instances.",
         offsetof(struct counts, in_flight)},
        {"tarry_jobs_dead", "Dead letters in the error bucket.",
         offsetof(struct counts, dead)},
        {"tarry_jobs_due_overdue", "Jobs that wait although they are due.",
         offsetof(struct counts, overdue)},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        head(out, rows[r].name, "gauge", rows[r].help);
        for (size_t i = 0; counts && i < bridge->route_count; i++)
            buf_addf(out, "%s{route=\"%s\"} %" PRId64 "\n", rows[r].name,
                     bridge->routes[i]->conf->name,
                     *(const int64_t *)((const char *)&counts[i] + rows[r].offset));
    }
    head(out, "tarry_oldest_overdue_seconds", "gauge",
         "For how long the oldest due job waits.");
    for (size_t i = 0; counts && i < bridge->route_count; i++)
        buf_addf(out, "tarry_oldest_overdue_seconds{route=\"%s\"} %.3f\n",
                 bridge->routes[i]->conf->name, overdue_s(&counts[i]));
}

static void print_lateness(const struct bridge *bridge, struct buf *out)
{
    const char *name = "tarry_delivery_lateness_seconds";
    struct buf labels = {0};
    head(out, name, "histogram",
         "From due to the hand-over to the sink, first attempts.");
    for (size_t i = 0; i < bridge->route_count; i++) {
        buf_clear(&labels);
        buf_addf(&labels, "route=\"%s\"", bridge->routes[i]->conf->name);
        histogram_print(&bridge->routes[i]->stats.lateness, name, buf_str(&labels), out);
    }
    buf_free(&labels);
}

static void print_sinks(const struct bridge *bridge, struct buf *out)
{
    static const char *const results[] = {"delivered", "try_again", "rejected"};
    struct buf labels = {0};
    head(out, "tarry_delivery_attempts_total", "counter",
         "Hand-overs by what became of them.");
    for (size_t i = 0; i < bridge->sink_count; i++)
        for (int o = 0; o < 3; o++)
            buf_addf(out,
                     "tarry_delivery_attempts_total{sink=\"%s\",result=\"%s\"} %" PRIu64
                     "\n",
                     bridge->sinks[i]->conf->name, results[o],
                     bridge->sinks[i]->stats.outcomes[o]);
    head(out, "tarry_sink_duration_seconds", "histogram", "From hand-over to outcome.");
    for (size_t i = 0; i < bridge->sink_count; i++) {
        for (int o = 0; o < 3; o++) {
            buf_clear(&labels);
            buf_addf(&labels, "sink=\"%s\",result=\"%s\"", bridge->sinks[i]->conf->name,
                     results[o]);
            histogram_print(&bridge->sinks[i]->stats.duration[o],
                            "tarry_sink_duration_seconds", buf_str(&labels), out);
        }
    }
    buf_free(&labels);
    head(out, "tarry_sink_inflight", "gauge", "Hand-overs without an outcome.");
    for (size_t i = 0; i < bridge->sink_count; i++)
        buf_addf(out, "tarry_sink_inflight{sink=\"%s\"} %u\n",
                 bridge->sinks[i]->conf->name, bridge->sinks[i]->in_flight);
    head(out, "tarry_source_paused", "gauge", "1 while the source is held back.");
    for (size_t i = 0; i < bridge->source_count; i++)
        buf_addf(out, "tarry_source_paused{source=\"%s\"} %d\n",
                 bridge->sources[i]->conf->name, bridge->sources[i]->paused);
    head(out, "tarry_source_session_lost_total", "counter",
         "Sessions that a broker lost, and with them perhaps messages.");
    for (size_t i = 0; i < bridge->source_count; i++)
        buf_addf(out, "tarry_source_session_lost_total{source=\"%s\"} %" PRIu64 "\n",
                 bridge->sources[i]->conf->name, bridge->sources[i]->sessions_lost);
    head(out, "tarry_source_rewinds_total", "counter",
         "Times that a partition was read again from an earlier record.");
    for (size_t i = 0; i < bridge->source_count; i++)
        buf_addf(out, "tarry_source_rewinds_total{source=\"%s\"} %" PRIu64 "\n",
                 bridge->sources[i]->conf->name, bridge->sources[i]->rewinds);
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
    };
#undef ROW
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        head(out, rows[r].name, "counter", rows[r].help);
        for (size_t i = 0; i < bridge->sink_count; i++) {
            const struct sink *sink = bridge->sinks[i];
            const char *stats = (const char *)&sink->queue_stats;
            if (sink->rules)
                buf_addf(out, "%s{sink=\"%s\"} %" PRIu64 "\n", rows[r].name,
                         sink->conf->name,
                         *(const uint64_t *)(const void *)(stats + rows[r].offset));
        }
    }
    head(out, "tarry_queues", "gauge", "Queues that are listed.");
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->rules)
            buf_addf(out, "tarry_queues{sink=\"%s\"} %zu\n", bridge->sinks[i]->conf->name,
                     bridge->sinks[i]->sum_names);
    head(out, "tarry_queue_consumers", "gauge",
         "Consumers of this instance that wait, once for each queue.");
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->rules)
            buf_addf(out, "tarry_queue_consumers{sink=\"%s\"} %u\n",
                     bridge->sinks[i]->conf->name, queue_consumers(bridge->sinks[i]));
}

/* Who else is there, and what of it is ours. */
static void print_instances(const struct bridge *bridge, struct buf *out)
{
    size_t owned = 0;
    for (size_t i = 0; i < bridge->route_count; i++)
        for (int64_t b = 0; b < bridge->routes[i]->bucket_count; b++)
            owned += bridge->routes[i]->scheds[b]->rank == 0;
    head(out, "tarry_instances", "gauge",
         "Instances that share this Redis; 0: not known.");
    buf_addf(out, "tarry_instances %zu\n", alive_count(bridge->alive));
    head(out, "tarry_buckets_owned", "gauge",
         "Buckets whose jobs this instance claims at once, the others later.");
    buf_addf(out, "tarry_buckets_owned %zu\n", owned);
}

static void print_redis(const struct bridge *bridge, struct buf *out)
{
    int64_t used_bytes, max_bytes;
    store_memory(bridge->store, &used_bytes, &max_bytes);
    head(out, "tarry_redis_durability_level", "gauge",
         "How Redis keeps what it was told: 0 not known, 1 in memory, 2 snapshots, 3 a "
         "log "
         "synced each second, 4 a log synced before it answers.");
    buf_addf(out, "tarry_redis_durability_level %d\n", (int)store_keeps(bridge->store));
    head(out, "tarry_redis_memory_bytes", "gauge", "Memory that Redis uses.");
    buf_addf(out, "tarry_redis_memory_bytes %" PRId64 "\n", used_bytes);
    head(out, "tarry_redis_memory_max_bytes", "gauge", "Its maxmemory; 0: no limit.");
    buf_addf(out, "tarry_redis_memory_max_bytes %" PRId64 "\n", max_bytes);
}

static void print_orphan(void *arg, const char *field, int64_t jobs, int64_t queues)
{
    const char *name = strchr(field, ':') + 1;
    (void)queues;
    buf_addf(arg, "tarry_orphan_jobs{%.*s=\"%s\"} %" PRId64 "\n", (int)(name - field) - 1,
             field, name, jobs);
}

/* Which buckets there are, and what Redis holds of routes and sinks that are gone. */
static void print_buckets(const struct bridge *bridge, struct buf *out)
{
    head(out, "tarry_buckets", "gauge",
         "Buckets of the route; old: of an earlier number of buckets, not empty yet.");
    for (size_t i = 0; i < bridge->route_count; i++) {
        const struct route *route = bridge->routes[i];
        if (route->newest == NULL)
            continue;
        buf_addf(out, "tarry_buckets{route=\"%s\",age=\"new\"} %" PRId64 "\n",
                 route->conf->name, route->newest->bucket_count);
        buf_addf(out, "tarry_buckets{route=\"%s\",age=\"old\"} %" PRId64 "\n",
                 route->conf->name, route->bucket_count - route->newest->bucket_count);
    }
    head(out, "tarry_orphan_jobs", "gauge",
         "Jobs of a route or a queue sink that is not configured any more; they stay.");
    meta_orphans(bridge->meta, print_orphan, out);
    for (size_t i = 0; i < bridge->pool_count; i++)
        meta_orphans(bridge->pools[i].meta, print_orphan, out);
}

static void print_process(const struct bridge *bridge, struct buf *out)
{
    static const char *const codes[] = {
        [REDIS_NO_SCRIPT] = "no-script", [REDIS_WAIT] = "wait",
        [REDIS_ELSEWHERE] = "elsewhere", [REDIS_MOVING] = "moving",
        [REDIS_FULL] = "full",           [REDIS_MOVED_AWAY] = "moved-away",
        [REDIS_DENIED] = "denied",       [REDIS_WRONG] = "wrong",
    };
    head(out, "tarry_redis_scripts_total", "counter", "Script calls sent to Redis.");
    for (int i = 0; i < SCRIPTS; i++)
        buf_addf(out, "tarry_redis_scripts_total{script=\"%s\"} %" PRIu64 "\n",
                 script_name((enum script)i),
                 store_script_calls(bridge->store, (enum script)i));
    head(out, "tarry_redis_errors_total", "counter",
         "Error replies of Redis by their meaning.");
    for (int e = REDIS_NO_SCRIPT; e <= REDIS_WRONG; e++)
        buf_addf(out, "tarry_redis_errors_total{code=\"%s\"} %" PRIu64 "\n", codes[e],
                 store_errors(bridge->store, (enum redis_error)e));
    head(out, "tarry_redis_connections_total", "counter", "Connections made to Redis.");
    buf_addf(out, "tarry_redis_connections_total %" PRIu64 "\n",
             store_connections(bridge->store));
    head(out, "tarry_layout", "gauge", "Layout of the keys in Redis.");
    buf_addf(out, "tarry_layout %" PRId64 "\n", meta_layout(bridge->meta));
    head(out, "tarry_redis_up", "gauge", "1 while Redis can be worked with.");
    buf_addf(out, "tarry_redis_up %d\n", store_is_up(bridge->store));
    print_redis(bridge, out);
    head(out, "tarry_loop_wakeups_total", "counter", "Turns of the event loop.");
    buf_addf(out, "tarry_loop_wakeups_total %" PRIu64 "\n", loop_wakeups());
    head(out, "tarry_submitted_jobs", "gauge",
         "Jobs taken in that Redis has not answered for.");
    buf_addf(out, "tarry_submitted_jobs %" PRId64 "\n", bridge->flow.jobs);
    head(out, "tarry_build_info", "gauge", "Always 1; the version is in the label.");
    buf_addf(out, "tarry_build_info{version=\"%s\"} 1\n", TARRY_VERSION);
}

void stats_print(const struct bridge *bridge, const struct counts *counts,
                 struct buf *out)
{
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        print_counter(bridge, &counters[i], out);
    print_gauges(bridge, counts, out);
    print_lateness(bridge, out);
    print_sinks(bridge, out);
    print_queues(bridge, out);
    pace_print(bridge->routes, bridge->route_count, out);
    print_instances(bridge, out);
    print_buckets(bridge, out);
    print_process(bridge, out);
}
