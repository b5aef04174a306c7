/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.c - holding, reading again, and storing offsets, partition by partition.
 *
 * librdkafka resumes a paused partition where the application had read to, whatever seek
 * came before (2.0.2). Hence a resume here is always followed by a seek to our own
 * position; what was fetched in between is dropped by librdkafka itself.
 */
#include "sources/kafka_part.h"

#include "bridge/mem.h"
#include "sources/kafka_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 65536 /* reads of one partition from its first open one */ };

static void on_rewind(void *arg);

void kafka_parts_init(struct kafka_parts *parts, const char *who)
{
    memset(parts, 0, sizeof(*parts));
    parts->who = who;
    TAILQ_INIT(&parts->list);
}

static void part_free(struct kafka_part *part)
{
    kafka_offsets_fini(&part->offsets);
    free(part->topic);
    free(part);
}

struct kafka_part *kafka_part_add(struct kafka_parts *parts, const char *topic,
                                  int32_t partition)
{
    struct kafka_part *part = kafka_part_find(parts, topic, partition);

    if (part)
        kafka_part_drop(part); /* a fresh start, at the committed offset */
    part = mem_alloc(sizeof(*part));
    part->parts = parts;
    part->topic = mem_strdup(topic);
    part->partition = partition;
    part->back_to = -1;
    part->rewind = timer_new(on_rewind, part);
    kafka_offsets_init(&part->offsets);
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

    /* Records come in runs of one partition. */
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

/* Takes list. What librdkafka refuses to pause comes as records that are left unread. */
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
        log_warn(parts->who, "seek: %s", rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

/* Takes list; its offsets are where to go on. */
static void resume_list(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list)
{
    if (list == NULL)
        return;
    if (parts->rk) {
        rd_kafka_resume_partitions(parts->rk, list);
        /* Those of which nothing was read yet stay where the group left off. */
        for (int i = list->cnt - 1; i >= 0; i--)
            if (list->elems[i].offset < 0)
                rd_kafka_topic_partition_list_del_by_idx(list, i);
        if (list->cnt > 0)
            seek_list(parts, list);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static void hold(struct kafka_part *part, enum kafka_hold why,
                 rd_kafka_topic_partition_list_t **list)
{
    if (part->holds == 0)
        list_add(list, part);
    part->holds |= why;
}

static void let_go(struct kafka_part *part, enum kafka_hold why,
                   rd_kafka_topic_partition_list_t **list)
{
    if (part->holds == (unsigned)why)
        list_add(list, part)->offset = part->offsets.position;
    part->holds &= ~(unsigned)why;
}

void kafka_part_hold(struct kafka_part *part, enum kafka_hold why)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    hold(part, why, &list);
    pause_list(part->parts, list);
}

void kafka_part_let_go(struct kafka_part *part, enum kafka_hold why)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    let_go(part, why, &list);
    resume_list(part->parts, list);
}

void kafka_parts_hold(struct kafka_parts *parts, enum kafka_hold why)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    struct kafka_part *part;

    TAILQ_FOREACH (part, &parts->list, link)
        hold(part, why, &list);
    pause_list(parts, list);
}

void kafka_parts_let_go(struct kafka_parts *parts, enum kafka_hold why)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    struct kafka_part *part;

    TAILQ_FOREACH (part, &parts->list, link)
        let_go(part, why, &list);
    resume_list(parts, list);
}

/* -------------------------------------------------------------------- reading */

/* Not before every open read is answered: else two reads of one record would be open. */
static void rewind_soon(struct kafka_part *part)
{
    kafka_part_hold(part, HOLD_REWIND);
    if (part->offsets.open == 0 && !timer_is_set(part->rewind))
        timer_set(part->rewind, kafka_backoff_ms(++part->rewinds));
}

static void on_rewind(void *arg)
{
    struct kafka_part *part = arg;
    int64_t offset = kafka_offsets_rewind(&part->offsets);

    if (part->back_to >= 0 && part->back_to < offset)
        offset = part->back_to;
    part->back_to = -1;
    part->offsets.position = offset;
    part->holds &= ~(unsigned)HOLD_WINDOW; /* the window is empty */
    log_debug(part->parts->who, "%s/%" PRId32 ": reading again from offset %" PRId64,
              part->topic, part->partition, offset);
    kafka_part_let_go(part, HOLD_REWIND);
}

struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset)
{
    struct kafka_offsets *o = &part->offsets;

    if (part->holds) {
        if (o->position < 0)
            o->position = offset;
        return NULL;
    }
    if (offset < o->position) {
        /* A topic made anew, or cut off; its records before this one are open or done. */
        log_limited(&part->parts->went_back, LOG_WARN, part->parts->who,
                    "%s/%" PRId32 ": offset %" PRId64 " after %" PRId64
                    "; the topic was made anew or cut off",
                    part->topic, part->partition, offset, o->position - 1);
        part->back_to = offset;
        rewind_soon(part);
        return NULL;
    }
    struct kafka_read *read = kafka_offsets_read(o, offset, part);
    if (o->count >= WINDOW_MAX)
        kafka_part_hold(part, HOLD_WINDOW);
    return read;
}

void kafka_part_answer(struct kafka_read *read, bool stored)
{
    struct kafka_part *part = read->owner;
    struct kafka_parts *parts = part->parts;
    const int64_t offset = read->offset;

    if (kafka_offsets_answer(&part->offsets, read, stored)) {
        part->dirty = parts->dirty = true;
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
                    " could not be stored; it will be read again",
                    part->topic, part->partition, offset);
    if (part->offsets.torn || part->back_to >= 0)
        rewind_soon(part);
    else if (part->offsets.count < WINDOW_MAX / 2 && (part->holds & HOLD_WINDOW))
        kafka_part_let_go(part, HOLD_WINDOW);
}

void kafka_parts_store(struct kafka_parts *parts)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    struct kafka_part *part;

    if (!parts->dirty || parts->rk == NULL)
        return;
    parts->dirty = false;
    TAILQ_FOREACH (part, &parts->list, link) {
        if (part->dirty)
            list_add(&list, part)->offset = part->offsets.done; /* the next to read */
        part->dirty = false;
    }
    if (list == NULL)
        return;
    rd_kafka_resp_err_t code = rd_kafka_offsets_store(parts->rk, list);
    if (code) /* _STATE: lost in this moment; its new owner reads from the last commit */
        log_limited(&parts->commits, LOG_WARN, parts->who, "offsets to commit: %s",
                    rd_kafka_err2str(code));
    rd_kafka_topic_partition_list_destroy(list);
}
