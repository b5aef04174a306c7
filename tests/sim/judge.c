/* SPDX-License-Identifier: BSD-2-Clause */
/* judge.c - what must hold of the keys in Redis when all jobs have left: the sums, and
 * lua/audit.lua. */
#include "tests/sim/world.h"

#include "bridge/store/calls.h"

#include <stdlib.h>

/* In one step. A larger bucket of a seed of volume is audited when its jobs have left. */
enum { AUDIT_MAX = 5000 };

static long long reply_number(const struct buf *reply)
{
    return reply->n > 1 && reply->p[0] == ':' ? strtoll(reply->p + 1, NULL, 10) : -1;
}

static long long count(const char *command, const char *key)
{
    struct buf out = {0};
    redis_model_command(server_of(slice_of(key))->redis,
                        (const struct slice[]){slice_of(command), slice_of(key)}, 2,
                        &out);
    long long n = reply_number(&out);
    buf_free(&out);
    return n;
}

static void audit(const char *pool, const char *ids, const char *kind, const char *part)
{
    struct redis_model *redis = server_of(slice_of(pool))->redis;
    struct buf sha = {0}, out = {0};
    const struct slice load[] = {SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
                                 slice_of(script_texts[SCRIPT_AUDIT])};
    redis_model_command(redis, load, 3, &sha);
    const struct slice call[] = {
        SLICE_LIT("EVALSHA"), {sha.p + sizeof("$40\r\n") - 1, 40},
        SLICE_LIT("2"),       slice_of(pool),
        slice_of(ids),        SLICE_LIT(""),
        slice_of(kind),       slice_of(part),
        SLICE_LIT("0"),       SLICE_LIT("1000000"),
        SLICE_LIT(""),        SLICE_LIT("tarry:wake"),
        SLICE_LIT("judge")};
    redis_model_command(redis, call, sizeof(call) / sizeof(call[0]), &out);
    /* A finding: more than the nine fixed fields. */
    if (out.n < 4 || strncmp(out.p, "*9\r\n", 4) != 0)
        broken("audit of %s, %s: %s", pool, part, buf_str(&out));
    buf_free(&sha);
    buf_free(&out);
}

void judge_bucket(const char *base, const char *ids, const char *kind)
{
    static const char *const parts[] = {"delay", "unack", "error", "done",  "held",
                                        "place", "lead",  "away",  "tries", "ended",
                                        "ttl",   "far",   "pool",  "sums"};
    char pool[96], whole[96];
    snprintf(pool, sizeof(pool), "%s:pool", base);
    snprintf(whole, sizeof(whole), "%s:whole", base);
    if (count("HLEN", pool) > AUDIT_MAX)
        return;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !world.failed; i++)
        audit(pool, ids ? ids : whole, kind, parts[i]);
}

#define QUEUE "tarry:{lines:q}"
static const char *const routes[] = {"log", "web"};

static long long count_of_routes(const char *command, const char *part)
{
    long long n = 0;
    for (size_t r = 0; r < 2 * reconf.buckets_max; r++) {
        char key[64];
        snprintf(key, sizeof(key), "tarry:{%s/%zu}:%s", routes[r % 2], r / 2, part);
        n += count(command, key);
    }
    return n;
}

bool judge_is_quiet(void)
{
    return count_of_routes("HLEN", "pool") == count_of_routes("ZCARD", "error") &&
           count_of_routes("ZCARD", "far") == 0 && count("HLEN", QUEUE ":pool") == 0 &&
           count("ZCARD", QUEUE ":far") == 0;
}

void judge_redis(int64_t dead)
{
    long long pool = count_of_routes("HLEN", "pool"),
              error = count_of_routes("ZCARD", "error");
    judge_audit();
    if (!world.failed && (!judge_is_quiet() || error > dead))
        broken(
            "G8: %lld bodies and %lld dead letters remain in Redis; %lld were rejected",
            pool, error, (long long)dead);
}
