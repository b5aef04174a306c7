/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flow.h - back-pressure: when sources pause and resume, so that memory stays bounded and
 * tarry reads nothing that it cannot store. Pure functions.
 */
#ifndef BRIDGE_ENGINE_FLOW_H
#define BRIDGE_ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

struct flow {
    int64_t max_jobs, max_bytes; /* limits of submissions that Redis has not answered */
    int64_t jobs, bytes;
    bool paused;
};

/* Count a submission; then its answer. */
void flow_submitted(struct flow *f, int64_t bytes);
void flow_answered(struct flow *f, int64_t bytes);
/* Return whether sources must pause: at a limit, or if the store accepts no jobs. Once
 * paused, they resume below half of the limit. */
bool flow_wants_pause(const struct flow *f, bool store_accepts_jobs);

#endif
