/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_rewind.h"

#include "bridge/base/mem.h"
#include "sources/kafka/kafka_probe.h"
#include "sources/kafka/kafka_reading.h"

#include <pthread.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS = 5000 };

/* One rewind, until it is answered. */
struct rewinding {
    struct kafka_marks *marks;
    struct kafka_rewind what;
    char *route;
    rewind_cb *cb;
    void *arg;
    /* Of the thread, until on_found(): */
    rd_kafka_topic_partition_list_t *list; /* with the offsets to begin at */
    struct rewind_row *rows;               /* one for each of list, which has the names */
    size_t row_count;                      /* of those that go by the route */
    bool failed;
    struct err err;
};

/* -------------------------------------------------------------------- in the thread */

/* As librdkafka takes a subscription. */
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

/* A partition without a record since then begins at its end. */
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

    if (kafka_probe_topics(rk, r->what.link, why, &all, &r->err) < 0)
        return -1;
    add_partitions(r, all);
    rd_kafka_metadata_destroy(all);
    if (r->list->cnt == 0)
        return err_set(&r->err, "none of its topics is there");
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(rk, r->list, ASK_MS);
    if (code)
        return err_set(&r->err, "the offsets of that time: %s", rd_kafka_err2str(code));
    return find_ends(r, rk);
}

static void on_found(void *arg);

static void *ask_brokers(void *arg)
{
    struct rewinding *r = arg;
    char why[KAFKA_PROBE_WHY] = "";
    rd_kafka_t *rk = kafka_probe_open(r->what.link, why, &r->err);

    r->failed = rk == NULL || find_offsets(r, rk, why) < 0;
    if (rk)
        rd_kafka_destroy(rk);
    loop_post(on_found, r);
    return NULL;
}

/* --------------------------------------------------------------------- in the loop */

static void answer(struct rewinding *r, const char *why)
{
    r->marks->parts->asks--;
    r->cb(r->arg, why ? NULL : r->rows, why ? 0 : r->row_count, why);
    rd_kafka_topic_partition_list_destroy(r->list);
    free(r->rows);
    free(r->route);
    free(r);
}

static void on_put(void *arg, enum shelf_code code)
{
    answer(arg, code == SHELF_OK ? NULL : "Redis did not answer; send it again");
}

/* Above the last one, whatever became of the clock. */
static int64_t next_number(const struct rewinding *r)
{
    const struct slice none = {NULL, 0};
    const int64_t now = source_now_ms(r->marks->parts->src, none);
    const int64_t last = kafka_rewind_last(r->marks->items, r->marks->n, r->route);

    return now > last ? now : last + 1;
}

/* Topics that go by another route are left as they are. */
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
    struct buf field = {0}, value = {0};

    if (!r->failed)
        keep_own_topics(r);
    if (!r->failed && r->row_count == 0)
        r->failed = err_set(&r->err, "it reads no topic that goes by this route") < 0;
    if (r->failed || r->what.dry_run) {
        answer(r, r->failed ? r->err.text : NULL);
        return;
    }
    kafka_rewind_format(next_number(r), r->rows, r->row_count, &value);
    buf_addf(&field, KAFKA_REWIND_OF "%s", r->route);
    shelf_put(r->marks->parts->src, KAFKA_MARKS_SHELF, buf_slice(&field),
              buf_slice(&value), false, on_put, r);
    buf_free(&field);
    buf_free(&value);
}

void kafka_rewind(struct kafka_marks *marks, const struct kafka_rewind *what,
                  rewind_cb *cb, void *arg)
{
    struct rewinding *r = mem_alloc(sizeof(*r));
    pthread_t thread;

    *r = (struct rewinding){.marks = marks, .what = *what, .cb = cb, .arg = arg};
    r->what.route = r->route = mem_strdup(what->route);
    r->list = rd_kafka_topic_partition_list_new(8);
    marks->parts->asks++;
    if (pthread_create(&thread, NULL, ask_brokers, r) == 0)
        pthread_detach(thread);
    else
        ask_brokers(r); /* blocks */
}
