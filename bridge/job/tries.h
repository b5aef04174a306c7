/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tries.h - what the :tries hash keeps of a job that has failed.
 *
 * Text: ATTEMPTS|STATE|DEAD_TRIES/STATUS/REPLAYS|FIRST_MS|LAST_MS|ERROR. The number of
 * attempts comes first, because lua/reap.lua raises it. STATE is empty, or
 *   cancelled  a job in flight that is dropped when it would be put back (lua/cancel.lua)
 *   paced      a job put back until its slot at its target's rate, which is taken already
 *   or a reason of reason.h: given up, on its way to the dead-letter sink or in the error
 *   bucket.
 */
#ifndef BRIDGE_TRIES_H
#define BRIDGE_TRIES_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct tries {
    unsigned attempts;         /* finished ones */
    char reason[16];           /* one of reason.h; "": still to be delivered */
    bool cancelled, paced;     /* the other states */
    unsigned dead_tries;       /* hand-overs to the dead-letter sink that failed */
    int status;                /* of the last answer; 0: none */
    unsigned replays;          /* times that an operator brought it back */
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
