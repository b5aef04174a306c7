/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia.c - the HTTP API of camellia-delay-queue-server, for its SDK and for whoever
 * speaks it otherwise: start and stop, the options, the routes.
 *
 * A topic of the API is the topic of its jobs, and so, where the route says nothing else,
 * the name of their queue. A message is a job: its id, its payload, its time to be due,
 * and one try more than it may be retried.
 */
#include "sources/camellia/camellia_import.h"
#include "sources/camellia/camellia_parts.h"

#include <stdlib.h>

enum { FLUSH_MS = 20 }; /* from the last answer to the end of its connection */

/* -------------------------------------------------------------------- routes */

static void send_msg(void *arg, struct httpd_req *req)
{
    camellia_begin(arg, req, &camellia_send);
}

static void pull_msg(void *arg, struct httpd_req *req)
{
    camellia_begin(arg, req, &camellia_pull);
}

static void poll_msg(void *arg, struct httpd_req *req)
{
    camellia_begin(arg, req, &camellia_poll);
}

static void ack_msg(void *arg, struct httpd_req *req)
{
    camellia_begin(arg, req, &camellia_ack);
}

static void get_msg(void *arg, struct httpd_req *req)
{
    camellia_begin(arg, req, &camellia_get);
}

static void delete_msg(void *arg, struct httpd_req *req)
{
    camellia_begin(arg, req, &camellia_delete);
}

#define P "/camellia/delayQueue/"
const struct httpd_route camellia_routes[] = {
    {"POST", P "sendMsg", send_msg, HTTPD_OPEN, NULL},
    {"POST", P "longPollingMsg", poll_msg, HTTPD_OPEN, NULL},
    {"POST", P "ackMsg", ack_msg, HTTPD_OPEN, NULL},
    {"POST", P "pullMsg", pull_msg, HTTPD_OPEN, NULL},
    {"POST", P "getMsg", get_msg, HTTPD_OPEN, NULL},
    {"POST", P "deleteMsg", delete_msg, HTTPD_OPEN, NULL},
    {"GET", P "getTopicInfo", camellia_topic_info, HTTPD_OPEN, NULL},
    {"GET", P "getTopicInfoList", camellia_topic_infos, HTTPD_OPEN, NULL},
    {"GET", P "getMonitorData", camellia_monitor_data, HTTPD_OPEN, NULL},
    {"GET", P "getMonitorString", camellia_monitor_string, HTTPD_OPEN, NULL},
    {"GET", "/metrics", camellia_metrics, HTTPD_METRICS, NULL},
    {"*", "/camellia/health/status", camellia_health_status, HTTPD_OPEN, NULL},
    {"*", "/camellia/health/check", camellia_health_check, HTTPD_OPEN, NULL},
    {"*", "/camellia/health/online", camellia_health_online, HTTPD_OPEN, NULL},
    {"*", "/camellia/health/offline", camellia_health_offline, HTTPD_OPEN, NULL},
    {0},
};
#undef P
static const struct httpd_route rest[] = {
    {"*", "/{*}", camellia_serve_rest, HTTPD_OPEN, NULL}, {0}};

/* ------------------------------------------------------------- start and stop */

static void on_window(void *arg)
{
    struct camellia *c = arg;
    camellia_stats_turn(&c->stats, source_now_ms(c->src, SLICE_LIT("")));
}

static void on_event(void *arg, struct slice queue, enum queue_event what, unsigned count)
{
    static const enum camellia_count counts[] = {
        [QUEUE_EXPIRED] = CAMELLIA_N_END,
        [QUEUE_TIMED_OUT] = CAMELLIA_N_TIMEOUT,
        [QUEUE_EXHAUSTED] = CAMELLIA_N_END,
    };
    struct camellia *c = arg;
    camellia_counted(&c->stats, queue, counts[what], count);
}

static int start(struct source *src, void *self, struct err *err)
{
    struct camellia *c = self;
    c->httpd = httpd_open(source_name(src), &c->listen, err);
    if (c->httpd == NULL)
        return -1;
    c->src = src;
    c->started_ms = loop_wall_ms();
    c->stats.from_ms = source_now_ms(src, SLICE_LIT(""));
    c->last_call_ms = loop_mono_ms() - INT32_MAX; /* long ago */
    LIST_INIT(&c->held);
    httpd_serve(c->httpd, camellia_routes, c);
    httpd_serve(c->httpd, rest, c);
    httpd_set_dialect(c->httpd, &camellia_dialect, c);
    source_protect(src, c->httpd);
    c->window = timer_every(c->monitor_interval_ms, on_window, c);
    queue_watch(src, on_event, c);
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct camellia *c = self;
    (void)src;
    c->paused = paused;
}

static void on_closing(void *arg)
{
    struct camellia *c = arg;
    if (c->open > 0) /* one more came in the meantime; its answer sets the timer again */
        return;
    timer_del(c->closing);
    timer_del(c->window);
    httpd_stop(c->httpd);
    camellia_call_drop_spare(c);
    camellia_stats_free(&c->stats);
    buf_free(&c->out);
    source_stopped(c->src);
}

void camellia_answered(struct camellia *c)
{
    c->open--;
    if (c->stopping && c->open == 0)
        timer_set(c->closing, FLUSH_MS);
}

static void stop(struct source *src, void *self)
{
    struct camellia *c = self;
    queue_watch(src, NULL, NULL);
    httpd_drain(c->httpd);
    c->stopping = true;
    c->closing = timer_new(on_closing, c);
    camellia_release_held(c);
    if (c->open == 0)
        timer_set(c->closing, FLUSH_MS);
}

/* --------------------------------------------------------------------- options */

#define AT(field) offsetof(struct camellia, field)
static const struct opt opts[] = {
    HTTPD_ROWS(struct camellia, listen, "127.0.0.1:8080", "2MiB"),
    {"ttl", OPT_MS, AT(ttl_ms), "1h",
     .help =
         "A message whose ttlMillis is not given ends so long after its trigger time.",
     .min = 1, .max = INT64_C(36500) * 24 * 3600 * 1000},
    {"max_retry", OPT_INT, AT(max_retry), "10",
     .help = "How often a message is handed out again that does not say it itself.",
     .max = INT32_MAX},
    {"ack_timeout", OPT_MS, AT(ack_timeout_ms), "30s",
     .help = "A consumer that names no time must acknowledge within this.", .min = 1,
     .max = INT64_C(3650) * 24 * 3600 * 1000},
    {"poll_timeout", OPT_MS, AT(poll_timeout_ms), "10s",
     .help = "How long a long poll is held that names no time.", .min = 1,
     .max = INT64_C(24) * 3600 * 1000},
    {"polls_max", OPT_INT, AT(polls_max), "100000",
     .help = "Long polls held for one topic; one more is answered at once.", .min = 1,
     .max = INT32_MAX},
    {"monitor_interval", OPT_MS, AT(monitor_interval_ms), "60s",
     .help = "The window of the statistics.", .min = 100,
     .max = INT64_C(24) * 3600 * 1000},
    {0},
};
#undef AT

static int check(const void *self, struct err *err)
{
    const struct camellia *c = self;
    return httpd_check_opts(&c->listen, err);
}

static void unwise(const void *self, struct buf *lines)
{
    const struct camellia *c = self;
    httpd_warn_of_strangers(&c->listen, "", NULL, lines);
}

const struct source_ops source_camellia = {
    .name = "camellia",
    .help = "Serves the HTTP API of camellia-delay-queue-server.",
    .size = sizeof(struct camellia),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .pulls_by_topic = true,
    .check = check,
    .unwise = unwise,
    .start = start,
    .pause = pause_source,
    .stop = stop,
    .import = camellia_import,
};
