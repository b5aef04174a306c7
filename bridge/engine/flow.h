/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flow.h - when sources pause and resume: memory stays bounded, and nothing is taken in
 * that could not be stored. Pure but for the calls that its owner makes on a change.
 */
#ifndef BRIDGE_ENGINE_FLOW_H
#define BRIDGE_ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

struct flow {
    int64_t max_jobs, max_bytes; /* submitted and not yet answered by Redis */
    int64_t jobs, bytes;
    bool paused;
};

void flow_took(struct flow *f, int64_t bytes);
void flow_gave(struct flow *f, int64_t bytes);
/* Whether sources should rest now: at a mark, or when the store takes no jobs; they go on
 * below half of the mark. */
bool flow_wants_pause(const struct flow *f, bool store_takes_jobs);

#endif
