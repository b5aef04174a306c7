/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.c - reads and rewinds each partition, and finds out whether its topic was
 * recreated.
 */
#include "sources/kafka/kafka_part.h"

#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_MAX = 65536,  /* reads per partition, from its first open read */
    YOUNG_MS = 60 * 1000 /* see kafka_part_rewind_to_mark() */
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
    free(part->rewinds_done);
    free(part->rewinds_next);
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
    part->rewinds_done = mem_strdup("");
    part->partition = partition;
    part->rewind_to = part->commit_below = part->probe_offset = part->mark_sent = -1;
    part->last_offset = (start > mark ? start : mark) - 1;
    part->start = start;
    part->started_ms = loop_mono_ms();
    part->mark = mark;
    part->maybe_new = start < 0 && mark >= 0;
    part->rewind = timer_new(on_rewind, part);
    part->generation = ++parts->generations; /* also invalidates answers for an earlier
                                                part of this name */
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
    part->revoked = true;
    if (part->offsets.open == 0)
        part_free(part);
}

/* -------------------------------------------------------------------- reading */

static void raise_to(int64_t *offset, int64_t least)
{
    if (*offset < least)
        *offset = least;
}

/* Pauses the partition, and rewinds it when every open read is answered. Otherwise a
 * record could have two open reads. */
static void rewind_soon(struct kafka_part *part)
{
    kafka_parts_pause(part->parts, part, PAUSE_REWIND);
    if (part->offsets.open == 0 && !timer_is_set(part->rewind))
        timer_set(part->rewind, retry_broker_ms(++part->rewind_count));
}

/* Returns whether the topic was recreated: the partition ends below our position, below
 * the last known record, or below the mark in Redis. Call it for an offset below our
 * position, or if Redis has a mark but the group has no offset. has_changed() compares
 * timestamps. */
static bool is_recreated(const struct kafka_part *part, int64_t offset)
{
    int64_t known = part->offsets.position, low, high;

    raise_to(&known, part->mark);
    raise_to(&known, part->last_offset + 1);
    if (part->parts->rk == NULL ||
        rd_kafka_get_watermark_offsets(part->parts->rk, part->topic, part->partition,
                                       &low, &high) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    if (high <= offset || high >= known) /* the first is true also if high is unknown */
        return false;
    log_warn(part->parts->who,
             "%s/%" PRId32 ": the topic ends at offset %" PRId64
             ", but tarry has read up to %" PRId64
             ": the topic was recreated, and tarry reads it from the start",
             part->topic, part->partition, high, known);
    return true;
}

/* ---------------------------------------------------------------- rewinding */

static void rewind_now(struct kafka_part *part)
{
    const int64_t was = part->offsets.position, done = part->offsets.done;
    int64_t offset = kafka_offsets_rewind(&part->offsets, part->rewind_to);

    /* There is no record that can be compared: the end of the partition, or Redis, shows
     * whether the topic is a new one. */
    if (part->topic_missing && offset > 0 && part->probe_offset < offset) {
        offset = kafka_offsets_rewind(&part->offsets, 0);
        part->maybe_new = true;
    }
    timer_stop(part->rewind); /* it may have been set during the request to Redis */
    part->mark_sent = -1;
    if (offset >= 0) /* else kafka_part_set_start() rewinds again */
        part->rewind_to = -1;
    part->generation = ++part->parts->generations;
    if (offset >= 0 && offset < part->start)
        part->start = offset; /* if Redis loses its writes from now on, these records are
                               * read again */
    if (part->probe_offset < offset)
        part->probe_offset = -1;
    part->pauses &= ~(unsigned)PAUSE_WINDOW; /* the window is empty */
    if (offset >= 0 && (offset < done || offset < part->lag.ripe))
        kafka_lag_reset(&part->lag, offset);
    if (offset < was)
        source_rewound(part->parts->src);
    log_debug(part->parts->who, "%s/%" PRId32 ": reading again from offset %" PRId64,
              part->topic, part->partition, offset);
    kafka_parts_resume(part->parts, part, PAUSE_REWIND);
}

static void on_rewind(void *arg)
{
    struct kafka_part *part = arg;

    if (part->pauses & PAUSE_MARKS) /* the mark is being read from Redis */
        timer_set(part->rewind, retry_broker_ms(1));
    else if (part->recreated || part->rewinds_next)
        kafka_marks_write_reading(part);
    else
        rewind_now(part);
}

void kafka_part_reading_written(struct kafka_part *part, int64_t mark)
{
    if (part->rewinds_next &&
        strcmp(part->rewinds_next, part->rewinds_done) == 0) { /* otherwise a later
                                                                * rewind was added */
        free(part->rewinds_next);
        part->rewinds_next = NULL;
    }
    part->recreated = false;
    part->mark = mark;
    rewind_now(part);
    if (part->rewinds_next)
        rewind_soon(part);
}

void kafka_part_rewind(struct kafka_part *part, const char *rewinds, int64_t offset)
{
    char *asked = mem_strdup(rewinds); /* rewinds may point into part */

    free(part->rewinds_next);
    part->rewinds_next = asked;
    raise_to(&part->commit_below, part->offsets.position);
    if (offset >= 0 && (part->rewind_to < 0 || offset < part->rewind_to))
        part->rewind_to = offset;
    rewind_soon(part);
}

/* Handles an unexpected offset. True: ignore the record, it will be read again. */
static bool is_out_of_order(struct kafka_part *part, int64_t offset)
{
    struct kafka_offsets *o = &part->offsets;
    const bool is_lower = offset < o->position || offset < part->probe_offset;

    if (!is_lower && !part->maybe_new)
        return false;
    part->maybe_new = false;
    part->recreated = is_recreated(part, offset);
    part->probe_offset = -1;
    if (!is_lower && !part->recreated)
        return false;
    /* If it was truncated, not recreated, its earlier records are open or done. */
    if (!part->recreated)
        log_limited(&part->parts->offset_fell, LOG_WARN, part->parts->who,
                    "%s/%" PRId32 ": offset %" PRId64 " after %" PRId64
                    "; the topic was recreated or truncated",
                    part->topic, part->partition, offset, o->position - 1);
    raise_to(&part->commit_below, o->position);
    raise_to(&part->commit_below, part->mark);
    part->rewind_to = offset;
    part->last_offset = -1;
    rewind_soon(part);
    return true;
}

/* Redis finds out whether the topic is a new one. found: what its offset `last` contains,
 * instead of the last record. */
static void read_from_start(struct kafka_part *part, int64_t last, const char *found)
{
    log_warn(part->parts->who,
             "%s/%" PRId32 ": offset %" PRId64
             " now contains %s record: %s, and tarry reads it from the start",
             part->topic, part->partition, last, found,
             part->recreated ? "the topic was recreated" : "it may be another topic");
    part->topic_missing = false;
    part->probe_offset = -1;
    raise_to(&part->commit_below, part->offsets.position);
    part->rewind_to = 0;
    part->last_offset = -1;
    rewind_soon(part);
}

/* Checks whether a topic that was missing was recreated: compares the timestamp of the
 * last record, which is read again (before rewound records). If that record is gone,
 * Redis finds out: the partition is read again from its first record. True: ignore the
 * record. */
static bool has_changed(struct kafka_part *part, int64_t offset, int64_t stamp_ms)
{
    const int64_t last = part->probe_offset;

    part->topic_missing = false;
    if (offset < last)
        return false;
    part->probe_offset = -1;
    if (last < 0)
        return false;
    if (offset == last && stamp_ms == part->last_ms) {
        if (offset > part->offsets.position)
            rewind_soon(part);
        return offset > part->offsets.position;
    }
    part->recreated = offset == last;
    read_from_start(part, last, part->recreated ? "another" : "no");
    return true;
}

void kafka_parts_check_ends(struct kafka_parts *parts)
{
    struct kafka_part *part;
    int64_t low, end;

    TAILQ_FOREACH (part, &parts->list, link)
        if (part->probe_offset > 0 && part->pauses == 0 &&
            rd_kafka_get_watermark_offsets(parts->rk, part->topic, part->partition, &low,
                                           &end) == RD_KAFKA_RESP_ERR_NO_ERROR &&
            end == part->probe_offset)
            read_from_start(part, end, "no");
}

/* Reads the last record again as soon as the topic exists; a record after it may never be
 * written. If none was read since a recreation, rewind_now() goes to the first one. */
static void probe(struct kafka_part *part)
{
    const bool is_known = part->last_offset >= 0;

    part->topic_missing = true;
    if (is_known && part->last_ms == 0)
        return;
    if (is_known) {
        part->probe_offset = part->last_offset;
        if (part->rewind_to < 0 || part->last_offset < part->rewind_to)
            part->rewind_to = part->last_offset;
    }
    rewind_soon(part);
}

void kafka_parts_topic_missing(struct kafka_parts *parts, const char *topic)
{
    struct kafka_part *part;

    TAILQ_FOREACH (part, &parts->list, link)
        if (strcmp(part->topic, topic) == 0 && !part->topic_missing)
            probe(part);
}

void kafka_part_set_start(struct kafka_part *part, int64_t offset)
{
    if (part->start >= 0)
        return;
    part->start = part->offsets.position = offset;
    kafka_lag_reset(&part->lag, offset);
    if (part->rewind_to >= offset)
        part->rewind_to = -1;
    else if (part->rewind_to >= 0)
        rewind_soon(part);
}

/* Returns whether the first record of a rewind lies between our position and this
 * offset, or is it. */
static bool begins_rewind(const struct kafka_part *part, int64_t offset)
{
    for (const char *at = strchr(part->rewinds_done, '@'); at; at = strchr(at + 1, '@')) {
        const int64_t first = strtoll(at + 1, NULL, 10);
        if (first >= part->offsets.position && first <= offset)
            return true;
    }
    return false;
}

struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset,
                                   int64_t stamp_ms)
{
    struct kafka_offsets *o = &part->offsets;

    kafka_part_set_start(part, offset);
    if (part->pauses)
        return NULL;
    if ((part->topic_missing || part->probe_offset >= 0) &&
        has_changed(part, offset, stamp_ms))
        return NULL;
    if (is_out_of_order(part, offset))
        return NULL;
    if (o->open > 0 && begins_rewind(part, offset)) {
        /* Redis does not compare the records of a rewind with those before it. */
        rewind_soon(part);
        return NULL;
    }
    part->last_offset = offset;
    part->last_ms = stamp_ms;
    struct kafka_read *read = kafka_offsets_read(o, offset, part);
    if (o->count >= WINDOW_MAX)
        kafka_parts_pause(part->parts, part, PAUSE_WINDOW);
    return read;
}

void kafka_part_recreated(const struct kafka_read *read)
{
    struct kafka_part *part = read->owner;

    if (part->revoked) /* its new owner finds it too */
        return;
    if (!part->recreated)
        log_warn(
            part->parts->who,
            "%s/%" PRId32 ": offset %" PRId64
            " now contains a newer record: the topic was recreated or truncated, and "
            "tarry reads its new records",
            part->topic, part->partition, read->offset);
    part->recreated = true;
    raise_to(&part->commit_below, part->offsets.position);
    raise_to(&part->commit_below, part->mark);
    if (part->rewind_to < 0 || read->offset < part->rewind_to)
        part->rewind_to = read->offset;
}

void kafka_part_answer(struct kafka_read *read, bool stored)
{
    struct kafka_part *part = read->owner;
    struct kafka_parts *parts = part->parts;
    const int64_t offset = read->offset;

    if (kafka_offsets_answer(&part->offsets, read, stored)) {
        kafka_lag_add(&part->lag, loop_mono_ms(), part->offsets.done);
        part->rewind_count = 0;
    }
    if (part->revoked) {
        if (part->offsets.open == 0)
            part_free(part);
        return;
    }
    if (!stored)
        log_limited(&parts->not_stored, LOG_WARN, parts->who,
                    "%s/%" PRId32 ": the record at offset %" PRId64
                    " could not be stored; tarry will read it again",
                    part->topic, part->partition, offset);
    if (part->offsets.has_failed || part->rewind_to >= 0 || (part->pauses & PAUSE_REWIND))
        rewind_soon(part);
    else if (part->offsets.count < WINDOW_MAX / 2 && (part->pauses & PAUSE_WINDOW))
        kafka_parts_resume(part->parts, part, PAUSE_WINDOW);
}

/* Without a mark in Redis (-1), a young partition is read again from its start: Redis may
 * have lost the first mark together with the jobs below it. Later, a missing mark means
 * that Redis lost everything. Then the records before our last mark were stored, and many
 * of their jobs delivered. */
void kafka_part_rewind_to_mark(struct kafka_part *part, int64_t mark)
{
    const int64_t position = part->offsets.position;
    const bool young = loop_mono_ms() - part->started_ms < YOUNG_MS;
    int64_t to = mark;

    if (to < 0)
        to = young || part->mark < 0 ? part->start : part->mark;
    if (mark < part->mark)
        log_limited(&part->parts->lost_writes, LOG_WARN, part->parts->who,
                    "Redis lost its last writes: %s/%" PRId32
                    " was stored up to offset %" PRId64
                    "; tarry reads it again from offset %" PRId64,
                    part->topic, part->partition, part->mark, to);
    part->mark = mark;
    if (to < 0 || to >= position)
        return;
    if (part->rewind_to < 0 || to < part->rewind_to)
        part->rewind_to = to;
    rewind_soon(part);
}
