/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.c - handles rebalance events. librdkafka sends the next event only after
 * the last was applied.
 */
#include "sources/kafka/kafka_group.h"

#include <string.h>

enum {
    SHORT_PAUSE_MS = 200,
    REVOKE_WAIT_MS = 3000, /* for answers to records of revoked partitions */
    RETRY_READ_MS = 1000,
    READ_TRIES = 3 /* then wait: a reconnected Redis triggers another read */
};

static void on_limit(void *arg);
static void on_long_pause(void *arg);
static void on_assigned(void *arg, rd_kafka_topic_partition_list_t *list);
static void on_marks(void *arg, bool good);
static void on_flushed(void *arg);
static void on_retry_read(void *arg);
static const struct kafka_marks_events marks_events = {on_flushed, on_marks};

void kafka_group_init(struct kafka_group *g, struct source *src, const char *group_id,
                      int64_t commit_lag_ms, bool latest)
{
    g->who = source_name(src);
    kafka_parts_init(&g->parts, src, commit_lag_ms);
    g->parts.owner = g;
    kafka_marks_init(&g->marks, &g->parts, &marks_events, g);
    kafka_start_init(&g->start, g->who, group_id, latest);
    g->start.done = on_assigned;
    g->start.arg = g;
    g->limit = timer_new(on_limit, g);
    g->long_pause = timer_new(on_long_pause, g);
    g->retry_read = timer_new(on_retry_read, g);
}

void kafka_group_fini(struct kafka_group *g)
{
    timer_del(g->limit);
    timer_del(g->long_pause);
    timer_del(g->retry_read);
    g->limit = g->long_pause = g->retry_read = NULL;
    kafka_start_fini(&g->start);
    kafka_marks_fini(&g->marks);
}

void kafka_group_join(struct kafka_group *g, struct kafka_client *client)
{
    g->client = client;
    g->parts.rk = kafka_client_rk(client);
}

static void apply(struct kafka_group *g, bool add,
                  const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_t *rk = kafka_client_rk(g->client);
    rd_kafka_error_t *error = NULL;
    const char *protocol = rd_kafka_rebalance_protocol(rk);

    if (protocol && strcmp(protocol, "COOPERATIVE") == 0) {
        error = add ? rd_kafka_incremental_assign(rk, list)
                    : rd_kafka_incremental_unassign(rk, list);
        if (error)
            log_warn(g->who, "rebalance failed: %s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    } else {
        rd_kafka_resp_err_t code = rd_kafka_assign(rk, add ? list : NULL);
        if (code)
            log_warn(g->who, "rebalance failed: %s", rd_kafka_err2str(code));
    }
}

static void drop_parts(struct kafka_group *g, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        struct kafka_part *part =
            kafka_part_find(&g->parts, list->elems[i].topic, list->elems[i].partition);
        if (part)
            kafka_part_drop(part);
    }
}

static void drop_all_parts(struct kafka_group *g)
{
    while (!TAILQ_EMPTY(&g->parts.list))
        kafka_part_drop(TAILQ_FIRST(&g->parts.list));
}

void kafka_group_leave(struct kafka_group *g)
{
    if (g->revoke)
        rd_kafka_event_destroy(g->revoke);
    if (g->assign)
        rd_kafka_event_destroy(g->assign);
    g->revoke = g->assign = NULL;
    kafka_start_drop(&g->start);
    timer_stop(g->limit);
    timer_stop(g->retry_read);
    drop_all_parts(g);
    g->parts.rk = NULL;
    g->client = NULL;
}

/* A short pause keeps the prefetched records: the seek at the end of a hold would make
 * librdkafka discard them. Short pauses are frequent while a backlog is read. */
void kafka_group_pause(struct kafka_group *g, bool paused)
{
    g->paused = paused;
    if (g->client)
        kafka_client_pause(g->client, paused);
    if (paused) {
        timer_set(g->long_pause, SHORT_PAUSE_MS);
        return;
    }
    timer_stop(g->long_pause);
    kafka_parts_resume(&g->parts, NULL, PAUSE_FLOW);
}

static void on_long_pause(void *arg)
{
    struct kafka_group *g = arg;

    kafka_parts_pause(&g->parts, NULL, PAUSE_FLOW);
    if (g->client)
        kafka_client_pause(g->client, false);
}

void kafka_group_pause_for_stop(struct kafka_group *g)
{
    g->paused = true;
    timer_stop(g->long_pause);
    on_long_pause(g);
}

/* librdkafka commits the stored offsets before it releases the partitions. */
static void finish_revoke(struct kafka_group *g)
{
    rd_kafka_event_t *ev = g->revoke;
    rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(ev);

    g->revoke = NULL;
    timer_stop(g->limit);
    drop_parts(g, list);
    /* librdkafka (2.0.2) keeps a partition paused until its next assignment to us.
     * Resuming it then would continue after the last record read, and skip records that
     * were not stored. */
    rd_kafka_resume_partitions(kafka_client_rk(g->client), list);
    apply(g, false, list);
    log_msg(list->cnt > 0 ? LOG_INFO : LOG_DEBUG, g->who,
            "%d partitions revoked, %u still assigned", list->cnt, g->parts.count);
    rd_kafka_event_destroy(ev);
}

static bool revoke_is_answered(const struct kafka_group *g)
{
    const struct kafka_part *part;

    TAILQ_FOREACH (part, &g->parts.list, link)
        if ((part->pauses & PAUSE_REVOKE) && part->offsets.open > 0)
            return false;
    return true;
}

/* Marks revoked partitions without the lag; on_flushed() then finishes the revocation. */
static void mark_revoked(struct kafka_group *g)
{
    struct kafka_part *part;

    g->revoke_marked = true;
    TAILQ_FOREACH (part, &g->parts.list, link)
        part->ignore_lag = part->ignore_lag || (part->pauses & PAUSE_REVOKE);
    kafka_marks_flush(&g->marks);
}

void kafka_group_answered(struct kafka_group *g)
{
    if (g->revoke && !g->revoke_marked && revoke_is_answered(g))
        mark_revoked(g);
}

static void on_flushed(void *arg)
{
    struct kafka_group *g = arg;

    if (g->revoke && g->revoke_marked)
        finish_revoke(g);
    if (g->settled) {
        void (*done)(void *) = g->settled;
        g->settled = NULL;
        done(g->arg);
    }
}

void kafka_group_settle(struct kafka_group *g, void (*done)(void *arg), void *arg)
{
    struct kafka_part *part;

    g->settled = done;
    g->arg = arg;
    TAILQ_FOREACH (part, &g->parts.list, link)
        part->ignore_lag = true;
    kafka_marks_flush(&g->marks);
}

static void on_limit(void *arg)
{
    struct kafka_group *g = arg;

    log_warn(g->who, "partitions were revoked before Redis stored their offsets; another "
                     "member of the group will read the last records again");
    finish_revoke(g);
}

/* Takes ownership of ev. */
static void on_revoke(struct kafka_group *g, rd_kafka_event_t *ev)
{
    const rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(ev);

    g->revoke = ev;
    g->revoke_marked = false;
    for (int i = 0; i < list->cnt; i++) {
        struct kafka_part *part =
            kafka_part_find(&g->parts, list->elems[i].topic, list->elems[i].partition);
        if (part)
            kafka_parts_pause(&g->parts, part, PAUSE_REVOKE);
    }
    /* A lost assignment can no longer commit. */
    if (rd_kafka_assignment_lost(kafka_client_rk(g->client))) {
        finish_revoke(g);
        return;
    }
    timer_set(g->limit, REVOKE_WAIT_MS);
    kafka_group_answered(g);
}

/* -------------------------------------------------------------- assignments */

/* Loads the reading. No record of a partition may be submitted before it is known. */
static void load_reading(struct kafka_group *g, struct kafka_part *part)
{
    if (g->start.fields) {
        kafka_marks_load_reading(&g->marks.fields, part);
        kafka_marks_start_rewinds(&g->marks.fields, part);
        return;
    }
    kafka_parts_pause(&g->parts, part, PAUSE_MARKS);
    if (!g->marks.reading)
        timer_set(g->retry_read, RETRY_READ_MS);
}

static void on_assigned(void *arg, rd_kafka_topic_partition_list_t *list)
{
    struct kafka_group *g = arg;

    apply(g, true, list);
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *row = &list->elems[i];
        load_reading(g, kafka_part_add(&g->parts, row->topic, row->partition,
                                       row->offset >= 0 ? row->offset : -1,
                                       kafka_start_mark(&g->start, row)));
    }
    if (g->paused)
        kafka_parts_pause(&g->parts, NULL, PAUSE_FLOW);
    if (g->marks.reading) { /* it hangs, but its late answer will still be used */
        g->read_tries = 0;
        kafka_parts_pause(&g->parts, NULL, PAUSE_MARKS);
    }
    kafka_client_reached(g->client);
    log_msg(list->cnt > 0 ? LOG_INFO : LOG_DEBUG, g->who,
            "%d partitions assigned, %u in all", list->cnt, g->parts.count);
    rd_kafka_topic_partition_list_destroy(list);
    if (g->assign)
        rd_kafka_event_destroy(g->assign);
    g->assign = NULL;
}

/* Takes ownership of ev. */
static void on_assign(struct kafka_group *g, rd_kafka_event_t *ev)
{
    g->assign = ev;
    kafka_start_begin(&g->start, g->client, rd_kafka_event_topic_partition_list(ev));
    kafka_marks_read(&g->marks);
}

/* ------------------------------------------------------------- rewinding to the marks */

static bool is_paused_for_marks(const struct kafka_group *g)
{
    const struct kafka_part *part;

    TAILQ_FOREACH (part, &g->parts.list, link)
        if (part->pauses & PAUSE_MARKS)
            return true;
    return false;
}

static bool lacks_readings(const struct kafka_group *g)
{
    const struct kafka_part *part;

    TAILQ_FOREACH (part, &g->parts.list, link)
        if (!part->reading_known)
            return true;
    return false;
}

static void end_pause_for_marks(struct kafka_group *g, bool good)
{
    struct kafka_part *part;

    TAILQ_FOREACH (part, &g->parts.list, link) {
        if ((part->pauses & PAUSE_MARKS) == 0)
            continue;
        if (good)
            kafka_marks_load_reading(&g->marks.fields, part);
        const int64_t mark = good ? kafka_marks_find(&g->marks.fields, part->topic,
                                                     part->partition, part->incarnation)
                                  : -1;
        if (g->start.latest && mark >= 0) /* otherwise it starts at the end */
            kafka_part_set_start(part, mark);
        kafka_part_rewind_to_mark(part, mark);
    }
    kafka_parts_resume(&g->parts, NULL, PAUSE_MARKS);
}

static void on_marks(void *arg, bool good)
{
    struct kafka_group *g = arg;
    struct kafka_part *part;

    if (good)
        kafka_start_marks(&g->start, &g->marks.fields);
    if (is_paused_for_marks(g)) {
        if (!good && (++g->read_tries < READ_TRIES || lacks_readings(g))) {
            timer_set(g->retry_read, RETRY_READ_MS);
            return;
        }
        end_pause_for_marks(g, good);
    }
    TAILQ_FOREACH (part, &g->parts.list, link)
        if (good)
            kafka_marks_start_rewinds(&g->marks.fields, part);
}

void kafka_group_check_rewinds(struct kafka_group *g)
{
    if (g->client)
        kafka_marks_read(&g->marks);
}

static void on_retry_read(void *arg)
{
    struct kafka_group *g = arg;
    kafka_marks_read(&g->marks);
}

void kafka_group_rewind(struct kafka_group *g)
{
    g->read_tries = 0;
    kafka_parts_pause(&g->parts, NULL, PAUSE_MARKS);
    kafka_marks_read(&g->marks);
}

void kafka_group_rebalance(struct kafka_group *g, rd_kafka_event_t *ev)
{
    if (g->revoke)
        finish_revoke(g);
    kafka_start_now(&g->start);
    switch (rd_kafka_event_error(ev)) {
    case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
        on_assign(g, ev);
        return;
    case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
        on_revoke(g, ev);
        return;
    default:
        drop_all_parts(g);
        rd_kafka_assign(kafka_client_rk(g->client), NULL);
        kafka_client_fail(g->client, rd_kafka_err2str(rd_kafka_event_error(ev)));
    }
    rd_kafka_event_destroy(ev);
}

/* librdkafka reports a deleted topic, and a partition that starts at its end. */
void kafka_group_error(struct kafka_group *g, rd_kafka_event_t *ev)
{
    rd_kafka_topic_partition_t *which = rd_kafka_event_topic_partition(ev);
    struct kafka_part *part;

    if (which == NULL)
        return;
    switch (rd_kafka_event_error(ev)) {
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        kafka_parts_topic_missing(&g->parts, which->topic);
        break;
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        part = kafka_part_find(&g->parts, which->topic, which->partition);
        if (part)
            kafka_part_set_start(part, which->offset);
        break;
    default:
        break;
    }
    rd_kafka_topic_partition_destroy(which);
}

/* Returns the number of records, or -1: not known. */
static int64_t lag_of(const struct kafka_part *part)
{
    int64_t low, end, stored = part->offsets.done;

    if (rd_kafka_get_watermark_offsets(part->parts->rk, part->topic, part->partition,
                                       &low, &end) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -1;
    if (stored < 0)
        stored = part->start >= 0 ? part->start : low;
    if (stored < 0 || end < 0)
        return -1;
    return end > stored ? end - stored : 0;
}

void kafka_group_lag(const struct kafka_group *g, lag_cb *cb, void *arg)
{
    const struct kafka_part *part;

    if (g->parts.rk == NULL)
        return;
    TAILQ_FOREACH (part, &g->parts.list, link) {
        const int64_t records = lag_of(part);
        if (records >= 0)
            cb(arg, part->topic, part->partition, records);
    }
}
