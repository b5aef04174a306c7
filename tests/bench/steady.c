/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * steady.c - the daemon with a load of its own. Jobs arrive evenly spaced at a steady
 * rate, and a sink reports each as delivered at once. So it measures the core alone.
 *
 *   steady run CONF
 *
 * Sources of type "steady" (or "awaiting": as a producer that waits for each answer)
 * print, when they stop, the time until jobs were stored. Sinks of type "now" print the
 * lateness of jobs by the clock of this host. Each prints one line of JSON, in
 * microseconds. Jobs of the first tenth of a second do not count.
 */
#include "bridge/daemon/daemon.h"
#include "bridge/plugin.h"
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MIN_NS = 20 * 1000, WARM_UP_US = 100 * 1000, PAYLOAD_BYTES = 100 };

struct figures {
    float *v;
    size_t n, cap;
};

static void note(struct figures *f, int64_t us)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 4096;
        f->v = mem_realloc(f->v, f->cap * sizeof(*f->v));
    }
    f->v[f->n++] = (float)us;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double share(const struct figures *f, double p)
{
    return f->n ? (double)f->v[(size_t)(p * (double)(f->n - 1))] : 0;
}

static void tell(const char *who, struct figures *f, int64_t early)
{
    if (f->n)
        qsort(f->v, f->n, sizeof(*f->v), by_size);
    printf("{\"who\": \"%s\", \"n\": %zu, \"early\": %lld, \"p50\": %.0f, \"p99\": %.0f, "
           "\"p999\": %.0f, \"max\": %.0f}\n",
           who, f->n, (long long)early, share(f, 0.5), share(f, 0.99), share(f, 0.999),
           share(f, 1));
    fflush(stdout);
    free(f->v);
}

/* ---------------------------------------------------------------------- source */

struct steady {
    int64_t per_s, delay_ms, jobs;
    struct source *src;
    int fd;
    struct watch *watch;
    int64_t started_us, sent;
    bool paused;
    struct figures stored_us;
};

struct sent {
    struct steady *s;
    int64_t at_us;
};

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct sent *sent = arg;
    must(reply->outcome == STORED);
    if (sent->at_us - sent->s->started_us > WARM_UP_US)
        note(&sent->s->stored_us, loop_mono_us() - sent->at_us);
    free(sent);
}

static void submit(struct steady *s)
{
    static const char payload[PAYLOAD_BYTES];
    struct job *job = job_new(PAYLOAD_BYTES + 32);
    struct sent *sent = mem_alloc(sizeof(*sent));
    job->topic = job_copy_slice(job, SLICE_LIT("t"));
    job->payload = job_copy_slice(job, (struct slice){payload, PAYLOAD_BYTES});
    job->after = job_format(job, "%lldms", (long long)s->delay_ms);
    job->offset = job->partition = -1;
    *sent = (struct sent){s, loop_mono_us()};
    s->sent++;
    source_submit(s->src, job, on_stored, sent);
}

static void on_step(void *arg, unsigned events)
{
    struct steady *s = arg;
    uint64_t expirations;
    (void)events;
    if (read(s->fd, &expirations, sizeof(expirations)) < 0)
        return;
    int64_t want = (loop_mono_us() - s->started_us) * s->per_s / 1000000;
    while (!s->paused && s->sent < want && s->sent < s->jobs)
        submit(s);
    if (s->sent == s->jobs)
        watch_set(s->watch, 0);
}

static int source_start(struct source *src, void *self, struct err *err)
{
    struct steady *s = self;
    int64_t step_ns = 1000000000 / s->per_s;
    step_ns = step_ns < STEP_MIN_NS ? STEP_MIN_NS : step_ns;
    struct itimerspec when = {{step_ns / 1000000000, step_ns % 1000000000}, {0, 1}};
    s->src = src;
    s->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (s->fd < 0 || timerfd_settime(s->fd, 0, &when, NULL) < 0)
        return err_set(err, "no timer");
    s->watch = watch_add(s->fd, WATCH_READ, on_step, s);
    s->started_us = loop_mono_us();
    return 0;
}

static void source_pause(struct source *src, void *self, bool paused)
{
    (void)src;
    ((struct steady *)self)->paused = paused;
}

static void source_stop(struct source *src, void *self)
{
    struct steady *s = self;
    watch_del(s->watch);
    close(s->fd);
    tell(source_name(src), &s->stored_us, 0);
    source_stopped(src);
}

#define AT(field) offsetof(struct steady, field)
static const struct opt source_opts[] = {
    {"rate", OPT_INT, AT(per_s), "1000", "Jobs a second.", .min = 1},
    {"delay", OPT_MS, AT(delay_ms), "500ms", "Until they are due.", .min = 0},
    {"jobs", OPT_INT, AT(jobs), NULL, "So many in all.", .min = 0},
    {0}};
#undef AT

/* ------------------------------------------------------------------------ sink */

struct now {
    int64_t started_us, early;
    struct figures late_us;
};

static int sink_start(struct sink *sink, void *self, struct err *err)
{
    (void)sink;
    (void)self;
    (void)err;
    return 0;
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct now *s = self;
    struct timespec t;
    (void)sink;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t late_us =
        (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 - d->job->due_ms * 1000;
    int64_t now_us = loop_mono_us();
    if (s->started_us == 0)
        s->started_us = now_us;
    if (now_us - s->started_us > WARM_UP_US)
        note(&s->late_us, late_us);
    s->early += late_us < 0;
    delivery_done(d, DELIVERED, NULL);
}

static void sink_stop(struct sink *sink, void *self)
{
    struct now *s = self;
    tell(sink_name(sink), &s->late_us, s->early);
    sink_stopped(sink);
}

static const struct opt sink_opts[] = {{0}};

/* --------------------------------------------------------------------- plugins */

extern const struct source_ops source_http;
extern const struct sink_ops sink_http, sink_queue;

static const struct source_ops source_steady = {
    .name = "steady",
    .help = "Jobs at a rate.",
    .size = sizeof(struct steady),
    .opts = source_opts,
    .start = source_start,
    .pause = source_pause,
    .stop = source_stop,
};
static const struct source_ops source_awaiting = {
    .name = "awaiting",
    .help = "Jobs at a rate, whose answers are awaited.",
    .size = sizeof(struct steady),
    .opts = source_opts,
    .awaits = true,
    .start = source_start,
    .pause = source_pause,
    .stop = source_stop,
};
static const struct sink_ops sink_now = {
    .name = "now",
    .help = "Reports each job as delivered at once.",
    .size = sizeof(struct now),
    .opts = sink_opts,
    .target = "",
    .max_in_flight = 10000,
    .start = sink_start,
    .deliver = deliver,
    .stop = sink_stop,
};

const struct source_ops *const source_plugins[] = {&source_steady, &source_awaiting,
                                                   &source_http, NULL};
const struct sink_ops *const sink_plugins[] = {&sink_now, &sink_http, &sink_queue, NULL};

int plugins_worker(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 64;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: steady run CONF\n");
        return 64;
    }
    return daemon_run(argv[2]);
}
