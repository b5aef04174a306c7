/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/sentinel.h"
#include "bridge/base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool same_place(const struct sentinel_answer *a, const char *host,
                       const char *port)
{
    return host != NULL && strcmp(a->host, host) == 0 && strcmp(a->port, port) == 0;
}

/* Returns the number of answers with the same address and an epoch of at least this
 * value. */
static size_t votes(const struct sentinel_answer *answers, size_t count, size_t which,
                    int64_t epoch_min)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (answers[i].epoch >= epoch_min)
            n += same_place(&answers[i], answers[which].host, answers[which].port);
    return n;
}

/* Return the index of the best answer; -1: there is none. */
static int best(const struct sentinel_belief *belief,
                const struct sentinel_answer *answers, size_t count)
{
    int64_t top = -1;
    for (size_t i = 0; i < count; i++)
        top = answers[i].epoch > top ? answers[i].epoch : top;
    int chosen = -1;
    size_t most = 0;
    for (size_t i = 0; top >= 0 && i < count; i++) {
        if (answers[i].epoch != top)
            continue;
        /* Two for each vote, plus one for the address that is already believed. */
        size_t weight = 2 * votes(answers, count, i, top) +
                        same_place(&answers[i], belief->host, belief->port);
        if (weight > most) {
            most = weight;
            chosen = (int)i;
        }
    }
    return chosen;
}

int sentinel_believe(struct sentinel_belief *belief,
                     const struct sentinel_answer *answers, size_t count, int64_t now_ms)
{
    int chosen = best(belief, answers, count);
    if (chosen < 0)
        return -1;
    const struct sentinel_answer *answer = &answers[chosen];
    if (answer->epoch < belief->epoch) {
        if (2 * votes(answers, count, (size_t)chosen, 0) <= count) {
            belief->renewed_ms = 0;
            return -1;
        }
        if (belief->renewed_ms == 0)
            belief->renewed_ms = now_ms;
        return now_ms - belief->renewed_ms >= SENTINEL_RENEWED_MS ? chosen : -1;
    }
    belief->renewed_ms = 0;
    bool same =
        answer->epoch == belief->epoch && same_place(answer, belief->host, belief->port);
    return same ? -1 : chosen;
}

void sentinel_belief_take(struct sentinel_belief *belief,
                          const struct sentinel_answer *answer)
{
    sentinel_belief_free(belief);
    belief->epoch = answer->epoch;
    belief->host = mem_strdup(answer->host);
    belief->port = mem_strdup(answer->port);
}

void sentinel_belief_free(struct sentinel_belief *belief)
{
    free(belief->host);
    free(belief->port);
    *belief = (struct sentinel_belief){.epoch = -1};
}

bool sentinel_promotes(struct slice state)
{
    static const char *const states[] = {"select_slave", "send_slaveof_noone",
                                         "wait_promotion"};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (slice_is(state, states[i]))
            return true;
    return false;
}
