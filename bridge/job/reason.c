/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/job/reason.h"

#include <string.h>

static const char *const names[REASONS] = {
    [REASON_BAD_DELAY] = "bad-delay",
    [REASON_TOO_LONG] = "too-long",
    [REASON_BAD_ID] = "bad-id",
    [REASON_BAD_OP] = "bad-op",
    [REASON_BAD_TARGET] = "bad-target",
    [REASON_BAD_RETRY] = "bad-retry",
    [REASON_BAD_REPEAT] = "bad-repeat",
    [REASON_EXPIRED] = "expired",
    [REASON_LATE] = "late",
    [REASON_RETRIES] = "retries",
    [REASON_REJECTED] = "rejected",
    [REASON_OVERSIZE] = "oversize",
    [REASON_NO_ROUTE] = "no-route",
    [REASON_TOO_MANY] = "too-many-queues",
    [REASON_LOOP] = "loop",
    [REASON_UNDECODABLE] = "undecodable",
};

const char *reason_name(enum reason r)
{
    return names[r];
}

enum reason reason_find(const char *name)
{
    for (int i = 0; i < REASONS; i++)
        if (strcmp(names[i], name) == 0)
            return (enum reason)i;
    return REASON_UNDECODABLE;
}
