/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_pause.c - pauses partitions, and resumes them at their positions.
 *
 * librdkafka (2.0.2) resumes a paused partition after the last record read, regardless of
 * earlier seeks. So each resume here is followed by a seek to our own position.
 * librdkafka drops records fetched in between.
 */
#include "sources/kafka/kafka_part.h"

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
        rd_kafka_error_t *error =
            list->cnt > 0 ? rd_kafka_seek_partitions(parts->rk, list, 0) : NULL;
        if (error)
            log_warn(parts->who, "cannot seek: %s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

/* Returns the offset to seek to: also of a record above the position, to compare it. */
static int64_t seek_offset(const struct kafka_part *part)
{
    const int64_t position = part->offsets.position;
    return part->probe_offset > position ? part->probe_offset : position;
}

/* Adds and removes reasons to pause part; part NULL: all partitions. */
static void set_pauses(struct kafka_parts *parts, struct kafka_part *part, unsigned more,
                       unsigned less)
{
    rd_kafka_topic_partition_list_t *paused = NULL, *resumed = NULL;
    const bool all = part == NULL;

    for (part = all ? TAILQ_FIRST(&parts->list) : part; part;
         part = all ? TAILQ_NEXT(part, link) : NULL) {
        const unsigned before = part->pauses;
        part->pauses = (before | more) & ~less;
        if (before == 0 && part->pauses != 0)
            list_add(&paused, part);
        else if (before != 0 && part->pauses == 0)
            list_add(&resumed, part)->offset = seek_offset(part);
    }
    pause_list(parts, paused);
    resume_list(parts, resumed);
}

void kafka_parts_pause(struct kafka_parts *parts, struct kafka_part *part,
                       enum kafka_pause_reason why)
{
    set_pauses(parts, part, why, 0);
}

void kafka_parts_resume(struct kafka_parts *parts, struct kafka_part *part,
                        enum kafka_pause_reason why)
{
    set_pauses(parts, part, 0, why);
}
