/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_monitor.c - the last complete window of the statistics, as JSON.
 */
#include "sources/camellia/camellia_parts.h"

/* ---------------------------------------------------------- pieces of the lists */

struct listing {
    struct buf *out;
    const char *comma;
    size_t n;
};

static void begin_item(struct listing *l, struct slice topic)
{
    buf_add_str(l->out, l->comma);
    l->comma = ",";
    l->n++;
    buf_add_str(l->out, "{\"topic\":");
    camellia_add_text(l->out, topic, CAMELLIA_PLAIN);
}

static void add_member(struct buf *out, const char *name, int64_t n)
{
    buf_addf(out, ",\"%s\":%lld", name, (long long)n);
}

static void add_counts(void *arg, const struct camellia_topic *t)
{
    struct listing *l = arg;
    int64_t sum = 0;
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        sum += camellia_count_of(t, i);
    if (sum == 0 || l->n == CAMELLIA_SHOWN_MAX)
        return;
    begin_item(l, t->name);
    for (int i = 0; i < CAMELLIA_COUNTS; i++)
        add_member(l->out, camellia_count_names[i], camellia_count_of(t, i));
    buf_add(l->out, "}", 1);
}

static void add_gap(struct listing *l, struct slice topic, const struct camellia_gap *gap)
{
    if (gap->count == 0 || l->n == CAMELLIA_SHOWN_MAX)
        return;
    begin_item(l, topic);
    add_member(l->out, "count", gap->count);
    buf_add_str(l->out, ",\"avg\":");
    camellia_add_real(l->out, camellia_gap_avg(gap));
    add_member(l->out, "max", gap->max_ms);
    buf_add(l->out, "}", 1);
}

static void add_pull_gap(void *arg, const struct camellia_topic *t)
{
    add_gap(arg, t->name, &t->last.pull);
}

static void add_ready_gap(void *arg, const struct camellia_topic *t)
{
    const struct camellia_gap gap = camellia_ready_gap(t);
    add_gap(arg, t->name, &gap);
}

/* The three lists, whose names differ from call to call by what follows. */
static void add_lists(struct buf *out, const struct camellia *c, const char *suffix)
{
    static const struct {
        const char *name;
        camellia_topic_cb *add;
    } lists[] = {{"requestStats", add_counts},
                 {"pullMsgTimeGapStats", add_pull_gap},
                 {"readyQueueTimeGapStats", add_ready_gap}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct listing l = {out, "", 0};
        buf_addf(out, "%s\"%s%s\":[", i ? "," : "", lists[i].name, suffix);
        camellia_each_topic(&c->stats, lists[i].add, &l);
        buf_add(out, "]", 1);
    }
}

/* ------------------------------------------------------------------ the answers */

/* Without Redis it says what this process knows alone. */
static void on_survey(void *arg, const struct camellia_info *infos, size_t n)
{
    struct camellia_ask *ask = arg;
    struct buf out = {0};
    (void)infos, (void)n; /* the statistics have what is needed of them */
    buf_add_str(&out, "{\"code\":200,\"data\":{");
    add_lists(&out, ask->c, "List");
    buf_add_str(&out, "}}");
    camellia_tell(ask, CAMELLIA_JSON, &out);
    buf_free(&out);
}

void camellia_monitor_data(void *arg, struct httpd_req *req)
{
    camellia_survey(arg, on_survey, camellia_ask(arg, req));
}

static void on_infos(void *arg, const struct camellia_info *infos, size_t n)
{
    struct camellia_ask *ask = arg;
    struct buf out = {0};
    struct listing sizes = {&out, "", 0}, spans = {&out, "", 0};
    buf_add_str(&out, "{");
    add_lists(&out, ask->c, "");
    buf_add_str(&out, ",\"topicInfoStats\":[");
    for (size_t i = 0; infos && i < n; i++) {
        begin_item(&sizes, infos[i].topic);
        add_member(&out, "waitingQueueSize", infos[i].waiting);
        add_member(&out, "ackQueueSize", infos[i].acking);
        add_member(&out, "readyQueueSize", infos[i].ready);
        buf_add(&out, "}", 1);
    }
    buf_add_str(&out, "],\"waitingQueueStats\":[");
    for (size_t i = 0; infos && i < n; i++) {
        begin_item(&spans, infos[i].topic);
        for (int s = 0; s < CAMELLIA_SPANS; s++)
            add_member(&out, camellia_span_names[s], infos[i].span[s]);
        buf_add(&out, "}", 1);
    }
    buf_add_str(&out, "]}");
    camellia_tell(ask, CAMELLIA_PLAIN_TEXT, infos ? &out : NULL);
    buf_free(&out);
}

void camellia_monitor_string(void *arg, struct httpd_req *req)
{
    camellia_survey(arg, on_infos, camellia_ask(arg, req));
}
