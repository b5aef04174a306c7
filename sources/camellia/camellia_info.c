/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_info.c - how much waits where: of one topic, and of all.
 */
#include "sources/camellia/camellia_parts.h"

#include <stdlib.h>

enum {
    ASKED_MAX = 64,    /* queues that are counted at the same time */
    PATIENCE_MS = 4000 /* with a Redis that hangs */
};

enum { MINUTE_MS = 60 * 1000, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS };
enum { BEFORE_LAST, LAST, FIRST_MINUTE }; /* spans of a queue before those of the API */
const char *const camellia_span_names[CAMELLIA_SPANS] = {
    "sizeOf0To1min",      "sizeOf1minTo10min",  "sizeOf10minTo30min",
    "sizeOf30minTo1hour", "sizeOf1hourTo6hour", "sizeOf6hourTo1day",
    "sizeOf1dayTo7day",   "sizeOf7dayTo30day",  "sizeOf30dayToInfinite"};

_Static_assert(CAMELLIA_SPANS + FIRST_MINUTE == QUEUE_SPANS + 1, "no limit is left out");

/* Two for those that became ready before and in the last window, then the API's. */
static void count_topic(const struct camellia *c, struct slice topic, queue_count_cb *cb,
                        void *arg)
{
    const int64_t now_ms = source_now_ms(c->src, topic);
    const struct camellia_stats *s = &c->stats;
    const bool has_last = s->last_from_ms > 0;
    const int64_t limits_ms[QUEUE_SPANS] = {(has_last ? s->last_from_ms - 1 : 0) - now_ms,
                                            (has_last ? s->from_ms - 1 : 0) - now_ms,
                                            MINUTE_MS,
                                            10 * MINUTE_MS,
                                            30 * MINUTE_MS,
                                            HOUR_MS,
                                            6 * HOUR_MS,
                                            DAY_MS,
                                            7 * (int64_t)DAY_MS,
                                            30 * (int64_t)DAY_MS};
    queue_count(c->src, topic, limits_ms, QUEUE_SPANS, cb, arg);
}

/* --------------------------------------------------------------------- asking */

struct camellia_ask *camellia_ask(struct camellia *c, struct httpd_req *req)
{
    struct camellia_ask *ask = mem_alloc(sizeof(*ask));
    *ask = (struct camellia_ask){c, req};
    c->open++;
    return ask;
}

void camellia_tell(struct camellia_ask *ask, const char *type, const struct buf *text)
{
    struct camellia *c = ask->c;
    if (text)
        httpd_answer(ask->req, 200, type, buf_slice(text));
    else
        camellia_error(ask->req, 500);
    free(ask);
    camellia_answered(c);
}

static void set_info(struct camellia_info *info, const struct queue_counts *counts)
{
    info->waiting = counts->waiting;
    info->ready = counts->ready;
    info->acking = counts->in_flight;
    info->ready_last = counts->span[LAST];
    info->age = (struct camellia_gap){
        .count = counts->ready,
        .sum_ms = counts->ready * counts->ready_age_ms,
        .max_ms = counts->ready > 0 ? counts->now_ms - counts->oldest_ready_ms : 0};
    memcpy(info->span, &counts->span[FIRST_MINUTE], sizeof(info->span));
    /* What is ready is counted there, too. */
    info->span[0] += counts->span[BEFORE_LAST] + counts->span[LAST];
    info->span[0] = info->span[0] > info->ready ? info->span[0] - info->ready : 0;
}

static void add_info(struct buf *out, const struct camellia_info *info)
{
    buf_add_str(out, "{\"topic\":");
    camellia_add_text(out, info->topic, CAMELLIA_PLAIN);
    buf_add_str(out, ",\"waitingQueueSize\":");
    camellia_add_int(out, info->waiting);
    buf_add_str(out, ",\"waitingQueueInfo\":{");
    for (int i = 0; i < CAMELLIA_SPANS; i++)
        buf_addf(out, "%s\"%s\":%lld", i ? "," : "", camellia_span_names[i],
                 (long long)info->span[i]);
    buf_addf(out, "},\"readyQueueSize\":%lld,\"ackQueueSize\":%lld}",
             (long long)info->ready, (long long)info->acking);
}

/* ------------------------------------------------------------------ one topic */

struct one {
    struct camellia_ask *ask;
    struct camellia_text topic;
    bool given;
};

static void on_one(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct one *one = arg;
    struct camellia_info info = {.topic = one->topic.value};
    struct buf out = {0};
    if (counts)
        set_info(&info, counts);
    buf_add_str(&out, "{\"code\":200,\"data\":");
    add_info(&out, &info);
    buf_add(&out, "}", 1);
    camellia_tell(one->ask, CAMELLIA_JSON, code == QUEUE_AWAY ? NULL : &out);
    buf_free(&out);
    buf_free(&one->topic.own);
    free(one);
}

static void on_param(void *arg, struct slice name, struct slice value)
{
    static const struct camellia_param row = {"topic", CAMELLIA_TEXT,
                                              offsetof(struct one, topic), true};
    struct one *one = arg;
    if (!slice_is(name, row.name))
        return;
    camellia_param_take(&row, one, one->given, value);
    one->given = true;
}

void camellia_topic_info(void *arg, struct httpd_req *req)
{
    struct camellia *c = arg;
    struct one *one = mem_alloc(sizeof(*one));
    if (httpd_each_param(req, on_param, one) < 0 || !one->given) {
        buf_free(&one->topic.own);
        free(one);
        camellia_error(req, 400);
        return;
    }
    one->ask = camellia_ask(c, req);
    count_topic(c, one->topic.value, on_one, one);
}

/* ------------------------------------------------------------------ all topics */

struct surveyor {
    camellia_survey_cb *cb;
    void *arg;
};
struct survey {
    struct camellia *c;
    struct surveyor *who;   /* all who wait for it */
    size_t who_n, most;     /* topics */
    struct timer *patience; /* NULL: it has no end */
    int64_t from_ms;        /* of the window in which it began */
    struct buf names;       /* what the infos' topics point into */
    struct camellia_info *infos;
    size_t n, next, open;
    bool away;
};
struct counting { /* one queue of a survey */
    struct survey *s;
    size_t i;
};

/* For what is said of the last window. */
static void note_unpulled(const struct survey *s)
{
    struct camellia_stats *stats = &s->c->stats;
    camellia_forget_unpulled(stats);
    for (size_t i = 0; i < s->n && !s->away && stats->last_from_ms > 0; i++) {
        const struct camellia_info *info = &s->infos[i];
        struct camellia_topic *t =
            info->ready > 0 ? camellia_topic(stats, info->topic) : NULL;
        if (t == NULL)
            continue;
        t->unpulled = info->age;
        t->unpulled_last = stats->from_ms == s->from_ms ? info->ready_last : 0;
    }
}

static void tell_all(struct survey *s, const struct camellia_info *infos)
{
    struct surveyor *who = s->who;
    size_t n = s->who_n;
    s->who = NULL;
    s->who_n = 0;
    for (size_t i = 0; i < n; i++)
        who[i].cb(who[i].arg, infos, s->n);
    free(who);
}

/* Who asks from now on waits anew. */
static void on_patience(void *arg)
{
    camellia_forget_unpulled(&((struct survey *)arg)->c->stats);
    tell_all(arg, NULL);
}

static void survey_end(void *arg)
{
    struct survey *s = arg;
    static const struct camellia_info none;
    if (s->c->survey == s) {
        s->c->survey = NULL;
        note_unpulled(s);
    }
    tell_all(s, s->away ? NULL : s->infos ? s->infos : &none);
    if (s->patience)
        timer_del(s->patience);
    buf_free(&s->names);
    free(s->infos);
    free(s);
}

static void count_more(struct survey *s);

static void on_count(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct counting *counting = arg;
    struct survey *s = counting->s;
    if (counts)
        set_info(&s->infos[counting->i], counts);
    s->away |= code == QUEUE_AWAY;
    s->open--;
    free(counting);
    count_more(s);
}

static void count_more(struct survey *s)
{
    while (!s->away && s->next < s->n && s->open < ASKED_MAX) {
        struct counting *counting = mem_alloc(sizeof(*counting));
        *counting = (struct counting){s, s->next++};
        s->open++;
        count_topic(s->c, s->infos[counting->i].topic, on_count, counting);
    }
    if (s->open == 0)
        survey_end(s);
}

static void on_list(void *arg, enum queue_code code, const struct queue_name *names,
                    unsigned n)
{
    struct survey *s = arg;
    s->away = code == QUEUE_AWAY;
    s->n = code == QUEUE_OK ? n : 0;
    if (s->n > s->most) { /* the least recently used come first */
        names += s->n - s->most;
        s->n = s->most;
    }
    s->infos = s->n ? mem_alloc(s->n * sizeof(*s->infos)) : NULL;
    for (size_t i = 0; i < s->n; i++)
        buf_add_slice(&s->names, names[i].name);
    for (size_t i = 0, at = 0; i < s->n; i++) {
        s->infos[i].topic = (struct slice){s->names.p + at, names[i].name.n};
        at += names[i].name.n;
    }
    count_more(s);
}

/* A topic that leads to a queue: any will do, since all queues of its sink are listed. */
struct leading {
    struct source *src;
    struct slice topic; /* p NULL: none so far */
};

static void on_topic(void *arg, const struct camellia_topic *t)
{
    struct leading *l = arg;
    bool in_queue = false;
    if (l->topic.p == NULL && source_route(l->src, t->name, &in_queue).p && in_queue)
        l->topic = t->name;
}

static void join(struct survey *s, camellia_survey_cb *cb, void *arg)
{
    s->who = mem_realloc(s->who, (s->who_n + 1) * sizeof(*s->who));
    s->who[s->who_n++] = (struct surveyor){cb, arg};
    if (s->patience && s->who_n == 1)
        timer_set(s->patience, PATIENCE_MS);
}

static struct survey *survey_begin(struct camellia *c, size_t most)
{
    static const struct camellia_topic nameless = {.name = {"", 0}};
    struct leading l = {.src = c->src};
    struct survey *s = mem_alloc(sizeof(*s));
    *s = (struct survey){.c = c, .most = most, .from_ms = c->stats.from_ms};
    on_topic(&l, &nameless);
    if (l.topic.p == NULL)
        camellia_each_topic(&c->stats, on_topic, &l);
    if (l.topic.p)
        queue_list(c->src, l.topic, on_list, s);
    else
        loop_defer(survey_end, s);
    return s;
}

void camellia_survey_all(struct camellia *c, camellia_survey_cb *cb, void *arg)
{
    join(survey_begin(c, SIZE_MAX), cb, arg);
}

void camellia_survey(struct camellia *c, camellia_survey_cb *cb, void *arg)
{
    if (c->survey == NULL) {
        c->survey = survey_begin(c, CAMELLIA_SHOWN_MAX);
        c->survey->patience = timer_new(on_patience, c->survey);
    }
    join(c->survey, cb, arg);
}

static void on_infos(void *arg, const struct camellia_info *infos, size_t n)
{
    struct buf out = {0};
    buf_add_str(&out, "{\"code\":200,\"data\":[");
    for (size_t i = 0; infos && i < n; i++) {
        if (i > 0)
            buf_add(&out, ",", 1);
        add_info(&out, &infos[i]);
    }
    buf_add_str(&out, "]}");
    camellia_tell(arg, CAMELLIA_JSON, infos ? &out : NULL);
    buf_free(&out);
}

void camellia_topic_infos(void *arg, struct httpd_req *req)
{
    camellia_survey_all(arg, on_infos, camellia_ask(arg, req));
}
