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

static const struct http_param no_params[] = {{0}};
static const struct http_param topic_params[] = {{"topic", HTTP_TEXT,
                                                  offsetof(struct camellia_query, topic),
                                                  FROM_FORM, .required = true},
                                                 {0}};
const struct http_args camellia_query_args = {sizeof(struct camellia_query), no_params,
                                              NULL, true};
const struct http_args camellia_topic_args = {sizeof(struct camellia_query), topic_params,
                                              NULL, true};

struct camellia_query *camellia_query(struct camellia *c, struct httpd_req *req)
{
    struct camellia_query *query = httpd_args(req);
    query->c = c;
    query->req = req;
    return query;
}

void camellia_query_answer(struct camellia_query *query, const char *type,
                           const struct buf *text)
{
    if (text)
        httpd_answer(query->req, 200, type, buf_slice(text));
    else
        camellia_error(query->req, 500);
}

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

int64_t camellia_span(const struct queue_counts *counts, unsigned i)
{
    const int64_t *span = &counts->span[FIRST_MINUTE];
    if (i > 0)
        return span[i];
    /* These spans also count the ready messages. */
    int64_t first = counts->span[BEFORE_LAST] + counts->span[LAST] + span[0];
    return first > counts->ready ? first - counts->ready : 0;
}

/* ------------------------------------------------------------------ all queues */

/* Adds messages that are not pulled yet to the last window. queues NULL: Redis did not
 * answer. */
static void note_unpulled(struct camellia *c, const struct queue_counted *queues,
                          size_t n)
{
    struct camellia_stats *stats = &c->stats;
    camellia_clear_unpulled(stats);
    for (size_t i = 0; i < n && stats->last_from_ms > 0; i++) {
        const struct queue_counts *counts = &queues[i].counts;
        struct camellia_topic *t =
            counts->ready > 0 ? camellia_topic(stats, queues[i].name) : NULL;
        if (t == NULL)
            continue;
        t->unpulled =
            (struct camellia_gap){counts->ready, counts->ready * counts->ready_age_ms,
                                  counts->now_ms - counts->oldest_ready_ms};
        t->unpulled_last = stats->from_ms == c->survey_from_ms ? counts->span[LAST] : 0;
    }
}

static void answer_all(struct camellia *c, const struct queue_counted *queues, size_t n)
{
    note_unpulled(c, queues, n);
    while (!STAILQ_EMPTY(&c->queries)) {
        struct camellia_query *query = STAILQ_FIRST(&c->queries);
        STAILQ_REMOVE_HEAD(&c->queries, link);
        query->cb(query, queues, n);
    }
}

void camellia_survey_late(void *arg)
{
    answer_all(arg, NULL, 0);
}

static void on_surveyed(void *arg, const struct queue_counted *queues, size_t n)
{
    struct camellia *c = arg;
    c->surveying = false;
    if (c->patience == NULL) /* stopped */
        return;
    timer_stop(c->patience);
    answer_all(c, queues, n);
}

static int on_queue(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS])
{
    return set_limits(arg, name, limits_ms);
}

static bool has_queue(const struct camellia *c, struct slice topic)
{
    bool in_queue = false;
    return source_route(c->api.src, topic, &in_queue).p && in_queue;
}

/* Uses any topic that leads to a queue: all queues of its sink are listed. */
static void survey(struct camellia *c, const struct queue_survey *how)
{
    struct slice topic = SLICE_LIT("");
    for (const struct camellia_topic *t = c->stats.topics; t && !has_queue(c, topic);
         t = t->hh.next)
        topic = t->name;
    queue_survey(c->api.src, topic, how);
}

void camellia_survey(struct camellia_query *query, queue_survey_cb *cb)
{
    struct camellia *c = query->c;
    query->cb = cb;
    if (STAILQ_EMPTY(&c->queries))
        timer_set(c->patience, SURVEY_TIMEOUT_MS);
    STAILQ_INSERT_TAIL(&c->queries, query, link);
    if (c->surveying)
        return;
    c->surveying = true;
    c->survey_from_ms = c->stats.from_ms;
    survey(c, &(struct queue_survey){CAMELLIA_SHOWN_MAX, on_queue, on_surveyed, c});
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
    text_add_json_jackson(l->out, topic);
}

static void add_number(struct buf *out, const char *before, const char *name, int64_t n)
{
    buf_addf(out, "%s\"%s\":", before, name);
    text_add_decimal(out, n);
}

static void add_spans(struct buf *out, const char *before,
                      const struct queue_counts *counts)
{
    for (unsigned i = 0; i < CAMELLIA_SPANS; i++, before = ",")
        add_number(out, before, span_names[i], camellia_span(counts, i));
}

static void add_queue(struct listing *l, struct slice topic,
                      const struct queue_counts *counts)
{
    begin_item(l, topic);
    add_number(l->out, ",", "waitingQueueSize", counts->waiting);
    add_spans(l->out, ",\"waitingQueueInfo\":{", counts);
    buf_add_str(l->out, "}");
    add_number(l->out, ",", "readyQueueSize", counts->ready);
    add_number(l->out, ",", "ackQueueSize", counts->in_flight);
    buf_add_str(l->out, "}");
}

static void add_counts(struct listing *l, struct slice topic,
                       const struct camellia_window *w)
{
    int64_t sum = 0;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        sum += w->counts[i];
    if (sum == 0 || l->n == CAMELLIA_SHOWN_MAX)
        return;
    begin_item(l, topic);
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        add_number(l->out, ",", camellia_count_names[i], w->counts[i]);
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

static void add_pull_gap(struct listing *l, struct slice topic,
                         const struct camellia_window *w)
{
    add_gap(l, topic, &w->pull);
}

static void add_ready_gap(struct listing *l, struct slice topic,
                          const struct camellia_window *w)
{
    add_gap(l, topic, &w->ready);
}

/* Appends the three lists. suffix: the part of their names that differs between calls. */
static void add_lists(struct buf *out, const struct camellia *c, const char *suffix)
{
    static const struct {
        const char *name;
        void (*add)(struct listing *l, struct slice topic,
                    const struct camellia_window *w);
    } lists[] = {{"requestStats", add_counts},
                 {"pullMsgTimeGapStats", add_pull_gap},
                 {"readyQueueTimeGapStats", add_ready_gap}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct listing l = {out, 0};
        buf_addf(out, "%s\"%s%s\":[", i ? "," : "", lists[i].name, suffix);
        for (const struct camellia_topic *t = c->stats.topics; t; t = t->hh.next) {
            const struct camellia_window w = camellia_last(t);
            lists[i].add(&l, t->name, &w);
        }
        buf_add_str(out, "]");
    }
}

/* ------------------------------------------------------------------ the answers */

static void on_one(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    static const struct queue_counts none;
    struct camellia_query *query = arg;
    struct buf out = {0};
    struct listing l = {&out, 0};
    buf_add_str(&out, "{\"code\":200,\"data\":");
    add_queue(&l, query->topic, counts ? counts : &none);
    buf_add_str(&out, "}");
    camellia_query_answer(query, CAMELLIA_JSON, code == QUEUE_AWAY ? NULL : &out);
    buf_free(&out);
}

void camellia_topic_info(void *arg, struct httpd_req *req)
{
    struct camellia_query *query = camellia_query(arg, req);
    int64_t limits_ms[QUEUE_SPANS];
    int n = set_limits(query->c, query->topic, limits_ms);
    queue_count(query->c->api.src, query->topic, limits_ms, (unsigned)n, on_one, query);
}

static int on_any_queue(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS])
{
    const struct camellia_query *query = arg;
    return set_limits(query->c, name, limits_ms);
}

static void on_all(void *arg, const struct queue_counted *queues, size_t n)
{
    struct buf out = {0};
    struct listing l = {&out, 0};
    buf_add_str(&out, "{\"code\":200,\"data\":[");
    for (size_t i = 0; i < n; i++)
        add_queue(&l, queues[i].name, &queues[i].counts);
    buf_add_str(&out, "]}");
    camellia_query_answer(arg, CAMELLIA_JSON, queues ? &out : NULL);
    buf_free(&out);
}

void camellia_topic_infos(void *arg, struct httpd_req *req)
{
    struct camellia_query *query = camellia_query(arg, req);
    survey(arg, &(struct queue_survey){SIZE_MAX, on_any_queue, on_all, query});
}

/* Without Redis the answer contains only the data of this process. */
static void on_data(void *arg, const struct queue_counted *queues, size_t n)
{
    const struct camellia_query *query = arg;
    struct buf out = {0};
    (void)queues, (void)n; /* the statistics already contain them */
    buf_add_str(&out, "{\"code\":200,\"data\":{");
    add_lists(&out, query->c, "List");
    buf_add_str(&out, "}}");
    camellia_query_answer(arg, CAMELLIA_JSON, &out);
    buf_free(&out);
}

void camellia_monitor_data(void *arg, struct httpd_req *req)
{
    camellia_survey(camellia_query(arg, req), on_data);
}

static void on_string(void *arg, const struct queue_counted *queues, size_t n)
{
    const struct camellia_query *query = arg;
    struct buf out = {0};
    struct listing sizes = {&out, 0}, spans = {&out, 0};
    buf_add_str(&out, "{");
    add_lists(&out, query->c, "");
    buf_add_str(&out, ",\"topicInfoStats\":[");
    for (size_t i = 0; i < n; i++) {
        const struct queue_counts *counts = &queues[i].counts;
        begin_item(&sizes, queues[i].name);
        add_number(&out, ",", "waitingQueueSize", counts->waiting);
        add_number(&out, ",", "ackQueueSize", counts->in_flight);
        add_number(&out, ",", "readyQueueSize", counts->ready);
        buf_add_str(&out, "}");
    }
    buf_add_str(&out, "],\"waitingQueueStats\":[");
    for (size_t i = 0; i < n; i++) {
        begin_item(&spans, queues[i].name);
        add_spans(&out, ",", &queues[i].counts);
        buf_add_str(&out, "}");
    }
    buf_add_str(&out, "]}");
    camellia_query_answer(arg, CAMELLIA_PLAIN_TEXT, queues ? &out : NULL);
    buf_free(&out);
}

void camellia_monitor_string(void *arg, struct httpd_req *req)
{
    camellia_survey(camellia_query(arg, req), on_string);
}
