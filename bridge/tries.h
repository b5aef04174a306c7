/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tries.h - what the :tries hash keeps of a job that has failed.
 *
 * Text: ATTEMPTS|REASON|DEAD_TRIES|FIRST_MS|LAST_MS|ERROR. The number of attempts comes
 * first, because lua/reap.lua raises it. A reason means that the job is given up: on its
 * way to the dead-letter sink, or in the error bucket.
 */
#ifndef BRIDGE_TRIES_H
#define BRIDGE_TRIES_H

#include "bridge/buf.h"
#include "bridge/slice.h"

#include <stdint.h>

struct tries {
    unsigned attempts;         /* finished ones */
    char reason[16];           /* one of reason.h; "": still to be delivered */
    unsigned dead_tries;       /* hand-overs to the dead-letter sink that failed */
    int64_t first_ms, last_ms; /* of the attempts */
    char error[200];           /* the last one, one line */
};

/* An empty text is a job that never failed. What does not parse counts as no attempt. */
void tries_parse(struct slice text, struct tries *t);
void tries_format(const struct tries *t, struct buf *out); /* replaces out's content */
/* Copies, cut to fit; control characters become spaces. */
void tries_set_error(struct tries *t, const char *why);
void tries_set_reason(struct tries *t, const char *reason);

#endif
