/* SPDX-License-Identifier: BSD-2-Clause */
/* kafka_commit.c - which offsets of a partition may be committed, and their commit. */
#include "sources/kafka/kafka_part.h"

int64_t kafka_part_committable(struct kafka_part *part, int64_t answered_ms)
{
    const bool stays = part->rewind_to < 0 && !part->recreated && !part->rewinds_next &&
                       !(part->pauses & PAUSE_MARKS);

    if (!stays || answered_ms < 0)
        return -1;
    return part->ignore_lag && part->offsets.done >= 0
               ? part->offsets.done
               : kafka_lag_safe(&part->lag, loop_mono_ms(), answered_ms);
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
        if (part == NULL || row->offset >= part->commit_below)
            continue;
        if (lower == NULL)
            lower = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(lower, row->topic, row->partition)->offset =
            row->offset;
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
