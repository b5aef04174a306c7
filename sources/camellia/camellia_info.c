/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_info.c - message counts of one topic and of all topics, and the last complete
 * window of the statistics, as JSON.
 */
#include "bridge/base/text.h"
#include "sources/camellia/camellia.h"

#include <stdlib.h>

enum { SURVEY_TIMEOUT_MS = 4000 /* for a hanging Redis */ };
enum { MINUTE_MS = 60 * 1000, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS };
enum { BEFORE_LAST, LAST, FIRST_MINUTE }; /* spans before those of the API */

_Static_assert(CAMELLIA_SPANS + FIRST_MINUTE == QUEUE_SPANS + 1, "no limit is left out");

/* ------------------------------------------------------------------ requests */

static const struct http_param no_params[] = {{0}};
static const struct http_param topic_params[] = {{"topic", HTTP_TEXT,
                                                  offsetof(struct camellia_query, topic),
                                                  FROM_FORM, .required = true},
                                                 {0}};
const struct http_args camellia_query_args = {
    .size = sizeof(struct camellia_query), .params = no_params, .others = true};
const struct http_args camellia_topic_args = {
    .size = sizeof(struct camellia_query), .params = topic_params, .others = true};

struct camellia_query *camellia_query(struct camellia *c, struct httpd_req *req)
{
    struct camellia_query *query = httpd_args(req);
    query->c = c;
    query->req = req;
    return query;
}

void camellia_query_answer(struct camellia_query *query, const char *type,
                           struct buf *text)
{
    if (text)
        httpd_answer(query->req, 200, type, buf_slice(text));
    else
        camellia_error(query->req, 500);
    if (text)
        buf_free(text);
}

/* ------------------------------------------------------------------ one queue */

/* Sets two limits for messages that became ready before and in the last window, then the
 * API's limits. */
static int set_limits(const struct camellia *c, struct slice topic,
                      int64_t limits_ms[QUEUE_SPANS])
{
    static const int64_t spans_ms[] = {
        MINUTE_MS,   10 * MINUTE_MS, 30 * MINUTE_MS,      HOUR_MS,
        6 * HOUR_MS, DAY_MS,         7 * (int64_t)DAY_MS, 30 * (int64_t)DAY_MS};
    const int64_t now_ms = source_now_ms(c->api.src, topic);
    const bool has_last = c->stats.last_from_ms > 0;
    limits_ms[BEFORE_LAST] = (has_last ? c->stats.last_from_ms - 1 : 0) - now_ms;
    limits_ms[LAST] = (has_last ? c->stats.from_ms - 1 : 0) - now_ms;
    memcpy(&limits_ms[FIRST_MINUTE], spans_ms, sizeof(spans_ms));
    return QUEUE_SPANS;
}

static struct camellia_info info_of(struct slice topic, const struct queue_counts *counts)
{
    struct camellia_info info = {
        .topic = topic,
        .waiting = counts->waiting,
        .ready = counts->ready,
        .acking = counts->in_flight,
        .ready_last = counts->span[LAST],
        .age = {.count = counts->ready,
                .sum_ms = counts->ready * counts->ready_age_ms,
                .max_ms =
                    counts->ready > 0 ? counts->now_ms - counts->oldest_ready_ms : 0}};
    memcpy(info.span, &counts->span[FIRST_MINUTE], sizeof(info.span));
    /* These spans also count the ready messages. */
    info.span[0] += counts->span[BEFORE_LAST] + counts->span[LAST];
    info.span[0] = info.span[0] > info.ready ? info.span[0] - info.ready : 0;
    return info;
}

/* ------------------------------------------------------------------ all queues */

struct waiter {
    camellia_survey_cb *cb;
    struct camellia_query *query;
};
struct camellia_survey_run { /* a survey of all queues */
    struct camellia *c;
    struct waiter *waiting;
    size_t n;
    struct timer *timeout; /* NULL: no time limit; serves a single request */
    int64_t from_ms;       /* start of the window in which it began */
};

/* Adds messages that are not pulled yet to the last window. infos NULL: Redis did not
 * answer. */
static void note_unpulled(const struct camellia_survey_run *survey,
                          const struct camellia_info *infos, size_t n)
{
    struct camellia_stats *stats = &survey->c->stats;
    camellia_clear_unpulled(stats);
    for (size_t i = 0; infos && i < n && stats->last_from_ms > 0; i++) {
        struct camellia_topic *t =
            infos[i].ready > 0 ? camellia_topic(stats, infos[i].topic) : NULL;
        if (t == NULL)
            continue;
        t->unpulled = infos[i].age;
        t->unpulled_last = stats->from_ms == survey->from_ms ? infos[i].ready_last : 0;
    }
}

static void answer_all(struct camellia_survey_run *survey,
                       const struct camellia_info *infos, size_t infos_n)
{
    struct waiter *waiting = survey->waiting;
    size_t n = survey->n;
    survey->waiting = NULL;
    survey->n = 0;
    for (size_t i = 0; i < n; i++)
        waiting[i].cb(waiting[i].query, infos, infos_n);
    free(waiting);
}

/* Answers the waiting requests without data. The survey continues; later requests wait
 * for it. */
static void on_timeout(void *arg)
{
    struct camellia_survey_run *survey = arg;
    camellia_clear_unpulled(&survey->c->stats);
    answer_all(survey, NULL, 0);
}

static void on_surveyed(void *arg, const struct queue_counted *queues, size_t n)
{
    struct camellia_survey_run *survey = arg;
    struct camellia *c = survey->c;
    struct camellia_info *infos = queues ? mem_alloc((n + 1) * sizeof(*infos)) : NULL;
    for (size_t i = 0; i < n; i++)
        infos[i] = info_of(queues[i].name, &queues[i].counts);
    if (survey->timeout) {
        c->survey = NULL;
        timer_del(survey->timeout);
        note_unpulled(survey, infos, n);
        survey->timeout = NULL;
    }
    answer_all(survey, infos, n);
    free(infos);
    loop_defer_free(survey);
}

static int on_queue(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS])
{
    const struct camellia_survey_run *survey = arg;
    return set_limits(survey->c, name, limits_ms);
}

static void on_none(void *arg)
{
    static const struct queue_counted none;
    on_surveyed(arg, &none, 0);
}

static bool has_queue(const struct camellia *c, struct slice topic)
{
    bool in_queue = false;
    return source_route(c->api.src, topic, &in_queue).p && in_queue;
}

static struct camellia_survey_run *survey_start(struct camellia *c, size_t most)
{
    struct camellia_survey_run *survey = mem_alloc(sizeof(*survey));
    const struct queue_survey how = {most, on_queue, on_surveyed, survey};
    const struct camellia_topic *t = c->stats.topics;
    survey->c = c;
    survey->from_ms = c->stats.from_ms;
    /* Use any topic that has_queue to a queue: all queues of its sink are listed. */
    bool any = has_queue(c, SLICE_LIT(""));
    while (!any && t && !has_queue(c, t->name))
        t = t->hh.next;
    if (any || t)
        queue_survey(c->api.src, any ? SLICE_LIT("") : t->name, &how);
    else
        loop_defer(on_none, survey);
    return survey;
}

static void join(struct camellia_survey_run *survey, struct camellia_query *query,
                 camellia_survey_cb *cb)
{
    survey->waiting =
        mem_realloc(survey->waiting, (survey->n + 1) * sizeof(*survey->waiting));
    survey->waiting[survey->n++] = (struct waiter){cb, query};
    if (survey->timeout && survey->n == 1)
        timer_set(survey->timeout, SURVEY_TIMEOUT_MS);
}

void camellia_survey(struct camellia_query *query, camellia_survey_cb *cb)
{
    struct camellia *c = query->c;
    if (c->survey == NULL) {
        c->survey = survey_start(c, CAMELLIA_SHOWN_MAX);
        c->survey->timeout = timer_new(on_timeout, c->survey);
    }
    join(c->survey, query, cb);
}

/* ------------------------------------------------------------------ pieces of JSON */

static const char *const span_names[CAMELLIA_SPANS] = {
    "sizeOf0To1min",      "sizeOf1minTo10min",  "sizeOf10minTo30min",
    "sizeOf30minTo1hour", "sizeOf1hourTo6hour", "sizeOf6hourTo1day",
    "sizeOf1dayTo7day",   "sizeOf7dayTo30day",  "sizeOf30dayToInfinite"};

struct listing {
    struct buf *out;
    size_t n;
};

static void begin_item(struct listing *l, struct slice topic)
{
    buf_add_str(l->out, l->n++ ? ",{\"topic\":" : "{\"topic\":");
    camellia_add_text(l->out, topic, CAMELLIA_PLAIN);
}

static void add_number(struct buf *out, const char *before, const char *name, int64_t n)
{
    buf_addf(out, "%s\"%s\":", before, name);
    text_add_decimal(out, n);
}

static void add_info(struct listing *l, const struct camellia_info *info)
{
    begin_item(l, info->topic);
    add_number(l->out, ",", "waitingQueueSize", info->waiting);
    buf_add_str(l->out, ",\"waitingQueueInfo\":{");
    for (int i = 0; i < CAMELLIA_SPANS; i++)
        add_number(l->out, i ? "," : "", span_names[i], info->span[i]);
    buf_add_str(l->out, "}");
    add_number(l->out, ",", "readyQueueSize", info->ready);
    add_number(l->out, ",", "ackQueueSize", info->acking);
    buf_add_str(l->out, "}");
}

static void add_counts(struct listing *l, const struct camellia_topic *t)
{
    int64_t sum = 0;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        sum += camellia_count_of(t, i);
    if (sum == 0 || l->n == CAMELLIA_SHOWN_MAX)
        return;
    begin_item(l, t->name);
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        add_number(l->out, ",", camellia_count_names[i], camellia_count_of(t, i));
    buf_add_str(l->out, "}");
}

static void add_gap(struct listing *l, struct slice topic, const struct camellia_gap *gap)
{
    if (gap->count == 0 || l->n == CAMELLIA_SHOWN_MAX)
        return;
    begin_item(l, topic);
    add_number(l->out, ",", "count", gap->count);
    buf_add_str(l->out, ",\"avg\":");
    camellia_add_real(l->out, camellia_gap_avg(gap));
    add_number(l->out, ",", "max", gap->max_ms);
    buf_add_str(l->out, "}");
}

static void add_pull_gap(struct listing *l, const struct camellia_topic *t)
{
    add_gap(l, t->name, &t->last.pull);
}

static void add_ready_gap(struct listing *l, const struct camellia_topic *t)
{
    const struct camellia_gap gap = camellia_ready_gap(t);
    add_gap(l, t->name, &gap);
}

/* Appends the three lists. suffix: the part of their names that differs between calls. */
static void add_lists(struct buf *out, const struct camellia *c, const char *suffix)
{
    static const struct {
        const char *name;
        void (*add)(struct listing *l, const struct camellia_topic *t);
    } lists[] = {{"requestStats", add_counts},
                 {"pullMsgTimeGapStats", add_pull_gap},
                 {"readyQueueTimeGapStats", add_ready_gap}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct listing l = {out, 0};
        buf_addf(out, "%s\"%s%s\":[", i ? "," : "", lists[i].name, suffix);
        for (const struct camellia_topic *t = c->stats.topics; t; t = t->hh.next)
            lists[i].add(&l, t);
        buf_add_str(out, "]");
    }
}

/* ------------------------------------------------------------------ the answers */

static void on_one(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct camellia_query *query = arg;
    struct camellia_info info = {.topic = query->topic};
    struct buf out = {0};
    struct listing l = {&out, 0};
    if (counts)
        info = info_of(query->topic, counts);
    buf_add_str(&out, "{\"code\":200,\"data\":");
    add_info(&l, &info);
    buf_add_str(&out, "}");
    if (code == QUEUE_AWAY)
        buf_free(&out);
    camellia_query_answer(query, CAMELLIA_JSON, code == QUEUE_AWAY ? NULL : &out);
}

void camellia_topic_info(void *arg, struct httpd_req *req)
{
    struct camellia_query *query = camellia_query(arg, req);
    int64_t limits_ms[QUEUE_SPANS];
    int n = set_limits(query->c, query->topic, limits_ms);
    queue_count(query->c->api.src, query->topic, limits_ms, (unsigned)n, on_one, query);
}

static void on_all(struct camellia_query *query, const struct camellia_info *infos,
                   size_t n)
{
    struct buf out = {0};
    struct listing l = {&out, 0};
    if (infos == NULL) {
        camellia_query_answer(query, CAMELLIA_JSON, NULL);
        return;
    }
    buf_add_str(&out, "{\"code\":200,\"data\":[");
    for (size_t i = 0; i < n; i++)
        add_info(&l, &infos[i]);
    buf_add_str(&out, "]}");
    camellia_query_answer(query, CAMELLIA_JSON, &out);
}

void camellia_topic_infos(void *arg, struct httpd_req *req)
{
    struct camellia_query *query = camellia_query(arg, req);
    join(survey_start(arg, SIZE_MAX), query, on_all);
}

/* Without Redis the answer contains only the data of this process. */
static void on_data(struct camellia_query *query, const struct camellia_info *infos,
                    size_t n)
{
    struct buf out = {0};
    (void)infos, (void)n; /* the statistics already contain them */
    buf_add_str(&out, "{\"code\":200,\"data\":{");
    add_lists(&out, query->c, "List");
    buf_add_str(&out, "}}");
    camellia_query_answer(query, CAMELLIA_JSON, &out);
}

void camellia_monitor_data(void *arg, struct httpd_req *req)
{
    camellia_survey(camellia_query(arg, req), on_data);
}

static void add_sizes(struct buf *out, const struct camellia_info *infos, size_t n)
{
    struct listing sizes = {out, 0}, spans = {out, 0};
    buf_add_str(out, ",\"topicInfoStats\":[");
    for (size_t i = 0; i < n; i++) {
        begin_item(&sizes, infos[i].topic);
        add_number(out, ",", "waitingQueueSize", infos[i].waiting);
        add_number(out, ",", "ackQueueSize", infos[i].acking);
        add_number(out, ",", "readyQueueSize", infos[i].ready);
        buf_add_str(out, "}");
    }
    buf_add_str(out, "],\"waitingQueueStats\":[");
    for (size_t i = 0; i < n; i++) {
        begin_item(&spans, infos[i].topic);
        for (int s = 0; s < CAMELLIA_SPANS; s++)
            add_number(out, ",", span_names[s], infos[i].span[s]);
        buf_add_str(out, "}");
    }
    buf_add_str(out, "]");
}

static void on_string(struct camellia_query *query, const struct camellia_info *infos,
                      size_t n)
{
    struct buf out = {0};
    if (infos) {
        buf_add_str(&out, "{");
        add_lists(&out, query->c, "");
        add_sizes(&out, infos, n);
        buf_add_str(&out, "}");
    }
    camellia_query_answer(query, CAMELLIA_PLAIN_TEXT, infos ? &out : NULL);
}

void camellia_monitor_string(void *arg, struct httpd_req *req)
{
    camellia_survey(camellia_query(arg, req), on_string);
}
