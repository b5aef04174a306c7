/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.c - the core alone, in one process: the daemon with its own table of plugins,
 * without a broker or HTTP, against a real Redis.
 *
 *   engine WAY REDIS-URL JOBS [PAYLOAD-BYTES]
 *
 * The source "bench" submits jobs like Kafka records, as fast as the core accepts them.
 * The sink "bench" reports each job as delivered. Consumers pull in batches and
 * acknowledge each job. A way is a list of steps, run one after the other. Prints one
 * line of JSON per step with its seconds and its CPU seconds. Under callgrind
 * (--collect-atstart=no) only the steps count, each with a dump of its own, by its name.
 */
#include "bridge/engine/bridge.h"
#include "bridge/daemon/daemon.h"
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"
#include "bridge/engine/sched.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <valgrind/callgrind.h>

enum {
    PER_TURN = 500, /* submitted; the Kafka source hands over as many */
    PARTITIONS = 4,
    CONSUMERS = 4,
    PULL_MAX = 500, /* by one consumer at a time */
    PULL_WAIT_MS = 1000
};

struct step {
    const char *name;
    void (*begin)(void);
    bool (*is_done)(void);
};
struct way {
    const char *name;
    const char *topic; /* of the jobs; selects the route */
    const char *after; /* deliver-after */
    bool keeps_jobs; /* the sink and the consumers keep their jobs until the next step */
    struct step steps[4];
};

struct pulled {
    struct slice id;
    int64_t lease;
};

static struct {
    const struct way *way;
    const struct step *step; /* current step; NULL: none yet */
    int64_t began_us, began_cpu_us;
    struct source *src;
    struct timer *next; /* starts a turn at once */
    struct turn_hook *hook;
    bool paused, submits, pulls;
    struct slice payload;
    uint64_t jobs, submitted, stored, handed, finished, failed;
    unsigned asked; /* pulls in flight */
    struct delivery **held;
    struct pulled *pulled;
} bench;

/* ------------------------------------------------------------------------- source */

static void on_stored(void *arg, const struct stored_reply *reply)
{
    (void)arg;
    if (reply->outcome == STORED)
        bench.stored++;
    else
        bench.failed++;
}

static void submit_one(void)
{
    struct err err;
    struct job *job = job_new(bench.payload.n + 256);
    job->topic = job_copy_slice(job, slice_of(bench.way->topic));
    job->key = job_copy_slice(job, SLICE_LIT("customer-0815"));
    job->payload = job_copy_slice(job, bench.payload);
    job->partition = (int32_t)(bench.submitted % PARTITIONS);
    job->offset = (int64_t)(bench.submitted / PARTITIONS);
    job->timestamp_ms = loop_wall_ms();
    must(job_add_header(job, SLICE_LIT("deliver-after"), slice_of(bench.way->after),
                        &err) == 0);
    bench.submitted++;
    source_submit(bench.src, job, on_stored, NULL);
}

static void submit_some(void)
{
    for (unsigned i = 0; i < PER_TURN && bench.submitted < bench.jobs; i++)
        submit_one();
}

/* ---------------------------------------------------------------------- consumers */

static void on_finished(void *arg, enum queue_code code, enum queue_state was)
{
    (void)arg;
    (void)was;
    if (code == QUEUE_OK)
        bench.finished++;
    else
        bench.failed++;
}

static void finish(struct slice id, int64_t lease)
{
    const struct queue_finish how = {.lease = lease, .end = QUEUE_END_ACKED};
    queue_finish(bench.src, slice_of(bench.way->topic), id, &how, on_finished, NULL);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    (void)arg;
    (void)code;
    bench.asked--;
    for (unsigned i = 0; i < n; i++, bench.handed++) {
        must(bench.handed < bench.jobs);
        if (bench.way->keeps_jobs)
            bench.pulled[bench.handed] = (struct pulled){
                {mem_strndup(jobs[i].id.p, jobs[i].id.n), jobs[i].id.n}, jobs[i].lease};
        else
            finish(jobs[i].id, jobs[i].lease);
    }
}

static void pull_some(void)
{
    const struct slice topic = slice_of(bench.way->topic);
    const struct queue_ask ask = {
        .topics = &topic, .topic_count = 1, .max = PULL_MAX, .wait_ms = PULL_WAIT_MS};
    for (; bench.asked < CONSUMERS && bench.handed < bench.jobs; bench.asked++)
        queue_pull(bench.src, &ask, on_pulled, NULL);
}

/* -------------------------------------------------------------------------- steps */

static void submit(void)
{
    bench.src->bridge->claiming = false; /* until a step changes it */
    bench.submits = true;
}

static bool all_stored(void)
{
    return bench.stored == bench.jobs;
}

static void claim(void)
{
    struct bridge *bridge = bench.src->bridge;
    bridge->claiming = true;
    EACH_SCHED (TAILQ_FIRST(&bridge->routes), s)
        sched_start(s);
}

static void submit_and_claim(void)
{
    submit();
    claim();
}

static void pull(void)
{
    bench.pulls = true;
}

static bool all_handed(void)
{
    return bench.handed == bench.jobs;
}

static void report_held(void)
{
    for (uint64_t i = 0; i < bench.jobs; i++)
        delivery_done(bench.held[i], DELIVERED, NULL);
}

static bool all_delivered(void)
{
    return TAILQ_FIRST(&bench.src->bridge->routes)->stats.delivered == bench.jobs;
}

static void finish_held(void)
{
    for (uint64_t i = 0; i < bench.jobs; i++) {
        finish(bench.pulled[i].id, bench.pulled[i].lease);
        free((char *)bench.pulled[i].id.p);
    }
}

static bool all_finished(void)
{
    return bench.finished == bench.jobs;
}

static const struct way ways[] = {
    {"ingest", "jobs", "1h", false, {{"ingest", submit, all_stored}}},
    {"emit",
     "jobs",
     "1ms",
     false,
     {{"ingest", submit, all_stored}, {"emit", claim, all_delivered}}},
    {"whole", "jobs", "1ms", false, {{"whole", submit_and_claim, all_delivered}}},
    {"route-steps",
     "jobs",
     "1ms",
     true,
     {{"enqueue", submit, all_stored},
      {"claim", claim, all_handed},
      {"ack", report_held, all_delivered}}},
    {"queue",
     "queue",
     "1ms",
     false,
     {{"publish", submit, all_stored}, {"consume", pull, all_finished}}},
    {"queue-steps",
     "queue",
     "1ms",
     true,
     {{"publish", submit, all_stored},
      {"pull", pull, all_handed},
      {"finish", finish_held, all_finished}}},
};

static int64_t cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void begin(const struct step *step)
{
    bench.step = step;
    bench.began_us = loop_mono_us();
    bench.began_cpu_us = cpu_us();
    if (step->name == NULL) {
        kill(getpid(), SIGTERM);
        return;
    }
    CALLGRIND_TOGGLE_COLLECT;
    step->begin();
}

static void end_if_done(void)
{
    if (bench.step->name == NULL || !bench.step->is_done())
        return;
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_DUMP_STATS_AT(bench.step->name);
    printf("{\"step\": \"%s\", \"jobs\": %llu, \"s\": %.6f, \"cpu_s\": %.6f}\n",
           bench.step->name, (unsigned long long)bench.jobs,
           (double)(loop_mono_us() - bench.began_us) / 1e6,
           (double)(cpu_us() - bench.began_cpu_us) / 1e6);
    fflush(stdout);
    begin(bench.step + 1);
}

static void on_turn(void *arg)
{
    (void)arg;
    if (bench.step == NULL && !bench.paused)
        begin(bench.way->steps);
    if (bench.step == NULL)
        return;
    if (bench.failed > 0) {
        fprintf(stderr, "engine: %llu jobs were refused or not found\n",
                (unsigned long long)bench.failed);
        _exit(1);
    }
    end_if_done();
    if (bench.submits && !bench.paused && bench.submitted < bench.jobs) {
        submit_some();
        timer_set(bench.next, 0);
    }
    if (bench.pulls)
        pull_some();
}

/* ------------------------------------------------------------------------ plugins */

static void on_next(void *arg)
{
    (void)arg; /* on_turn() ends the turn that this call started */
}

static int start_source(struct source *src, void *self, struct err *err)
{
    (void)self;
    (void)err;
    bench.src = src;
    bench.next = timer_new(on_next, NULL);
    bench.hook = loop_each_turn(on_turn, NULL);
    timer_set(bench.next, 0);
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    (void)src;
    (void)self;
    bench.paused = paused;
    if (!paused)
        timer_set(bench.next, 0);
}

static void stop_source(struct source *src, void *self)
{
    (void)self;
    turn_hook_del(bench.hook);
    timer_del(bench.next);
    source_stopped(src);
}

static int start_sink(struct sink *sink, void *self, struct err *err)
{
    (void)sink;
    (void)self;
    (void)err;
    return 0;
}

static void deliver_one(struct sink *sink, void *self, struct delivery *d)
{
    (void)sink;
    (void)self;
    if (bench.way->keeps_jobs) {
        must(bench.handed < bench.jobs);
        bench.held[bench.handed++] = d;
    } else {
        delivery_done(d, DELIVERED, NULL);
    }
}

static void stop_sink(struct sink *sink, void *self)
{
    (void)self;
    sink_stopped(sink);
}

static const struct opt no_opts[] = {{0}};
static const struct source_ops source_bench = {.name = "bench",
                                               .size = 1,
                                               .opts = no_opts,
                                               .start = start_source,
                                               .pause = pause_source,
                                               .stop = stop_source};
static const struct sink_ops sink_bench = {.name = "bench",
                                           .size = 1,
                                           .opts = no_opts,
                                           .target = "{topic}",
                                           .max_in_flight = 10000, /* as Kafka's */
                                           .start = start_sink,
                                           .deliver = deliver_one,
                                           .stop = stop_sink};
extern const struct sink_ops sink_queue;
extern const struct source_ops source_http; /* an installation always has this source */

const struct source_ops *const source_plugins[] = {&source_bench, &source_http, NULL};
const struct sink_ops *const sink_plugins[] = {&sink_bench, &sink_queue, NULL};

int plugins_worker(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 64;
}

/* --------------------------------------------------------------------------- main */

static const struct way *way_named(const char *name)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    return NULL;
}

static void write_conf(FILE *f, const char *redis_url)
{
    fprintf(
        f,
        "redis: { url = \"%s\"; };\n"
        "http: { listen = \"\"; };\n"
        "admin: { listen = \"\"; };\n"
        "daemon: { log = \"warn\"; };\n"
        "sources: { in: { type = \"bench\"; }; };\n"
        "sinks: { out: { type = \"bench\"; %s };\n"
        "         pulled: { type = \"queue\"; lease = \"10m\"; }; };\n"
        "routes: { jobs: { from = \"in\"; to = \"out\"; match = \"jobs\";\n"
        "                  lease = \"10m\"; };\n"
        "          queue: { from = \"in\"; to = \"pulled\"; match = \"queue\"; }; };\n",
        redis_url, bench.way->keeps_jobs ? "max_in_flight = 100000;" : "");
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/engine-XXXXXX";
    bench.way = argc > 3 ? way_named(argv[1]) : NULL;
    bench.jobs = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    if (bench.way == NULL || bench.jobs == 0) {
        fprintf(stderr, "usage: engine WAY REDIS-URL JOBS [PAYLOAD-BYTES]\n");
        return 64;
    }
    size_t n = argc > 4 ? strtoul(argv[4], NULL, 10) : 100;
    char *payload = mem_alloc(n);
    memset(payload, 'x', n);
    bench.payload = (struct slice){payload, n};
    bench.held = mem_alloc(bench.jobs * sizeof(struct delivery *));
    bench.pulled = mem_alloc(bench.jobs * sizeof(*bench.pulled));
    int fd = mkstemp(name);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    must(f != NULL);
    write_conf(f, argv[2]);
    fclose(f);
    int code = daemon_run(name);
    unlink(name);
    free(payload);
    free(bench.held);
    free(bench.pulled);
    return code;
}
