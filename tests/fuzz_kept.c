/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_kept.c - libFuzzer: any bytes as tarry's texts in Redis, and as Redis' texts about
 * itself: tries, bucket counts, instances, INFO. A valid text must be written and read
 * again unchanged.
 */
#include "bridge/engine/membership.h"
#include "bridge/base/unpack.h"
#include "bridge/job/tries.h"
#include "bridge/engine/meta.h"
#include "bridge/redis/redis_probe.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static void check_tries(struct slice text)
{
    struct tries t, again;
    struct buf out = {0}, twice = {0};

    tries_parse(text, &t);
    tries_format(&t, &out);
    tries_parse(buf_slice(&out), &again);
    tries_format(&again, &twice);
    must(slice_eq(buf_slice(&out), buf_slice(&twice)) && again.attempts == t.attempts);
    for (size_t i = 0; i < out.n; i++)
        must((unsigned char)out.p[i] >= ' ');
    free(tries_parse_answer(text));
    buf_free(&out);
    buf_free(&twice);
}

static void check_buckets(struct slice text)
{
    char *value = fuzz_text(text);
    const int64_t n = meta_buckets_of(value);

    must(n >= 0 && n <= META_BUCKETS_MAX);
    free(value);
}

static void check_instances(struct slice text)
{
    enum { MEMBERS = 8 };
    struct slice members[MEMBERS];
    struct member_list list = {{0}, NULL, 0};
    size_t n = 0;

    while (text.n > 0 && n < MEMBERS)
        members[n++] = fuzz_take(&text, '\n');
    member_list_set(&list, members, n);
    must(list.n <= n);
    must(member_list_rank(&list, "a", "r", "r/0") <= list.n);
    member_list_set(&list, members, n / 2);
    member_list_fini(&list);
}

static void check_facts(struct slice text)
{
    struct redis_facts facts;
    struct durability want = {0};
    struct memory_mark mark = {0};
    char *option = fuzz_text(text);

    redis_facts_begin(&facts);
    redis_facts_info(&facts, text);
    redis_facts_config(&facts, SLICE_LIT("appendfsync"), text);
    redis_facts_config(&facts, SLICE_LIT("min-replicas-to-write"), text);
    redis_facts_persistence(&facts);
    durability_parse(option, &want, NULL);
    if (memory_mark_parse(option, &mark, NULL) == 0)
        must(mark.percent <= 100 && mark.bytes >= 0);
    memory_mark_passed(&mark, &facts, true);
    redis_facts_fit(&facts, &want, NULL);
    free(option);
}

/* A value with its content is as long as its parts. */
static void check_unpack(struct slice bytes)
{
    struct slice whole = bytes, rest = bytes;
    struct unpacked v;
    size_t values = 0;

    if (unpack_skip(&whole) < 0) {
        must(whole.p == bytes.p && whole.n == bytes.n);
        return;
    }
    for (uint64_t left = 1; left > 0; left--, values++) {
        must(unpack_next(&rest, &v) == 0);
        left += v.kind == UNPACK_ARRAY ? v.count
                : v.kind == UNPACK_MAP ? 2ull * v.count
                                       : 0;
    }
    must(rest.p == whole.p && values <= bytes.n);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice text = {(const char *)bytes, n};

    check_tries(text);
    check_buckets(text);
    check_instances(text);
    check_facts(text);
    check_unpack(text);
    must(redis_slot(text) < REDIS_SLOTS);
    return 0;
}
