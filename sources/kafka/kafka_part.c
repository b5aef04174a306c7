/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.c - holds and rewinds each partition, and stores its offsets.
 *
 * librdkafka (2.0.2) resumes a paused partition after the last record read, regardless of
 * earlier seeks. So each resume here is followed by a seek to our own position.
 * librdkafka drops records fetched in between.
 */
#include "sources/kafka/kafka_part.h"

#include "bridge/base/fault.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_MAX = 65536, /* reads per partition, from its first open read */
    YOUNG_MS = 60 * 1000
};

static void on_rewind(void *arg);

void kafka_parts_init(struct kafka_parts *parts, struct source *src, int64_t lag_ms)
{
    memset(parts, 0, sizeof(*parts));
    parts->src = src;
    parts->who = source_name(src);
    parts->lag_ms = lag_ms;
    TAILQ_INIT(&parts->list);
}

static void part_free(struct kafka_part *part)
{
    kafka_offsets_fini(&part->offsets);
    free(part->topic);
    free(part->rewound);
    free(part->asked);
    free(part);
}

struct kafka_part *kafka_part_add(struct kafka_parts *parts, const char *topic,
                                  int32_t partition, int64_t start, int64_t mark)
{
    struct kafka_part *part = kafka_part_find(parts, topic, partition);

    if (part)
        kafka_part_drop(part); /* start again at the committed offset */
    part = mem_alloc(sizeof(*part));
    part->parts = parts;
    part->topic = mem_strdup(topic);
    part->rewound = mem_strdup("");
    part->partition = partition;
    part->back_to = part->below = part->probe = part->last_offset = part->mark_sent = -1;
    part->start = start;
    part->begun_ms = loop_mono_ms();
    part->mark = mark;
    part->unsure = start < 0 && mark >= 0;
    part->rewind = timer_new(on_rewind, part);
    part->era =
        ++parts->eras; /* also invalidates answers for an earlier part of this name */
    kafka_offsets_init(&part->offsets);
    part->offsets.position = start;
    kafka_lag_init(&part->lag, parts->lag_ms);
    if (start >= 0 && mark < 0)
        kafka_lag_reset(&part->lag, start); /* so that an offset is ripe at once */
    TAILQ_INSERT_TAIL(&parts->list, part, link);
    parts->count++;
    return part;
}

static bool is(const struct kafka_part *part, const char *topic, int32_t partition)
{
    return part->partition == partition && strcmp(part->topic, topic) == 0;
}

struct kafka_part *kafka_part_find(struct kafka_parts *parts, const char *topic,
                                   int32_t partition)
{
    struct kafka_part *part = parts->last;

    /* Consecutive records mostly belong to the same partition. */
    if (part == NULL || !is(part, topic, partition))
        TAILQ_FOREACH (part, &parts->list, link)
            if (is(part, topic, partition))
                break;
    parts->last = part;
    return part;
}

void kafka_part_drop(struct kafka_part *part)
{
    struct kafka_parts *parts = part->parts;

    TAILQ_REMOVE(&parts->list, part, link);
    parts->count--;
    if (parts->last == part)
        parts->last = NULL;
    timer_del(part->rewind);
    part->rewind = NULL;
    part->gone = true;
    if (part->offsets.open == 0)
        part_free(part);
}

/* -------------------------------------------------------------------- holding */

static rd_kafka_topic_partition_t *list_add(rd_kafka_topic_partition_list_t **list,
                                            const struct kafka_part *part)
{
    if (*list == NULL)
        *list = rd_kafka_topic_partition_list_new(1);
    return rd_kafka_topic_partition_list_add(*list, part->topic, part->partition);
}

/* Takes ownership of list. If librdkafka fails to pause a partition, its records are
 * ignored. */
static void pause_list(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list)
{
    if (list == NULL)
        return;
    if (parts->rk)
        rd_kafka_pause_partitions(parts->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static void seek_list(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_error_t *error = rd_kafka_seek_partitions(parts->rk, list, 0);

    if (error)
        log_warn(parts->who, "cannot seek: %s", rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

/* Takes ownership of list, which contains the offsets to continue at. */
static void resume_list(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list)
{
    if (list == NULL)
        return;
    if (parts->rk) {
        rd_kafka_resume_partitions(parts->rk, list);
        /* Partitions without a read record stay at the group's offset. */
        for (int i = list->cnt - 1; i >= 0; i--)
            if (list->elems[i].offset < 0)
                rd_kafka_topic_partition_list_del_by_idx(list, i);
        if (list->cnt > 0)
            seek_list(parts, list);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

/* Sets and clears holds of part; part NULL: of all partitions. */
static void set_holds(struct kafka_parts *parts, struct kafka_part *part, unsigned more,
                      unsigned less)
{
    rd_kafka_topic_partition_list_t *held = NULL, *free_again = NULL;
    const bool all = part == NULL;

    for (part = all ? TAILQ_FIRST(&parts->list) : part; part;
         part = all ? TAILQ_NEXT(part, link) : NULL) {
        const unsigned before = part->holds;
        part->holds = (before | more) & ~less;
        if (before == 0 && part->holds != 0)
            list_add(&held, part);
        else if (before != 0 && part->holds == 0)
            list_add(&free_again, part)->offset = part->offsets.position;
    }
    pause_list(parts, held);
    resume_list(parts, free_again);
}

void kafka_parts_hold(struct kafka_parts *parts, struct kafka_part *part,
                      enum kafka_hold why)
{
    set_holds(parts, part, why, 0);
}

void kafka_parts_let_go(struct kafka_parts *parts, struct kafka_part *part,
                        enum kafka_hold why)
{
    set_holds(parts, part, 0, why);
}

/* -------------------------------------------------------------------- reading */

/* Waits until every open read is answered; otherwise a record could have two open
 * reads. */
static void rewind_soon(struct kafka_part *part)
{
    kafka_parts_hold(part->parts, part, HOLD_REWIND);
    if (part->offsets.open == 0 && !timer_is_set(part->rewind))
        timer_set(part->rewind, retry_broker_ms(++part->rewinds));
}

/* Decides whether the topic was recreated. Call for an offset below our position, or if
 * Redis has a mark but the group has no offset. If the mark in Redis is above the end of
 * the partition, the topic was recreated or truncated; otherwise compares timestamps. */
static bool is_anew(const struct kafka_part *part, int64_t offset)
{
    const int64_t known =
        part->mark > part->offsets.position ? part->mark : part->offsets.position;
    int64_t low, high;

    if (part->parts->rk == NULL ||
        rd_kafka_get_watermark_offsets(part->parts->rk, part->topic, part->partition,
                                       &low, &high) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    if (high <= offset || high >= known) /* or high is not known */
        return false;
    log_warn(part->parts->who,
             "%s/%" PRId32 ": the topic ends at offset %" PRId64
             ", but tarry has read up to %" PRId64
             ": the topic was recreated, and tarry reads it from the start",
             part->topic, part->partition, high, known);
    return true;
}

/* ---------------------------------------------------------------- rewinding */

static void go_back(struct kafka_part *part)
{
    const int64_t was = part->offsets.position, done = part->offsets.done;
    const int64_t offset = kafka_offsets_rewind(&part->offsets, part->back_to);

    timer_rest(part->rewind); /* it may have been set during the request to Redis */
    part->back_to = part->mark_sent = -1;
    part->era = ++part->parts->eras;
    if (offset >= 0 && offset < part->start)
        part->start = offset; /* so that writes that Redis loses from now on are read
                               * again */
    if (offset != part->probe) {
        part->probe = -1;
        if (offset <= part->last_offset)
            part->last_offset = -1;
    }
    part->holds &= ~(unsigned)HOLD_WINDOW; /* the window is empty */
    if (offset >= 0 && (offset < done || offset < part->lag.ripe))
        kafka_lag_reset(&part->lag, offset);
    if (offset < was)
        source_rewound(part->parts->src);
    log_debug(part->parts->who, "%s/%" PRId32 ": reading again from offset %" PRId64,
              part->topic, part->partition, offset);
    kafka_parts_let_go(part->parts, part, HOLD_REWIND);
}

static void on_rewind(void *arg)
{
    struct kafka_part *part = arg;

    if (part->holds & HOLD_MARKS) /* the mark is being read from Redis */
        timer_set(part->rewind, retry_broker_ms(1));
    else if (part->anew || part->asked)
        kafka_marks_renew(part);
    else
        go_back(part);
}

void kafka_part_renewed(struct kafka_part *part, int64_t mark)
{
    if (part->asked && strcmp(part->asked, part->rewound) == 0) { /* otherwise a later
                                                                   * rewind was added */
        free(part->asked);
        part->asked = NULL;
    }
    part->anew = false;
    part->mark = mark;
    go_back(part);
    if (part->asked)
        rewind_soon(part);
}

void kafka_part_rewind(struct kafka_part *part, const char *rewinds, int64_t offset)
{
    char *asked = mem_strdup(rewinds); /* rewinds may point into part */

    free(part->asked);
    part->asked = asked;
    if (part->mark >= 0) /* otherwise nothing was read, and the records below offset are
                          * still pending */
        kafka_part_begins(part, offset >= 0 && offset < part->mark ? offset : part->mark);
    if (part->below < part->offsets.position)
        part->below = part->offsets.position;
    if (part->start >= 0 && offset >= 0 && (part->back_to < 0 || offset < part->back_to))
        part->back_to = offset;
    rewind_soon(part);
}

/* Handles an unexpected offset. True: ignore the record, it will be read again. */
static bool is_out_of_place(struct kafka_part *part, int64_t offset)
{
    struct kafka_offsets *o = &part->offsets;
    const bool is_lower = offset < o->position;

    if (!is_lower && !part->unsure)
        return false;
    part->unsure = false;
    part->anew = is_anew(part, offset);
    if (!is_lower && !part->anew)
        return false;
    /* Truncated, not recreated: its earlier records are open or done. */
    if (!part->anew)
        log_limited(&part->parts->went_back, LOG_WARN, part->parts->who,
                    "%s/%" PRId32 ": offset %" PRId64 " after %" PRId64
                    "; the topic was recreated or truncated",
                    part->topic, part->partition, offset, o->position - 1);
    if (part->below < o->position)
        part->below = o->position;
    if (part->below < part->mark)
        part->below = part->mark;
    part->back_to = offset;
    rewind_soon(part);
    return true;
}

static void begin_again(struct kafka_part *part, int64_t offset)
{
    if (part->below < part->offsets.position)
        part->below = part->offsets.position;
    part->anew = true;
    part->back_to = offset;
    rewind_soon(part);
}

/* Checks whether a topic that had vanished is still the same, by reading its last record
 * again. True: ignore the record. */
static bool is_another(struct kafka_part *part, int64_t offset, int64_t stamp_ms)
{
    if (part->vanished) {
        part->vanished = false;
        if (part->last_offset < 0 || part->last_ms == 0)
            return false;
        part->probe = part->back_to = part->last_offset;
        rewind_soon(part);
        return true;
    }
    const bool differs = offset == part->probe && stamp_ms != part->last_ms;
    if (offset >= part->probe)
        part->probe = -1;
    if (!differs)
        return false;
    log_warn(part->parts->who,
             "%s/%" PRId32 ": offset %" PRId64
             " now contains another record: the topic was recreated, and tarry reads it "
             "from the start",
             part->topic, part->partition, offset);
    begin_again(part, 0);
    return true;
}

void kafka_parts_vanish(struct kafka_parts *parts, const char *topic)
{
    struct kafka_part *part;

    TAILQ_FOREACH (part, &parts->list, link)
        if (strcmp(part->topic, topic) == 0)
            part->vanished = true;
}

void kafka_part_begins(struct kafka_part *part, int64_t offset)
{
    if (part->start >= 0)
        return;
    part->start = part->offsets.position = offset;
    kafka_lag_reset(&part->lag, offset);
}

struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset,
                                   int64_t stamp_ms)
{
    struct kafka_offsets *o = &part->offsets;

    kafka_part_begins(part, offset);
    if (part->holds)
        return NULL;
    if ((part->vanished || part->probe >= 0) && is_another(part, offset, stamp_ms))
        return NULL;
    if (is_out_of_place(part, offset))
        return NULL;
    part->last_offset = offset;
    part->last_ms = stamp_ms;
    struct kafka_read *read = kafka_offsets_read(o, offset, part);
    if (o->count >= WINDOW_MAX)
        kafka_parts_hold(part->parts, part, HOLD_WINDOW);
    return read;
}

void kafka_part_answer(struct kafka_read *read, bool stored)
{
    struct kafka_part *part = read->owner;
    struct kafka_parts *parts = part->parts;
    const int64_t offset = read->offset;

    if (kafka_offsets_answer(&part->offsets, read, stored)) {
        kafka_lag_note(&part->lag, loop_mono_ms(), part->offsets.done);
        part->rewinds = 0;
    }
    if (part->gone) {
        if (part->offsets.open == 0)
            part_free(part);
        return;
    }
    if (!stored)
        log_limited(&parts->not_stored, LOG_WARN, parts->who,
                    "%s/%" PRId32 ": the record at offset %" PRId64
                    " could not be stored; tarry will read it again",
                    part->topic, part->partition, offset);
    if (part->offsets.torn || part->back_to >= 0 || (part->holds & HOLD_REWIND))
        rewind_soon(part);
    else if (part->offsets.count < WINDOW_MAX / 2 && (part->holds & HOLD_WINDOW))
        kafka_parts_let_go(part->parts, part, HOLD_WINDOW);
}

/* Soon after the start, Redis may have lost the first mark together with the jobs below
 * it. Later, a missing mark means that Redis lost everything; then the start offset says
 * nothing about delivered jobs. */
void kafka_part_reread(struct kafka_part *part, int64_t mark)
{
    const int64_t position = part->offsets.position;
    const bool young = loop_mono_ms() - part->begun_ms < YOUNG_MS;
    int64_t to = mark;

    if (to < 0)
        to = young || part->mark < 0 ? part->start : part->mark;
    if (mark < part->mark)
        log_limited(&part->parts->read_again, LOG_WARN, part->parts->who,
                    "Redis lost its last writes: %s/%" PRId32
                    " was stored up to offset %" PRId64
                    "; tarry reads it again from offset %" PRId64,
                    part->topic, part->partition, part->mark, to);
    part->mark = mark;
    if (to < 0 || to >= position)
        return;
    if (part->back_to < 0 || to < part->back_to)
        part->back_to = to;
    rewind_soon(part);
}

int64_t kafka_part_sure(struct kafka_part *part)
{
    const bool stays =
        part->back_to < 0 && !part->anew && !part->asked && !(part->holds & HOLD_MARKS);

    if (!stays)
        return -1;
    return part->all && part->offsets.done >= 0
               ? part->offsets.done
               : kafka_lag_ripe(&part->lag, loop_mono_ms());
}

/* librdkafka commits only offsets above the last commit. After a topic was recreated,
 * lower offsets need an explicit commit. */
static void commit_lower(struct kafka_parts *parts,
                         const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_topic_partition_list_t *lower = NULL;

    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *row = &list->elems[i];
        const struct kafka_part *part =
            kafka_part_find(parts, row->topic, row->partition);
        if (part && row->offset < part->below)
            list_add(&lower, part)->offset = row->offset;
    }
    if (lower == NULL)
        return;
    rd_kafka_commit(parts->rk, lower, 1); /* the outcome arrives as an event */
    rd_kafka_topic_partition_list_destroy(lower);
}

void kafka_parts_store(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list)
{
    if (list == NULL)
        return;
    if (parts->rk) {
        rd_kafka_resp_err_t code = rd_kafka_offsets_store(parts->rk, list);
        FAULT("S4");
        if (code) /* _STATE: just revoked; the new owner reads from the mark */
            log_limited(&parts->commits, LOG_WARN, parts->who,
                        "cannot pass offsets to librdkafka for the commit: %s",
                        rd_kafka_err2str(code));
        commit_lower(parts, list);
    }
    rd_kafka_topic_partition_list_destroy(list);
}
