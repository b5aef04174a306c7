/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics_daemon.c - all metrics except those of routes, sinks and sources.
 */
#include "bridge/admin/metrics.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/membership.h"
#include "bridge/engine/meta.h"
#include "bridge/base/version.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static void gauge(struct buf *out, const char *name, const char *help, int64_t value)
{
    metric_head(out, name, "gauge", help);
    metric_number(out, name, NO_LABELS, value);
}

static void counter(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "counter", help);
    metric_count(out, name, NO_LABELS, value);
}

/* The live instances, and this instance's share of the work. */
static void print_instances(const struct bridge *bridge, struct buf *out)
{
    int64_t owned = 0;
    EACH_ROUTE (bridge, route)
        EACH_SCHED (route, s)
            owned += s->rank == 0;
    gauge(out, "tarry_instances", "Instances that share this Redis; 0: unknown.",
          (int64_t)membership_list(bridge->membership)->n);
    gauge(out, "tarry_buckets_owned",
          "Buckets that this instance owns; it claims jobs of other buckets only with a "
          "delay.",
          owned);
}

static void print_orphan(void *arg, const char *field, int64_t jobs, int64_t queues)
{
    const char *name = strchr(field, ':') + 1;
    (void)queues;
    metric_number(arg, "tarry_orphan_jobs",
                  LABELS({strncmp(field, "sink:", 5) == 0 ? "sink" : "route", name}),
                  jobs);
}

/* Number of buckets, and the remaining jobs of removed routes and sinks. */
static void print_buckets(const struct bridge *bridge, struct buf *out)
{
    metric_head(out, "tarry_buckets", "gauge", "Buckets of the route.");
    EACH_ROUTE (bridge, route) {
        const char *name = route->conf->name;
        if (route->bucket_count > 0)
            metric_number(out, "tarry_buckets", LABELS({"route", name}),
                          route->bucket_count);
    }
    metric_head(out, "tarry_orphan_jobs", "gauge",
                "Jobs of a route or queue sink that is no longer configured; they stay "
                "in Redis.");
    EACH_POOL (bridge, pool)
        meta_orphans(pool->meta, print_orphan, out);
}

/* full: also scripts that were never called. */
static void print_scripts(const struct store *store, bool full, struct buf *out)
{
    const struct store_counters *n = store_counters(store);
    metric_head(out, "tarry_redis_scripts_total", "counter",
                "Script calls sent to Redis.");
    for (int i = 0; i < SCRIPTS; i++)
        if (full || n->calls[i] > 0)
            metric_count(out, "tarry_redis_scripts_total",
                         LABELS({"script", script_names[i]}), n->calls[i]);
    metric_head(out, "tarry_redis_command_duration_seconds", "histogram",
                "Time from sending a script call to its reply.");
    for (int i = 0; i < SCRIPTS; i++)
        if (full || n->calls[i] > 0)
            metric_histogram(out, "tarry_redis_command_duration_seconds",
                             LABELS({"script", script_names[i]}), &n->took[i], full);
}

static void print_errors(const struct store *store, struct buf *out)
{
    static const char *const codes[] = {
        [REDIS_NO_SCRIPT] = "no-script", [REDIS_WAIT] = "wait",
        [REDIS_ELSEWHERE] = "elsewhere", [REDIS_MOVING] = "moving",
        [REDIS_FULL] = "full",           [REDIS_MOVED_AWAY] = "moved-away",
        [REDIS_FENCED] = "fenced",       [REDIS_DENIED] = "denied",
        [REDIS_WRONG] = "wrong",
    };
    metric_head(out, "tarry_redis_errors_total", "counter",
                "Error replies of Redis by their meaning.");
    for (int e = REDIS_NO_SCRIPT; e <= REDIS_WRONG; e++)
        metric_count(out, "tarry_redis_errors_total", LABELS({"code", codes[e]}),
                     store_counters(store)->errors[e]);
}

/* The one that waits for messages of other instances is included. */
static void print_connections(const struct bridge *bridge, struct buf *out)
{
    metric_head(out, "tarry_redis_connections", "gauge",
                "Open connections to Redis, by pool (none: the main Redis).");
    metric_number(out, "tarry_redis_connections", NO_LABELS,
                  store_open_connections(bridge->store));
    EACH_POOL (bridge, pool)
        if (pool > bridge->pools)
            metric_number(out, "tarry_redis_connections", LABELS({"pool", pool->name}),
                          store_open_connections(pool->store));
}

static void print_redis(const struct bridge *bridge, bool answers, struct buf *out)
{
    const struct store *store = bridge->store;
    struct queue_usage usage;
    bool known = store_usage(store, &usage);
    print_scripts(store, bridge->conf->metrics == METRICS_FULL, out);
    print_errors(store, out);
    gauge(out, "tarry_redis_up", "1 while Redis is usable and replies.",
          store_is_up(store) && answers && store_silent_ms(store) == 0);
    metric_head(out, "tarry_redis_silent_seconds", "gauge",
                "How long Redis has owed a reply; 0: it answers.");
    metric_real(out, "tarry_redis_silent_seconds", NO_LABELS,
                (double)store_silent_ms(store) / 1000);
    print_connections(bridge, out);
    counter(out, "tarry_redis_connects_total", "Connections made to Redis.",
            store_counters(store)->connections);
    counter(
        out, "tarry_redis_wait_shortfall_total",
        "Times that fewer replicas had the latest jobs than redis.durability requires.",
        store_counters(store)->wait_shortfalls);
    gauge(out, "tarry_redis_durability_level",
          "How Redis persists data: 0 unknown, 1 memory only, 2 snapshots, 3 append-only "
          "file synced each second, 4 append-only file synced before each reply.",
          (int64_t)store_persistence(store));
    if (!known)
        return;
    gauge(out, "tarry_redis_memory_bytes", "Memory that Redis uses.", usage.used_bytes);
    gauge(out, "tarry_redis_memory_max_bytes", "Its maxmemory; 0: no limit.",
          usage.max_bytes);
}

static void print_lines(struct buf *out)
{
    metric_head(out, "tarry_log_lines_total", "counter",
                "Log lines; a line that summarizes several counts once.");
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++)
        metric_count(out, "tarry_log_lines_total",
                     LABELS({"level", log_level_name((enum log_level)level)}),
                     log_lines((enum log_level)level));
}

/* --- process metrics from the kernel; a value that it does not report is 0 --- */

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void print_memory(struct buf *out)
{
    long long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lld %lld", &pages, &resident) != 2)
        pages = resident = 0;
    if (f)
        fclose(f);
    gauge(out, "process_resident_memory_bytes", "Resident memory.",
          resident * sysconf(_SC_PAGESIZE));
    gauge(out, "process_virtual_memory_bytes", "Virtual memory.",
          pages * sysconf(_SC_PAGESIZE));
}

static int64_t count_fds(void)
{
    int64_t n = -3; /* minus ".", ".." and the descriptor of dir */
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void print_process(const struct bridge *bridge, struct buf *out)
{
    static int64_t begun_ms; /* computed once: constant even if the clock is set */
    struct rusage usage = {0};
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    if (begun_ms == 0)
        begun_ms = loop_wall_ms() - (loop_mono_ms() - bridge->started_ms);
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &limit);
    metric_head(out, "process_cpu_seconds_total", "counter",
                "CPU time, user and system.");
    metric_real(out, "process_cpu_seconds_total", NO_LABELS,
                seconds(usage.ru_utime) + seconds(usage.ru_stime));
    metric_head(out, "process_start_time_seconds", "gauge",
                "Start time of the process, since 1970.");
    metric_real(out, "process_start_time_seconds", NO_LABELS, (double)begun_ms / 1000);
    print_memory(out);
    gauge(out, "process_open_fds", "Open file descriptors.", count_fds());
    gauge(out, "process_max_fds", "The limit of open file descriptors.",
          limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur);
}

void metrics_print_daemon(const struct bridge *bridge, bool answers, struct buf *out)
{
    print_instances(bridge, out);
    print_buckets(bridge, out);
    print_redis(bridge, answers, out);
    counter(out, "tarry_loop_wakeups_total", "Turns of the event loop.", loop_wakeups());
    gauge(out, "tarry_submitted_jobs",
          "Submitted jobs that Redis has not yet acknowledged.", bridge->flow.jobs);
    print_lines(out);
    metric_head(out, "tarry_build_info", "gauge",
                "Always 1; version and revision are in the labels.");
    metric_number(out, "tarry_build_info",
                  LABELS({"version", TARRY_VERSION}, {"revision", tarry_revision}), 1);
    print_process(bridge, out);
}
