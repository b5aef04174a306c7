/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_client.h"

#include "bridge/base/mem.h"
#include "sources/kafka/kafka_marks.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_BYTES = 300, ASK_MS = 5000 };

/* Keeps the last error, which explains more than a timeout. */
static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    char *why = opaque;
    (void)rk;
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        snprintf(why, WHY_BYTES, "%s", reason);
}

static void on_log(const rd_kafka_t *rk, int level, const char *part, const char *text)
{
    (void)rk;
    (void)level;
    (void)part;
    (void)text; /* errors arrive through on_error */
}

/* why: WHY_BYTES for the last error; must outlive the handle. Blocks. */
static rd_kafka_t *open_handle(const struct kafka_link *link, char *why, struct err *err)
{
    static const struct kafka_setting none[] = {{0}};
    char text[WHY_BYTES];
    rd_kafka_conf_t *conf = kafka_conf_new(link, none, err);
    if (conf == NULL)
        return NULL;
    rd_kafka_conf_set_opaque(conf, why);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (rk == NULL) {
        rd_kafka_conf_destroy(conf); /* rd_kafka_new() owns conf only when it succeeds */
        err_set(err, "%s", text);
    } else if (kafka_token_log_in(rk, link, err) < 0) {
        rd_kafka_destroy(rk);
        rk = NULL;
    }
    return rk;
}

/* Finds a topic; NULL: not in the brokers' answer. */
static const rd_kafka_metadata_topic_t *find_topic(const struct rd_kafka_metadata *all,
                                                   const char *name)
{
    for (int i = 0; i < all->topic_cnt; i++)
        if (strcmp(all->topics[i].topic, name) == 0)
            return &all->topics[i];
    return NULL;
}

static int report_topic(const struct rd_kafka_metadata *all, const char *name,
                        struct buf *said, struct err *err)
{
    const rd_kafka_metadata_topic_t *topic = find_topic(all, name);
    if (topic == NULL)
        return err_set(
            err,
            "topic %s does not exist, or tarry may not describe it: create it, or grant "
            "the access (unless the brokers create topics automatically)",
            name);
    if (topic->err)
        return err_set(err, "topic %s: %s", name, rd_kafka_err2str(topic->err));
    buf_addf(said, ", %s has %d partitions", name, topic->partition_cnt);
    return 0;
}

/* Requests all topics: a request for a single name could create it. The caller frees *all
 * with rd_kafka_metadata_destroy(). Blocks. */
static int ask_topics(rd_kafka_t *rk, const struct kafka_link *link, const char *why,
                      const struct rd_kafka_metadata **all, struct err *err)
{
    rd_kafka_resp_err_t e = rd_kafka_metadata(rk, 1, NULL, all, PROBE_WAIT_MS);
    rd_kafka_poll(rk, 0); /* on_error */
    if (e == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    return err_set(err, "no broker in \"%s\" answers: %s", link->brokers,
                   *why ? why : rd_kafka_err2str(e));
}

int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err)
{
    char why[WHY_BYTES] = "";
    rd_kafka_t *rk = open_handle(link, why, err);
    if (rk == NULL)
        return -1;
    const struct rd_kafka_metadata *all = NULL;
    int bad = ask_topics(rk, link, why, &all, err);
    if (bad == 0)
        buf_addf(said, "%d brokers", all->broker_cnt);
    for (size_t i = 0; bad == 0 && i < n; i++)
        if (topics[i][0] != '^')
            bad = report_topic(all, topics[i], said, err);
    if (all)
        rd_kafka_metadata_destroy(all);
    rd_kafka_destroy(rk);
    return bad;
}

/* -------------------------------------------------------------------- rewinds */

/* A rewind, until it is answered. */
struct rewinding {
    struct kafka_marks *marks;
    struct kafka_rewind what;
    char *route;
    rewind_cb *cb;
    void *arg;
    /* Used by the thread until on_found(): */
    rd_kafka_topic_partition_list_t *list; /* with the offsets to rewind to */
    struct rewind_row *rows;               /* parallel to list, which owns the names */
    size_t row_count;                      /* rows whose topic uses the route */
    bool failed;
    struct err err;
};

/* ------------------------------------------- the offsets of a time: in a thread */

/* Matches like a subscription of librdkafka. */
static bool is_subscribed(const struct kafka_rewind *what, const char *topic)
{
    bool found = false;

    for (size_t i = 0; i < what->topic_count && !found; i++) {
        regex_t pattern;
        if (what->topics[i][0] != '^') {
            found = strcmp(what->topics[i], topic) == 0;
        } else if (regcomp(&pattern, what->topics[i], REG_EXTENDED | REG_NOSUB) == 0) {
            found = regexec(&pattern, topic, 0, NULL, 0) == 0;
            regfree(&pattern);
        }
    }
    return found;
}

static void add_partitions(struct rewinding *r, const struct rd_kafka_metadata *all)
{
    for (int i = 0; i < all->topic_cnt; i++) {
        const rd_kafka_metadata_topic_t *topic = &all->topics[i];
        if (topic->err || !is_subscribed(&r->what, topic->topic))
            continue;
        for (int k = 0; k < topic->partition_cnt; k++)
            rd_kafka_topic_partition_list_add(r->list, topic->topic,
                                              topic->partitions[k].id)
                ->offset = r->what.to_ms;
    }
}

/* A partition without a record since to_ms starts at its end. */
static int find_ends(struct rewinding *r, rd_kafka_t *rk)
{
    r->rows = mem_alloc(((size_t)r->list->cnt + 1) * sizeof(*r->rows));
    for (int i = 0; i < r->list->cnt; i++) {
        rd_kafka_topic_partition_t *row = &r->list->elems[i];
        int64_t low, high;
        rd_kafka_resp_err_t code = row->err;
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            code = rd_kafka_query_watermark_offsets(rk, row->topic, row->partition, &low,
                                                    &high, ASK_MS);
        if (code)
            return err_set(&r->err, "topic %s: %s", row->topic, rd_kafka_err2str(code));
        if (row->offset < 0)
            row->offset = high;
        r->rows[i] = (struct rewind_row){row->topic, row->partition, row->offset, high};
    }
    return 0;
}

static int find_offsets(struct rewinding *r, rd_kafka_t *rk, const char *why)
{
    const struct rd_kafka_metadata *all = NULL;

    if (ask_topics(rk, r->what.link, why, &all, &r->err) < 0)
        return -1;
    add_partitions(r, all);
    rd_kafka_metadata_destroy(all);
    if (r->list->cnt == 0)
        return err_set(&r->err, "none of the source's topics exists");
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(rk, r->list, ASK_MS);
    if (code)
        return err_set(&r->err, "cannot look up the offsets of that time: %s",
                       rd_kafka_err2str(code));
    return find_ends(r, rk);
}

static void on_found(void *arg);

static void *ask_brokers(void *arg)
{
    struct rewinding *r = arg;
    char why[WHY_BYTES] = "";
    rd_kafka_t *rk = open_handle(r->what.link, why, &r->err);

    r->failed = rk == NULL || find_offsets(r, rk, why) < 0;
    if (rk)
        rd_kafka_destroy(rk);
    loop_post(on_found, r);
    return NULL;
}

/* --------------------------------------------------------------- on the loop thread */

static void answer(struct rewinding *r, const char *why)
{
    r->marks->parts->open_requests--;
    r->cb(r->arg, why ? NULL : r->rows, why ? 0 : r->row_count, why);
    rd_kafka_topic_partition_list_destroy(r->list);
    free(r->rows);
    free(r->route);
    free(r);
}

static void on_put(void *arg, enum kv_code code)
{
    answer(arg, code == KV_OK ? NULL : "Redis did not answer; send the request again");
}

/* Removes topics of other routes. */
static void keep_own_topics(struct rewinding *r)
{
    int kept = 0;

    for (int i = 0; i < r->list->cnt; i++) {
        const struct slice topic = slice_of(r->list->elems[i].topic);
        if (slice_is(source_route(r->marks->parts->src, topic, NULL), r->route))
            r->rows[kept++] = r->rows[i];
    }
    r->row_count = (size_t)kept;
}

static void on_found(void *arg)
{
    struct rewinding *r = arg;

    if (!r->failed)
        keep_own_topics(r);
    if (!r->failed && r->row_count == 0)
        r->failed = err_set(&r->err, "the source reads no topic of this route") < 0;
    if (r->failed || r->what.dry_run) {
        answer(r, r->failed ? r->err.text : NULL);
        return;
    }
    kafka_marks_ask_rewind(r->marks, r->route, r->rows, r->row_count, on_put, r);
}

void kafka_rewind(struct kafka_marks *marks, const struct kafka_rewind *what,
                  rewind_cb *cb, void *arg)
{
    struct rewinding *r = mem_alloc(sizeof(*r));
    pthread_t thread;

    *r = (struct rewinding){.marks = marks, .what = *what, .cb = cb, .arg = arg};
    r->what.route = r->route = mem_strdup(what->route);
    r->list = rd_kafka_topic_partition_list_new(8);
    marks->parts->open_requests++;
    if (pthread_create(&thread, NULL, ask_brokers, r) == 0)
        pthread_detach(thread);
    else
        ask_brokers(r); /* blocks */
}
