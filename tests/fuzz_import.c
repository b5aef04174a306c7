/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_import.c - libFuzzer: any bytes as data in the originals' Redis, which `tarry
 * import` reads: MessagePack, JSON, entries of lists and timers, keys.
 */
#include "bridge/import/import.h"
#include "sources/delayqueue/delayqueue.h"
#include "sources/lmstfy/lmstfy_job.h"
#include "tests/fuzz.h"

static bool is_within(struct slice part, struct slice all)
{
    return part.n == 0 || (part.p >= all.p && part.p + part.n <= all.p + all.n);
}

static void check_value(struct slice bytes)
{
    struct delayqueue_value d;

    if (delayqueue_value_read(bytes, &d) == 0)
        must(is_within(d.topic, bytes) && is_within(d.id, bytes) &&
             is_within(d.body, bytes) && d.id.n > 0);
}

static void check_places(struct slice bytes)
{
    struct lmstfy_place place;

    if (lmstfy_place_in_list(bytes, &place) == 0)
        must(is_within(place.id, bytes));
    if (lmstfy_place_in_timer(bytes, &place) == 0)
        must(is_within(place.ns, bytes) && is_within(place.queue, bytes) &&
             is_within(place.id, bytes));
    for (int with_id = 0; with_id < 2; with_id++)
        if (lmstfy_place_in_key(bytes, with_id, &place) == 0)
            must(is_within(place.ns, bytes) && is_within(place.queue, bytes));
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice all = {(const char *)bytes, n};

    check_value(all);
    check_places(all);
    return 0;
}
