/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_group.h"

#include <inttypes.h>

enum {
    ASK_MS = 4000,
    WAIT_MS = 5000,
    NOT_TOLD = RD_KAFKA_OFFSET_STORED /* no answer from the group yet */
};

static void ask_committed(struct kafka_start *s);

/* With start = "latest" the wait continues: it must be known whether the group is new. */
static void on_limit(void *arg)
{
    struct kafka_start *s = arg;

    if (s->latest && !s->has_committed) {
        log_warn(s->who, "the brokers have not returned the committed offsets of the "
                         "group; reading starts after they do; tarry asks again");
        ask_committed(s);
        return;
    }
    log_warn(s->who, "%s",
             s->has_committed
                 ? "Redis has not returned the marks; partitions start at the committed "
                   "offsets of the group"
                 : "the brokers have not returned the committed offsets of the group; "
                   "partitions start at their marks in Redis, those without a mark at "
                   "the committed offset");
    kafka_start_now(s);
}

void kafka_start_init(struct kafka_start *s, const char *who, const char *group_id,
                      bool latest)
{
    s->who = who;
    s->group_id = group_id;
    s->latest = latest;
    s->limit = timer_new(on_limit, s);
}

void kafka_start_drop(struct kafka_start *s)
{
    if (s->list)
        rd_kafka_topic_partition_list_destroy(s->list);
    s->list = NULL;
    s->client = NULL;
    s->round++;
    timer_stop(s->limit);
}

void kafka_start_fini(struct kafka_start *s)
{
    if (s->limit == NULL)
        return;
    kafka_start_drop(s);
    timer_del(s->limit);
    s->limit = NULL;
}

static void ask_committed(struct kafka_start *s)
{
    char why[128];
    rd_kafka_t *rk = kafka_client_rk(s->client);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_ListConsumerGroupOffsets_t *question =
        rd_kafka_ListConsumerGroupOffsets_new(s->group_id, s->list);

    s->round++; /* ignore answers to earlier requests */
    timer_set(s->limit, WAIT_MS);
    rd_kafka_AdminOptions_set_request_timeout(options, ASK_MS, why, sizeof(why));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number is all that it carries
    rd_kafka_AdminOptions_set_opaque(options, (void *)(uintptr_t)s->round);
    rd_kafka_ListConsumerGroupOffsets(rk, &question, 1, options,
                                      kafka_client_queue(s->client));
    rd_kafka_ListConsumerGroupOffsets_destroy(question);
    rd_kafka_AdminOptions_destroy(options);
}

void kafka_start_wait(struct kafka_start *s, const rd_kafka_topic_partition_list_t *list)
{
    kafka_start_drop(s);
    s->list = rd_kafka_topic_partition_list_copy(list);
    for (int i = 0; i < list->cnt; i++)
        s->list->elems[i].offset = NOT_TOLD;
    s->has_committed = list->cnt == 0;
    s->fields = NULL;
}

void kafka_start_begin(struct kafka_start *s, struct kafka_client *client,
                       const rd_kafka_topic_partition_list_t *list)
{
    kafka_start_wait(s, list);
    s->client = client;
    if (list->cnt == 0) /* more members than partitions; librdkafka rejects an empty
                         * request */
        kafka_start_now(s);
    else
        ask_committed(s);
}

/* Redis lost its last writes while no instance was running. */
static void start_at_mark(struct kafka_start *s, rd_kafka_topic_partition_t *row,
                          int64_t mark)
{
    log_warn(s->who,
             "Redis lost its last writes: the group has committed %s/%" PRId32
             " up to offset %" PRId64 ", but Redis contains it only up to %" PRId64
             "; tarry reads it again from there (an interrupted rewind or a recreated "
             "topic has "
             "the same effect)",
             row->topic, row->partition, row->offset, mark);
    row->offset = mark;
}

/* The group has no offset, or no longer has it. Only a new group skips existing
 * records. */
static void start_at_end(const struct kafka_start *s, rd_kafka_topic_partition_t *row,
                         int64_t mark)
{
    row->offset = mark >= 0 ? mark : RD_KAFKA_OFFSET_END;
    if (mark >= 0)
        log_warn(s->who,
                 "%s/%" PRId32 ": the group has no committed offset any more; tarry "
                 "continues at offset %" PRId64 ", the mark in Redis",
                 row->topic, row->partition, mark);
}

void kafka_start_now(struct kafka_start *s)
{
    rd_kafka_topic_partition_list_t *list = s->list;

    if (list == NULL)
        return;
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *row = &list->elems[i];
        const int64_t mark = kafka_start_mark(s, row);
        if (row->offset == NOT_TOLD) /* all records below the mark are stored */
            row->offset = mark >= 0 ? mark : RD_KAFKA_OFFSET_INVALID;
        else if (mark >= 0 && mark < row->offset)
            start_at_mark(s, row, mark);
        else if (s->latest && row->offset == RD_KAFKA_OFFSET_INVALID)
            start_at_end(s, row, mark);
    }
    s->list = NULL;
    kafka_start_drop(s);
    s->done(s->arg, list);
}

static void start_if_answered(struct kafka_start *s)
{
    if (s->has_committed && s->fields)
        kafka_start_now(s);
}

int64_t kafka_start_mark(const struct kafka_start *s,
                         const rd_kafka_topic_partition_t *row)
{
    if (s->fields == NULL)
        return -1;
    return kafka_marks_find(
        s->fields, row->topic, row->partition,
        kafka_marks_incarnation(s->fields, row->topic, row->partition));
}

void kafka_start_marks(struct kafka_start *s, const struct kafka_fields *fields)
{
    if (s->list == NULL)
        return;
    s->fields = fields;
    start_if_answered(s);
}

/* Handles an error in the group's answer or in a part of it. */
static void lacks_committed(struct kafka_start *s, const char *why)
{
    log_warn(s->who, "cannot read the committed offsets of the group: %s", why);
    if (!s->latest) /* otherwise on_limit() asks again */
        kafka_start_now(s);
}

void kafka_start_offsets(struct kafka_start *s,
                         const rd_kafka_topic_partition_list_t *answer)
{
    rd_kafka_resp_err_t failed = RD_KAFKA_RESP_ERR_NO_ERROR;

    for (int i = 0; i < s->list->cnt; i++) {
        rd_kafka_topic_partition_t *mine = &s->list->elems[i];
        const rd_kafka_topic_partition_t *row = rd_kafka_topic_partition_list_find(
            (rd_kafka_topic_partition_list_t *)answer, mine->topic, mine->partition);
        if (row == NULL)
            failed = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
        else if (row->err)
            failed = row->err;
        else
            mine->offset = row->offset >= 0 ? row->offset : RD_KAFKA_OFFSET_INVALID;
    }
    if (failed) {
        lacks_committed(s, rd_kafka_err2str(failed));
        return;
    }
    s->has_committed = true;
    start_if_answered(s);
}

void kafka_start_committed(struct kafka_start *s, rd_kafka_event_t *ev)
{
    const rd_kafka_ListConsumerGroupOffsets_result_t *result =
        rd_kafka_event_ListConsumerGroupOffsets_result(ev);
    size_t n = 0;

    if (s->list == NULL || (uintptr_t)rd_kafka_event_opaque(ev) != s->round)
        return;
    const rd_kafka_group_result_t **groups =
        result ? rd_kafka_ListConsumerGroupOffsets_result_groups(result, &n) : NULL;
    const rd_kafka_error_t *error = n > 0 ? rd_kafka_group_result_error(groups[0]) : NULL;
    if (rd_kafka_event_error(ev) || error || n == 0) {
        lacks_committed(s, error ? rd_kafka_error_string(error)
                                 : rd_kafka_event_error_string(ev));
        return;
    }
    kafka_start_offsets(s, rd_kafka_group_result_partitions(groups[0]));
}
