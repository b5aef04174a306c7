/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit.h - submissions: from a source's job to a change of a bucket, and its answer;
 * back-pressure. submit.c implements source_submit() of plugin.h, query.c source_find()
 * and source_cancel().
 */
#ifndef BRIDGE_ENGINE_SUBMIT_H
#define BRIDGE_ENGINE_SUBMIT_H

#include "bridge/plugin.h"

#include <stdbool.h>
#include <stdint.h>

/* How long a producer that waits for an answer waits for Redis. */
enum { SUBMIT_ANSWER_MS = 8 * 1000 };

struct route_stats;
/* Count the answer of lua/cancel.lua in the statistics of the route, and return it. */
enum cancelled submit_note_cancel(struct route_stats *stats, char code);

struct flow {
    int64_t max_jobs, max_bytes; /* limits of submissions that Redis has not answered */
    int64_t jobs, bytes;
    bool paused;
};

/* Count a submission; then its answer. */
void flow_submitted(struct flow *f, int64_t bytes);
void flow_answered(struct flow *f, int64_t bytes);
/* Return whether sources must pause, so that memory stays bounded and tarry reads nothing
 * that it cannot store: at a limit, or if the store accepts no jobs. Once paused, they
 * resume below half of the limit. */
bool flow_wants_pause(const struct flow *f, bool store_accepts_jobs);

#endif
