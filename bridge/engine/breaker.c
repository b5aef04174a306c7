/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/breaker.h"

#include <string.h>

static int64_t slice_ms(const struct breaker_conf *conf)
{
    return conf->window_ms >= BREAKER_SLICES ? conf->window_ms / BREAKER_SLICES : 1;
}

/* Clear the slices that have left the window. */
static void slide(struct breaker *b, const struct breaker_conf *conf, int64_t now_ms)
{
    if (now_ms < b->newest_ends_ms)
        return;
    int64_t length_ms = slice_ms(conf), now = now_ms / length_ms;
    int64_t passed = now - b->newest;
    for (int64_t i = 1; i <= passed && i <= BREAKER_SLICES; i++)
        b->slices[(b->newest + i) % BREAKER_SLICES] = (struct breaker_slice){0, 0};
    if (passed <= 0)
        return;
    b->newest = now;
    b->newest_ends_ms = (now + 1) * length_ms;
}

int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms)
{
    return b->state == BREAKER_OPEN && b->until_ms > now_ms ? b->until_ms - now_ms : 0;
}

uint32_t breaker_room(const struct breaker *b, uint32_t under_way)
{
    switch (b->state) {
    case BREAKER_HALF_OPEN:
        return 0;
    case BREAKER_OPEN:
        return under_way == 0;
    default:
        return UINT32_MAX;
    }
}

bool breaker_start(struct breaker *b)
{
    if (b->state != BREAKER_OPEN)
        return false;
    b->state = BREAKER_HALF_OPEN;
    return true;
}

void breaker_not_started(struct breaker *b)
{
    if (b->state == BREAKER_HALF_OPEN)
        b->state = BREAKER_OPEN; /* the next job may be the probe */
}

struct breaker_slice breaker_sum(const struct breaker *b, const struct breaker_conf *conf,
                                 int64_t now_ms)
{
    struct breaker_slice sum = {0, 0};
    int64_t oldest = now_ms / slice_ms(conf) - BREAKER_SLICES + 1;
    for (int64_t n = b->newest; n >= 0 && n >= oldest && n > b->newest - BREAKER_SLICES;
         n--) {
        sum.all += b->slices[n % BREAKER_SLICES].all;
        sum.failed += b->slices[n % BREAKER_SLICES].failed;
    }
    return sum;
}

static void rest(struct breaker *b, const struct breaker_conf *conf, int64_t now_ms)
{
    b->state = BREAKER_OPEN;
    b->until_ms = now_ms + conf->rest_ms;
}

/* Handle the outcome of the probe. */
static enum breaker_change judge_probe(struct breaker *b, const struct breaker_conf *conf,
                                       bool failed, int64_t now_ms)
{
    if (failed) {
        rest(b, conf, now_ms);
        return BREAKER_REOPENED;
    }
    b->state = BREAKER_CLOSED;
    memset(b->slices, 0, sizeof(b->slices));
    return BREAKER_HAS_CLOSED;
}

enum breaker_change breaker_outcome(struct breaker *b, const struct breaker_conf *conf,
                                    bool failed, int64_t now_ms)
{
    slide(b, conf, now_ms);
    if (b->state == BREAKER_OPEN)
        return BREAKER_UNCHANGED;
    if (b->state == BREAKER_HALF_OPEN)
        return judge_probe(b, conf, failed, now_ms);
    struct breaker_slice *slice = &b->slices[b->newest % BREAKER_SLICES];
    slice->all++;
    slice->failed += failed;
    if (!failed || conf->share <= 0)
        return BREAKER_UNCHANGED;
    struct breaker_slice sum = breaker_sum(b, conf, now_ms);
    if (sum.all < conf->least || sum.failed < conf->share * sum.all)
        return BREAKER_UNCHANGED;
    rest(b, conf, now_ms);
    return BREAKER_HAS_OPENED;
}

bool breaker_is_unused(const struct breaker *b, const struct breaker_conf *conf,
                       int64_t now_ms)
{
    switch (b->state) {
    case BREAKER_HALF_OPEN:
        return false;
    case BREAKER_OPEN:
        return now_ms > b->until_ms + conf->rest_ms + conf->window_ms;
    default:
        return breaker_sum(b, conf, now_ms).all == 0;
    }
}
