/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/metrics.h"
#include "bridge/engine/bridge.h"

#include <stdio.h>

static const char name[] = "tarry_source_lag_records";

struct lags { /* of one source */
    const struct source *src;
    struct buf *out;
    unsigned partitions;
    int64_t others; /* records of the partitions that have no line of their own */
};

static void print(const struct lags *l, const char *topic, const char *partition,
                  int64_t records)
{
    metric_number(l->out, name,
                  LABELS({"source", l->src->conf->name}, {"topic", topic},
                         {"partition", partition}),
                  records);
}

static void on_lag(void *arg, const char *topic, int32_t partition, int64_t records)
{
    struct lags *l = arg;
    char number[16];
    snprintf(number, sizeof(number), "%d", (int)partition);
    if (l->partitions++ < METRICS_PARTITIONS_MAX)
        print(l, topic, number, records);
    else
        l->others += records;
}

void metrics_print_lag(const struct bridge *bridge, struct buf *out)
{
    metric_head(out, name, "gauge",
                "Records of the partition that Redis has not stored yet, for the "
                "partitions that this instance reads.");
    EACH_SOURCE (bridge, src) {
        struct lags l = {.src = src, .out = out};
        if (src->ops->lag && src->run == PART_RUNS)
            src->ops->lag(src->self, on_lag, &l);
        if (l.partitions > METRICS_PARTITIONS_MAX)
            print(&l, "others", "others", l.others);
    }
}
