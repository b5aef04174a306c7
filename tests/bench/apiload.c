/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * apiload.c - loads one of the HTTP APIs and prints one line of JSON with the results.
 *
 *   apiload CASE --port P [--api NAME] [--conns 64] [--seconds 5] [--count 100000]
 *           [--pid PID] [--token T]
 *
 * CASE: publish (rate), cycle (publish, consume and acknowledge on each connection),
 * drain (consume and acknowledge count due jobs), due (count jobs become due at the same
 * moment, while the consumers wait), callbacks (count jobs become due within a second),
 * lag (200 jobs a second for 10 s, due in 1 to 3 s), idle-polls (conns long polls: memory
 * and CPU of pid).
 */
#include "tests/bench/apis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STEP_US = 10, /* of the histogram of times */
    STEPS = 200000,
    LAG_PER_S = 200,
    LAG_S = 10,
    LAG_PUBLISHERS = 16,
    LAG_CONSUMERS = 16
};

static struct {
    const char *what;
    const struct api *api;
    int port, conns, pid;
    double seconds;
    int64_t count;
} o = {.conns = 64, .seconds = 5, .count = 100000};

static bool stop, no_stop;
static int64_t errors, done, handed_out, repeats;
static unsigned *seen; /* how often each job number arrived */
static unsigned times[STEPS + 1];

static void add_time(int64_t us)
{
    times[us / STEP_US < STEPS ? us / STEP_US : STEPS]++;
}

static double time_ms(double share)
{
    uint64_t all = 0, below = 0;
    for (int i = 0; i <= STEPS; i++)
        all += times[i];
    for (int i = 0; i <= STEPS; i++) {
        below += times[i];
        if (below > 0 && (double)below >= share * (double)all)
            return (i + 1) * STEP_US / 1000.0;
    }
    return 0;
}

static void complain(int status, const char *body)
{
    if (errors++ == 0)
        fprintf(stderr, "apiload: %s %s: %d %.200s\n", o.api->name, o.what, status, body);
}

static void print_rate(double seconds, const char *more)
{
    printf(
        "{\"case\":\"%s-%s\",\"conns\":%d,\"seconds\":%.3f,\"count\":%lld,\"per_s\":%.0f,"
        "\"errors\":%lld,\"repeats\":%lld,\"p50_ms\":%.2f,\"p99_ms\":%.2f%s}\n",
        o.api->name, o.what, o.conns, seconds, (long long)done, (double)done / seconds,
        (long long)errors, (long long)repeats, time_ms(0.5), time_ms(0.99), more);
}

/* ---------------------------------------------------- publishing, by rate or by count */

static int64_t published_all, publish_max; /* publish_max: stop after this many */
static int64_t (*delay_ms)(void);

static int64_t at_once(void)
{
    return o.api->least_ms;
}

static void publish_next(struct conn *c)
{
    if (handed_out >= publish_max)
        return;
    o.api->publish(c, handed_out, delay_ms());
    handed_out += o.api->bulk;
}

static void on_published(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    if (!o.api->published(status, body))
        complain(status, body);
    done += o.api->bulk;
    published_all += o.api->bulk;
    add_time(now_us() - c->sent_us);
    if (published_all >= publish_max)
        stop = true;
    publish_next(c);
}

static void measure(void)
{
    load_run(500000, &no_stop); /* to warm up */
    memset(times, 0, sizeof(times));
    done = 0;
    int64_t from_us = now_us();
    load_run((int64_t)(o.seconds * 1e6), &no_stop);
    print_rate((double)(now_us() - from_us) / 1e6, "");
}

static void run_publish(void)
{
    publish_max = INT64_MAX;
    delay_ms = at_once;
    for (int i = 0; i < o.conns; i++)
        publish_next(conn_open(o.port, on_published));
    measure();
}

/* Publish o.count jobs. Returns the rate per second. */
static double fill(void)
{
    int64_t from_us = now_us();
    publish_max = o.count;
    for (int i = 0; i < o.conns; i++)
        publish_next(conn_open(o.port, on_published));
    stop = false;
    load_run(120 * 1000000LL, &stop);
    double per_s = (double)done * 1e6 / (double)(now_us() - from_us);
    if (done < o.count)
        complain(0, "the jobs could not be published in 2 minutes");
    done = 0;
    memset(times, 0, sizeof(times));
    return per_s;
}

/* ----------------------------------------------------------------------- consuming */

enum { PUBLISHING, POLLING, FINISHING };
static int wait_s;
static bool in_cycle, in_lag; /* times are of requests; in_lag: of jobs */
static void (*on_job)(int64_t number);

static void poll_next(struct conn *c)
{
    c->step = POLLING;
    o.api->poll(c, wait_s);
}

static void finish_next(struct conn *c)
{
    struct jobs *jobs = c->more;
    c->step = FINISHING;
    if (o.api->finish_all)
        o.api->finish_all(c, jobs);
    else
        o.api->finish(c, jobs->id[jobs->at]);
}

static void mark_seen(int64_t number)
{
    if (number < 0 || number >= o.count)
        return;
    repeats += seen[number]++ > 0;
}

static void on_polled(struct conn *c, int status, const char *body)
{
    struct jobs *jobs = c->more;
    if (!o.api->read(status, body, jobs))
        complain(status, body);
    jobs->at = 0;
    for (int i = 0; on_job && i < jobs->n; i++)
        on_job(jobs->number[i]);
    if (jobs->n > 0)
        finish_next(c);
    else if (!stop)
        poll_next(c);
}

static void on_finished(struct conn *c, int status, const char *body)
{
    struct jobs *jobs = c->more;
    if (!o.api->finished(status, body))
        complain(status, body);
    int n = o.api->finish_all ? jobs->n : 1;
    done += n;
    if (!in_cycle && done >= o.count)
        stop = true;
    if ((jobs->at += n) < jobs->n) {
        finish_next(c);
    } else if (in_cycle) {
        c->step = PUBLISHING;
        publish_next(c);
    } else {
        poll_next(c);
    }
}

static void on_consumed(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    if (!in_lag)
        add_time(now_us() - c->sent_us);
    if (c->step == POLLING) {
        on_polled(c, status, body);
    } else if (c->step == FINISHING) {
        on_finished(c, status, body);
    } else {
        if (!o.api->published(status, body))
            complain(status, body);
        poll_next(c);
    }
}

static struct conn *open_consumer(void)
{
    struct conn *c = conn_open(o.port, on_consumed);
    c->more = calloc(1, sizeof(struct jobs));
    return c;
}

static void run_cycle(void)
{
    publish_max = INT64_MAX;
    delay_ms = at_once;
    wait_s = 3;
    in_cycle = true;
    for (int i = 0; i < o.conns; i++)
        publish_next(open_consumer());
    measure();
}

static void run_drain(void)
{
    char more[64];
    delay_ms = at_once;
    seen = calloc((size_t)o.count, sizeof(*seen));
    on_job = mark_seen;
    snprintf(more, sizeof(more), ",\"fill_per_s\":%.0f", fill());
    usleep(1000 * (unsigned)o.api->least_ms + 200000);
    stop = false;
    int64_t from_us = now_us();
    for (int i = 0; i < o.conns; i++)
        poll_next(open_consumer());
    load_run(120 * 1000000LL, &stop);
    if (!stop)
        complain(0, "not all jobs came in 2 minutes");
    print_rate((double)(now_us() - from_us) / 1e6, more);
}

/* ------------------------------------------------------------- due at one moment */

static int64_t due_us, first_us, last_us;

static int64_t until_moment(void)
{
    int64_t left_us = due_us - now_us();
    return left_us > 0 ? left_us / 1000 : 0;
}

static void on_due(int64_t number)
{
    if (first_us == 0)
        first_us = now_us();
    mark_seen(number);
}

/* Measure from the first job that arrives to the last acknowledgement. The transport of
 * the first batch to this process does not count, as for every peer. */
static void run_due(void)
{
    char more[128];
    delay_ms = until_moment;
    due_us = now_us() + o.count * 1000000 / 15000 + 2000000;
    seen = calloc((size_t)o.count, sizeof(*seen));
    on_job = on_due;
    wait_s = 60;
    double per_s = fill();
    if (now_us() > due_us)
        complain(0, "publishing took longer than the delay");
    for (int i = 0; i < o.conns; i++)
        poll_next(open_consumer());
    stop = false;
    load_run(due_us - now_us() + 60 * 1000000LL, &stop);
    if (!stop)
        complain(0, "not all jobs came in a minute");
    snprintf(more, sizeof(more), ",\"fill_per_s\":%.0f,\"first_after_due_ms\":%.1f",
             per_s, (double)(first_us - due_us) / 1000);
    print_rate((double)(now_us() - first_us) / 1e6, more);
}

/* ----------------------------------------------------------------------- callbacks */

/* Whole seconds, so that all jobs become due within one second after due_us. */
static int64_t until_due(void)
{
    int64_t left_us = due_us - now_us();
    return left_us < 0 ? 0 : (left_us / 1000000 + 1) * 1000;
}

static void on_callback(struct conn *c, int status, const char *body, size_t n)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 12\r\n\r\n{\"code\":100}";
    struct jobs jobs;
    (void)n;
    last_us = now_us();
    if (first_us == 0)
        first_us = last_us;
    if (!o.api->read(status, body, &jobs))
        complain(status, body);
    on_job(jobs.number[0]);
    done++;
    conn_send_bytes(c, answer, sizeof(answer) - 1);
    if (done == o.count)
        stop = true;
}

static void run_callbacks(void)
{
    char more[128];
    setting.sink_port = sink_open(on_callback);
    delay_ms = until_due;
    due_us = now_us() + o.count * 1000000 / 15000 + 2000000;
    seen = calloc((size_t)o.count, sizeof(*seen));
    on_job = mark_seen;
    double per_s = fill();
    if (now_us() > due_us)
        complain(0, "creating took longer than the delay");
    stop = false;
    load_run(due_us - now_us() + 60 * 1000000LL, &stop);
    if (!stop)
        complain(0, "not all callbacks came in a minute");
    snprintf(more, sizeof(more), ",\"fill_per_s\":%.0f,\"first_after_due_ms\":%.1f",
             per_s, (double)(first_us - due_us) / 1000);
    print_rate((double)(last_us - first_us) / 1e6, more);
}

/* ----------------------------------------------------------------------------- lag */

static int64_t *due_of; /* of each job: when it was sent, and its delay */
static int64_t early, lag_max_us;
static struct conn *idle[LAG_PUBLISHERS]; /* a ring: each is used in turn */
static unsigned idle_first, idle_n;

static void idle_add(struct conn *c)
{
    idle[(idle_first + idle_n++) % LAG_PUBLISHERS] = c;
}

static struct conn *idle_take(void)
{
    idle_n--;
    return idle[idle_first++ % LAG_PUBLISHERS];
}

static void on_lag_published(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    if (!o.api->published(status, body))
        complain(status, body);
    idle_add(c);
}

static void on_lag_job(int64_t number)
{
    if (number < 0 || number >= o.count)
        return;
    int64_t lag_us = now_us() - due_of[number];
    repeats += seen[number]++ > 0;
    early += lag_us < 0;
    add_time(lag_us < 0 ? 0 : lag_us);
    if (lag_us > lag_max_us)
        lag_max_us = lag_us;
}

static void lag_publish(int64_t number)
{
    struct conn *c = idle_take();
    int64_t delay = o.api->whole_seconds ? 1000 * (1 + rand() % 3) : 1000 + rand() % 2001;
    due_of[number] = now_us() + delay * 1000;
    o.api->publish(c, number, delay);
}

static void run_lag(void)
{
    char more[128];
    o.count = (int64_t)LAG_PER_S * LAG_S;
    seen = calloc((size_t)o.count, sizeof(*seen));
    due_of = calloc((size_t)o.count, sizeof(*due_of));
    on_job = on_lag_job;
    in_lag = true;
    wait_s = 3;
    if (o.api->poll == NULL)
        setting.sink_port = sink_open(on_callback);
    for (int i = 0; i < LAG_CONSUMERS && o.api->poll; i++)
        poll_next(open_consumer());
    for (int i = 0; i < LAG_PUBLISHERS; i++)
        idle_add(conn_open(o.port, on_lag_published));
    int64_t from_us = now_us();
    for (int64_t sent = 0; sent < o.count;) {
        int64_t next_us = from_us + sent * 1000000 / LAG_PER_S;
        if (now_us() >= next_us && idle_n > 0)
            lag_publish(sent++);
        else
            load_run(1000, &no_stop);
    }
    load_run(8 * 1000000LL, &stop);
    if (!stop)
        complain(0, "not all jobs came");
    snprintf(more, sizeof(more), ",\"early\":%lld,\"max_ms\":%.2f", (long long)early,
             (double)lag_max_us / 1000);
    print_rate((double)(now_us() - from_us) / 1e6, more);
}

/* ---------------------------------------------------------------------- idle polls */

enum { FIRST_ROUND, SECOND_ROUND };

/* An answer of the second round arrived too early. */
static void on_idle_answer(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    if (c->step == SECOND_ROUND || !o.api->finished(status, body))
        complain(status, body);
    if (++done == o.conns)
        stop = true;
}

static double cpu_s(void)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", o.pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    const char *p = strrchr(text, ')');
    if (p)
        sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &system);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double rss_mb(void)
{
    char path[64];
    long all, resident = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", o.pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* Each connection sends a request before it waits: the memory that the daemon keeps for
 * it counts. */
static void run_idle_polls(void)
{
    struct conn **conns = calloc((size_t)o.conns, sizeof(struct conn *));
    double base_mb = rss_mb();
    for (int i = 0; i < o.conns; i++) {
        conns[i] = conn_open(o.port, on_idle_answer);
        o.api->finish(conns[i], "none");
        if (i % 100 == 99)
            load_run(5000, &no_stop);
    }
    load_run(60 * 1000000LL, &stop);
    for (int i = 0; i < o.conns; i++) {
        conns[i]->step = SECOND_ROUND;
        o.api->poll(conns[i], 60);
    }
    load_run(3000000, &no_stop);
    double before_s = cpu_s();
    load_run(5000000, &no_stop);
    if (done < o.conns)
        complain(0, "not all connections were answered");
    printf("{\"case\":\"%s-idle-polls\",\"conns\":%d,\"errors\":%lld,\"rss_mb\":%.1f,"
           "\"base_mb\":%.1f,\"bytes_each\":%.0f,\"cpu_percent\":%.2f}\n",
           o.api->name, o.conns, (long long)errors, rss_mb(), base_mb,
           (rss_mb() - base_mb) * 1e6 / o.conns, (cpu_s() - before_s) * 100 / 5);
    free(conns);
}

/* ---------------------------------------------------------------------------- main */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"publish", run_publish},      {"cycle", run_cycle},
             {"drain", run_drain},          {"due", run_due},
             {"callbacks", run_callbacks},  {"lag", run_lag},
             {"idle-polls", run_idle_polls}};

static void set(const char *name, const char *value)
{
    if (strcmp(name, "--port") == 0)
        o.port = atoi(value);
    else if (strcmp(name, "--api") == 0)
        o.api = api_find(value);
    else if (strcmp(name, "--conns") == 0)
        o.conns = atoi(value);
    else if (strcmp(name, "--seconds") == 0)
        o.seconds = atof(value);
    else if (strcmp(name, "--count") == 0)
        o.count = atoll(value);
    else if (strcmp(name, "--pid") == 0)
        o.pid = atoi(value);
    else if (strcmp(name, "--token") == 0)
        setting.token = value;
    else
        fprintf(stderr, "apiload: %s is no option\n", name), exit(64);
}

int main(int argc, char **argv)
{
    o.what = argc > 1 ? argv[1] : "";
    for (int i = 2; i + 1 < argc; i += 2)
        set(argv[i], argv[i + 1]);
    if (o.api == NULL || o.port == 0 || o.conns < 1 || o.count < 1) {
        fprintf(stderr, "apiload: CASE --api NAME --port PORT are required\n");
        return 64;
    }
    load_init();
    setting.run = getpid();
    srand((unsigned)getpid());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(o.what, cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "apiload: %s is no case\n", o.what);
    return 64;
}
