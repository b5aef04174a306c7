/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part_lag.c - how many records of each partition Redis has not stored yet.
 *
 * The end of a partition is the one that the last fetch reported, which librdkafka keeps:
 * no request is sent. So the lag of a partition that is not fetched, for example while
 * the source is paused, does not grow. Markers of transactions count as records.
 */
#include "sources/kafka/kafka_part.h"

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

void kafka_parts_lag(const struct kafka_parts *parts, lag_cb *cb, void *arg)
{
    const struct kafka_part *part;

    if (parts->rk == NULL)
        return;
    TAILQ_FOREACH (part, &parts->list, link) {
        int64_t records = part->revoked ? -1 : lag_of(part);
        if (records >= 0)
            cb(arg, part->topic, part->partition, records);
    }
}
