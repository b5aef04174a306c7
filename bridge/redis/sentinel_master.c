/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/sentinel.h"
#include "bridge/base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool same_address(const struct sentinel_answer *a, const char *host,
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
            n += same_address(&answers[i], answers[which].host, answers[which].port);
    return n;
}

/* Return the index of the best answer; -1: there is none. */
static int best(const struct sentinel_master *master,
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
        /* Two for each vote, plus one for the address that is already chosen. */
        size_t weight = 2 * votes(answers, count, i, top) +
                        same_address(&answers[i], master->host, master->port);
        if (weight > most) {
            most = weight;
            chosen = (int)i;
        }
    }
    return chosen;
}

int sentinel_choose(struct sentinel_master *master, const struct sentinel_answer *answers,
                    size_t count, int64_t now_ms)
{
    int chosen = best(master, answers, count);
    if (chosen < 0)
        return -1;
    const struct sentinel_answer *answer = &answers[chosen];
    if (answer->epoch < master->epoch) {
        if (2 * votes(answers, count, (size_t)chosen, 0) <= count) {
            master->older_since_ms = 0;
            return -1;
        }
        if (master->older_since_ms == 0)
            master->older_since_ms = now_ms;
        return now_ms - master->older_since_ms >= SENTINEL_RESET_MS ? chosen : -1;
    }
    master->older_since_ms = 0;
    bool same = answer->epoch == master->epoch &&
                same_address(answer, master->host, master->port);
    return same ? -1 : chosen;
}

void sentinel_master_set(struct sentinel_master *master,
                         const struct sentinel_answer *answer)
{
    sentinel_master_free(master);
    master->epoch = answer->epoch;
    master->host = mem_strdup(answer->host);
    master->port = mem_strdup(answer->port);
}

void sentinel_master_free(struct sentinel_master *master)
{
    free(master->host);
    free(master->port);
    *master = (struct sentinel_master){.epoch = -1};
}

bool sentinel_is_promoting(struct slice state)
{
    static const char *const states[] = {"select_slave", "send_slaveof_noone",
                                         "wait_promotion"};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (slice_is(state, states[i]))
            return true;
    return false;
}
