/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia.c - the HTTP API of camellia-delay-queue-server, for its SDK and other
 * clients: start and stop, options, HTTP routes and their parameters.
 *
 * A topic of the API is the topic of its jobs and, unless the route changes it, the name
 * of their queue. A message is a job with its id, payload and due time. Its tries are
 * max_retry plus one.
 */
#include "bridge/base/text.h"
#include "sources/camellia/camellia.h"

/* ---------------------------------------------------------------- the dialect */

/* Accepts many forms of numbers and booleans; rejects missing parameters. */

static struct slice trimmed(struct slice s)
{
    while (s.n > 0 && (unsigned char)s.p[0] <= ' ')
        s.p++, s.n--;
    while (s.n > 0 && (unsigned char)s.p[s.n - 1] <= ' ')
        s.n--;
    return s;
}

static bool cut(struct slice *s, const char *begin)
{
    size_t n = strlen(begin);
    if (s->n < n || strncasecmp(s->p, begin, n) != 0)
        return false;
    s->p += n;
    s->n -= n;
    return true;
}

/* Accepts "5" " +5 " "-5" "0x10" "#10". An empty optional number keeps its default.
 */
static int set_int(const struct http_param *row, struct slice text, void *field,
                   struct err *err)
{
    struct slice s = trimmed(text);
    bool empty = s.n == 0, plus = cut(&s, "+"), minus = !plus && cut(&s, "-");
    int base = !plus && (cut(&s, "0x") || cut(&s, "#")) ? 16 : 10;
    int64_t value = 0; /* accumulated as a negative number, whose range is larger by
                        * one */
    bool good = s.n > 0;
    if (empty && !row->required)
        return 0;
    for (size_t i = 0; i < s.n && good; i++) {
        int digit = text_hex_digit(s.p[i]);
        good = digit >= 0 && digit < base &&
               !__builtin_mul_overflow(value, base, &value) &&
               !__builtin_sub_overflow(value, digit, &value);
    }
    if (!good || (!minus && __builtin_sub_overflow(0, value, &value)) ||
        (row->min < row->max && (value < row->min || value > row->max)))
        return err_set(err, "%s is not an integer in range", row->name);
    *(int64_t *)field = value;
    return 0;
}

static int set_bool(const struct http_param *row, struct slice value, void *field,
                    struct err *err)
{
    static const char *const words[] = {"false", "true", "0",   "1",
                                        "no",    "yes",  "off", "on"};
    struct slice s = trimmed(value);
    if (s.n == 0 && !row->required)
        return 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_is_nocase(s, words[i])) {
            *(int64_t *)field = i % 2;
            return 0;
        }
    }
    return err_set(err, "%s must be true or false", row->name);
}

static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    (void)arg, (void)word, (void)why;
    camellia_error(req, status == 413 ? 400 : status); /* 413: the body was too large */
}

const struct http_dialect camellia_dialect = {
    .refuse = refuse,
    .set = {[HTTP_INT] = set_int, [HTTP_BOOL] = set_bool},
    .add_text = camellia_add_repaired,
};

/* -------------------------------------------------------------------- calls */

#define AT(field) offsetof(struct camellia_call, field)
static const struct http_param send_params[] = {
    {"topic", HTTP_TEXT, AT(topic), FROM_FORM, .required = true},
    {"msg", HTTP_TEXT, AT(msg), FROM_FORM, .required = true},
    {"delayMillis", HTTP_INT, AT(delay_ms), FROM_FORM, .required = true},
    {"msgId", HTTP_TEXT, AT(id), FROM_FORM, .required = false},
    {"ttlMillis", HTTP_INT, AT(ttl_ms), FROM_FORM, .def = -1},
    {"maxRetry", HTTP_INT, AT(max_retry), FROM_FORM, .def = -1, .min = INT32_MIN,
     .max = INT32_MAX},
    {0}};
/* A pull ignores the last parameter; only an invalid value would show a difference. */
static const struct http_param pull_params[] = {
    {"topic", HTTP_TEXT, AT(topic), FROM_FORM, .required = true},
    {"ackTimeoutMillis", HTTP_INT, AT(lease_ms), FROM_FORM, .required = false},
    {"batch", HTTP_INT, AT(batch), FROM_FORM, .min = INT32_MIN, .max = INT32_MAX},
    {"longPollingTimeoutMillis", HTTP_INT, AT(poll_ms), FROM_FORM, .required = false},
    {0}};
static const struct http_param get_params[] = {
    {"topic", HTTP_TEXT, AT(topic), FROM_FORM, .required = true},
    {"msgId", HTTP_TEXT, AT(id), FROM_FORM, .required = true},
    {0}};
static const struct http_param ack_params[] = {
    {"topic", HTTP_TEXT, AT(topic), FROM_FORM, .required = true},
    {"msgId", HTTP_TEXT, AT(id), FROM_FORM, .required = true},
    {"ack", HTTP_BOOL, AT(ack), FROM_FORM, .required = true},
    {0}};
static const struct http_param delete_params[] = {
    {"topic", HTTP_TEXT, AT(topic), FROM_FORM, .required = true},
    {"msgId", HTTP_TEXT, AT(id), FROM_FORM, .required = true},
    {"release", HTTP_BOOL, AT(release), FROM_FORM, .required = false},
    {0}};
#undef AT
#define ARGS(rows) HTTP_ARGS(struct camellia_call, rows, .others = true)

static const struct camellia_op ops[] = {
    {"sendMsg", camellia_send, ",\"msg\":null,\"delayMsg\":null}", false},
    {"longPollingMsg", camellia_pull, "}", true},
    {"ackMsg", camellia_ack, ",\"msg\":null}", false},
    {"pullMsg", camellia_pull, ",\"msg\":null,\"delayMsgList\":null}", false},
    {"getMsg", camellia_get, ",\"msg\":null,\"delayMsg\":null}", false},
    {"deleteMsg", camellia_delete, ",\"msg\":null}", false},
};

#define P "/camellia/delayQueue/"

static const struct camellia_op *op_of(const struct httpd_req *req)
{
    const char *name = httpd_route_of(req)->path + sizeof(P) - 1;
    const struct camellia_op *op = ops;
    while (strcmp(op->name, name) != 0)
        op++;
    return op;
}

static bool takes_json(const struct httpd_req *req)
{
    return httpd_header(req, "accept").n == 0 || camellia_accepts(req, "*/*") ||
           camellia_accepts(req, "application/*") || camellia_accepts(req, CAMELLIA_JSON);
}

static void on_call(void *arg, struct httpd_req *req)
{
    struct camellia *c = arg;
    struct camellia_call *call = httpd_args(req);
    c->last_call_ms = loop_mono_ms();
    call->c = c;
    call->req = req;
    call->op = op_of(req);
    if (call->op->polls || takes_json(req))
        call->op->run(call);
    else
        camellia_error(req, 406);
}

static void on_other_request(void *arg, struct httpd_req *req);

static const struct httpd_route routes[] = {
    {"POST", P "sendMsg", on_call, HTTPD_OPEN, ARGS(send_params)},
    {"POST", P "longPollingMsg", on_call, HTTPD_OPEN, ARGS(pull_params)},
    {"POST", P "ackMsg", on_call, HTTPD_OPEN, ARGS(ack_params)},
    {"POST", P "pullMsg", on_call, HTTPD_OPEN, ARGS(pull_params)},
    {"POST", P "getMsg", on_call, HTTPD_OPEN, ARGS(get_params)},
    {"POST", P "deleteMsg", on_call, HTTPD_OPEN, ARGS(delete_params)},
    {"GET", P "getTopicInfo", camellia_topic_info, HTTPD_OPEN, &camellia_topic_args},
    {"GET", P "getTopicInfoList", camellia_topic_infos, HTTPD_OPEN, &camellia_query_args},
    {"GET", P "getMonitorData", camellia_monitor_data, HTTPD_OPEN, &camellia_query_args},
    {"GET", P "getMonitorString", camellia_monitor_string, HTTPD_OPEN,
     &camellia_query_args},
    {"GET", "/metrics", camellia_metrics, HTTPD_METRICS, &camellia_query_args},
    {"*", "/camellia/health/status", camellia_health, HTTPD_OPEN, NULL},
    {"*", "/camellia/health/check", camellia_health, HTTPD_OPEN, NULL},
    {"*", "/camellia/health/online", camellia_health, HTTPD_OPEN, NULL},
    {"*", "/camellia/health/offline", camellia_health, HTTPD_OPEN, NULL},
    {"*", "/{*}", on_other_request, HTTPD_OPEN, NULL},
    {0},
};
#undef P

/* Handles an unknown path or a wrong method. */
static void on_other_request(void *arg, struct httpd_req *req)
{
    const struct httpd_route *row = routes;
    (void)arg;
    while (row->path && !slice_is(httpd_path(req), row->path))
        row++;
    if (row->path == NULL) {
        camellia_error(req, 404);
    } else if (strcmp(httpd_method(req), "OPTIONS") == 0) {
        httpd_add(req, "Allow",
                  strcmp(row->method, "GET") == 0 ? "GET,HEAD,OPTIONS" : "POST,OPTIONS");
        httpd_answer(req, 200, NULL, SLICE_LIT(""));
    } else {
        httpd_add(req, "Allow", row->method);
        camellia_error(req, 405);
    }
}

static void on_window(void *arg)
{
    struct camellia *c = arg;
    camellia_stats_next_window(&c->stats, source_now_ms(c->api.src, SLICE_LIT("")));
}

static void on_event(void *arg, struct slice queue, enum queue_event what, unsigned count)
{
    static const enum camellia_count counts[] = {
        [QUEUE_EXPIRED] = CAMELLIA_N_END,
        [QUEUE_TIMED_OUT] = CAMELLIA_N_TIMEOUT,
        [QUEUE_EXHAUSTED] = CAMELLIA_N_END,
    };
    struct camellia *c = arg;
    camellia_count_calls(&c->stats, queue, counts[what], count);
}

static int start(struct source *src, void *self, struct err *err)
{
    struct camellia *c = self;
    if (http_api_start(src, self, routes, &camellia_dialect, err) < 0)
        return -1;
    c->started_ms = loop_wall_ms();
    c->stats.from_ms = source_now_ms(src, SLICE_LIT(""));
    c->last_call_ms = loop_mono_ms() - INT32_MAX; /* long ago */
    source_protect(src, c->api.httpd);
    STAILQ_INIT(&c->queries);
    c->patience = timer_new(camellia_survey_late, c);
    c->window = timer_every(c->monitor_interval_ms, on_window, c);
    queue_watch(src, on_event, c);
    return 0;
}

static void on_stopped(void *self)
{
    struct camellia *c = self;
    timer_del(c->window);
    timer_del(c->patience);
    c->patience = NULL;
    camellia_stats_free(&c->stats);
    source_stopped(c->api.src);
}

static void stop(struct source *src, void *self)
{
    struct camellia *c = self;
    queue_watch(src, NULL, NULL);
    http_api_close(c, on_stopped);
}

#define AT(field) offsetof(struct camellia, field)
static const struct opt opts[] = {
    HTTPD_ROWS(struct camellia, api.opts, "127.0.0.1:8080", "2MiB"),
    {"ttl", OPT_MS, AT(ttl_ms), "1h",
     .help = "Default of ttlMillis: a message expires this long after its trigger time.",
     .min = 1, .max = INT64_C(36500) * 24 * 3600 * 1000},
    {"max_retry", OPT_INT, AT(max_retry), "10",
     .help = "Default of maxRetry: how often tarry delivers a message again.",
     .max = INT32_MAX},
    {"ack_timeout", OPT_MS, AT(ack_timeout_ms), "30s",
     .help = "Default of ackTimeoutMillis: time in which a consumer must acknowledge a "
             "message.",
     .min = 1, .max = INT64_C(3650) * 24 * 3600 * 1000},
    {"poll_timeout", OPT_MS, AT(poll_timeout_ms), "10s",
     .help = "Default duration of a long poll.", .min = 1,
     .max = INT64_C(24) * 3600 * 1000},
    {"polls_max", OPT_INT, AT(polls_max), "100000",
     .help = "Maximum number of waiting long polls per topic. tarry answers a further "
             "long poll at once.",
     .min = 1, .max = INT32_MAX},
    {"monitor_interval", OPT_MS, AT(monitor_interval_ms), "60s",
     .help = "Length of a window of the statistics.", .min = 100,
     .max = INT64_C(24) * 3600 * 1000},
    {0},
};
#undef AT

const struct source_ops source_camellia = {
    .name = "camellia",
    .help = "Serves the HTTP API of camellia-delay-queue-server.",
    .size = sizeof(struct camellia),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .pulls_by_topic = true,
    .check = http_api_check,
    .warn = http_api_warn,
    .start = start,
    .pause = http_api_pause,
    .stop = stop,
    .import = camellia_import,
};
