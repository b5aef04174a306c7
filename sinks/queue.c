/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.c - the queue sink: its jobs wait in Redis until consumers pull them.
 *
 * The core's pull queues (bridge/queue.h) deliver the jobs. The options here set
 * their rules.
 */
#include "bridge/plugin.h"

enum { LEASE_MIN_MS = 1, TRIES_MAX = 1000000 };
#define HUNDRED_YEARS_MS (INT64_C(36525) * 24 * 3600 * 1000)
#define WEEK_MS (INT64_C(7) * 24 * 3600 * 1000)

#define AT(field) offsetof(struct queue_rules, field)
static const struct opt opts[] = {
    {"lease", OPT_MS, AT(lease_ms), "30s",
     "Default lease: time until a pulled job becomes available again if the consumer "
     "does not acknowledge it.",
     .min = LEASE_MIN_MS, .max = WEEK_MS},
    {"tries", OPT_INT, AT(tries), "0",
     "Default of the maximum number of deliveries of a job; 0: no limit.",
     .max = TRIES_MAX},
    {"ttl", OPT_MS, AT(ttl_ms), "0",
     "Default time from the due time of a job until it expires; 0: never.",
     .max = HUNDRED_YEARS_MS},
    {"keep", OPT_MS, AT(keep_ms), "0",
     "How long a finished job can still be looked up; 0: not at all.",
     .max = HUNDRED_YEARS_MS},
    {"forget", OPT_MS, AT(forget_ms), "1h",
     "How long an empty queue is still listed; 0: until it is destroyed.",
     .max = HUNDRED_YEARS_MS},
    {"names_max", OPT_INT, AT(names_max), "100000",
     "Maximum number of queues; tarry rejects a job for a further queue; 0: no limit.",
     .max = INT64_C(1000000000)},
    {"bury", OPT_BOOL, AT(bury), "true",
     "Whether a job without remaining tries becomes a dead letter. If false, the job "
     "ends.",
     .min = 0},
    {"global_ids", OPT_BOOL, AT(global_ids), "false",
     "Whether an id identifies a single job across all queues of this sink.", .min = 0},
    {"pool", OPT_STR, AT(pool), NULL,
     "Name of the pool in pools: { } that stores the jobs. Default: redis: { }.",
     .optional = true},
    {0}};

static const struct queue_rules *queue(const void *self)
{
    return self;
}

static int start(struct sink *sink, void *self, struct err *err)
{
    (void)sink;
    (void)self;
    (void)err;
    return 0;
}

static void stop(struct sink *sink, void *self)
{
    (void)self;
    sink_stopped(sink);
}

const struct sink_ops sink_queue = {
    .name = "queue",
    .help = "Stores jobs for consumers, which pull them through an HTTP API.",
    .size = sizeof(struct queue_rules),
    .opts = opts,
    .target = "{topic}",
    .max_in_flight = 1000,
    .queue = queue,
    .start = start,
    .stop = stop,
};
