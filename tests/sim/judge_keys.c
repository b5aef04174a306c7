/* SPDX-License-Identifier: BSD-2-Clause */
/* judge_keys.c - which keys may remain in Redis when all jobs have left, and audits of
 * each bucket, also meanwhile. */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <fnmatch.h>
#include <stdlib.h>

enum { AUDIT_S = 600 };

/* The number of queues is unlimited, so a queue without jobs keeps only keys that expire.
 */
enum remains {
    STAYS,
    EXPIRES,     /* it has a time to live */
    WITH_LETTERS /* only if its bucket has dead letters; else it expires */
};

/* The first row that matches a key counts. {X/N}: of a route. */
static const struct row {
    const char *pattern;
    enum remains remains;
} rows[] = {
    {"tarry:meta", STAYS},
    {"tarry:alive", STAYS},
    {"tarry:states", STAYS},
    {"tarry:history", STAYS},  /* each save sets its time to live, but that may be lost */
    {"tarry:{*}:kv:*", STAYS}, /* of a source */
    {"tarry:{*}:queues", STAYS},     /* entries are removed after option `forget` */
    {"tarry:{*}:ids", WITH_LETTERS}, /* of a sink with global ids */
    {"tarry:{lab}:sums", STAYS},     /* of the same: the last claim */
    {"tarry:{*}:pool", WITH_LETTERS},
    {"tarry:{*}:error", WITH_LETTERS},
    {"tarry:{*}:tries", WITH_LETTERS},
    {"tarry:{*}:ended", WITH_LETTERS},
    {"tarry:{*}:*:pool", WITH_LETTERS},
    {"tarry:{*}:*:error", WITH_LETTERS},
    {"tarry:{*}:*:tries", WITH_LETTERS},
    {"tarry:{*}:*:ended", WITH_LETTERS},
    {"tarry:{*}:*:sums", WITH_LETTERS},
    {"tarry:{l*:*}:sums", WITH_LETTERS},
    {"tarry:{lines:q}:ingest", EXPIRES},
    {"tarry:{*/[0-9]}:sums", STAYS},
    {"tarry:{*/[0-9]}:ingest", STAYS},
    {"tarry:{*/[0-9]}:lead", STAYS},
    {"tarry:{*/[0-9]}:place", WITH_LETTERS},
    {"tarry:{*}:outcomes", EXPIRES},
    {"tarry:{*}:*:outcomes", EXPIRES},
    {"tarry:{*}:pace", EXPIRES},
    {"tarry:{*}:targets", EXPIRES},
};

static struct buf command(const char *name, const char *key)
{
    struct buf reply = {0};
    redis_model_command(server_of(slice_of(key))->redis,
                        (const struct slice[]){slice_of(name), slice_of(key)}, 2, &reply);
    return reply;
}

static long long number_of(const char *name, const char *key)
{
    struct buf reply = command(name, key);
    long long n = strtoll(buf_str(&reply) + 1, NULL, 10);
    buf_free(&reply);
    return n;
}

static long long of_bucket(const char *name, const char *key, const char *part)
{
    char other[96];
    snprintf(other, sizeof(other), "%.*s:%s", (int)(strrchr(key, ':') - key), key, part);
    return number_of(name, other);
}

static void check_key(const char *key)
{
    const struct row *row = rows, *end = rows + sizeof(rows) / sizeof(rows[0]);
    while (row < end && fnmatch(row->pattern, key, 0) != 0)
        row++;
    long long ttl = number_of("PTTL", key);
    tell("the key %s remains%s", key, ttl < 0 ? "" : ", and expires");
    if (row == end)
        broken("the key %s remains in Redis", key);
    else if (row->remains == EXPIRES && ttl < 0)
        broken("the key %s never expires", key);
    else if (row->remains == WITH_LETTERS && ttl < 0 && !strstr(key, "}:ids") &&
             of_bucket("ZCARD", key, "error") == 0)
        broken("the key %s remains, and never expires, but there is no dead letter", key);
    if (of_bucket("HLEN", key, "pool") != of_bucket("ZCARD", key, "error") ||
        of_bucket("ZCARD", key, "far") > 0)
        broken("G8: jobs remain beside %s: %lld in all, %lld dead letters, %lld slots",
               key, of_bucket("HLEN", key, "pool"), of_bucket("ZCARD", key, "error"),
               of_bucket("ZCARD", key, "far"));
}

static void audit_of(const char *key)
{
    char base[96], ids[96];
    const char *sink = strchr(key, '{'), *end = strchr(key, '}');
    if (fnmatch("*:sums", key, 0) != 0 || sink == NULL || end == NULL)
        return;
    snprintf(base, sizeof(base), "%.*s", (int)(strrchr(key, ':') - key), key);
    snprintf(ids, sizeof(ids), "%.*s:ids", (int)(end + 1 - key), key);
    bool of_sink = strcspn(sink, "/:") > (size_t)(end - sink) && end[1] == ':' &&
                   strchr(end + 2, ':') == NULL; /* the sums of all its queues */
    bool of_route = end[-2] == '/';
    bool by_key = world.plan.by_key &&
                  (strncmp(sink, "{log/", 5) == 0 || strncmp(sink, "{web/", 5) == 0);
    if (!of_sink)
        judge_bucket(base, end[1] == ':' && strchr(end + 2, ':') ? ids : NULL,
                     !of_route ? "q"
                     : by_key  ? "k"
                               : "");
}

/* A node that was replaced keeps its data; the keys of a slot that moves are on two. */
static bool is_whole(const char *key, const struct server *s)
{
    return server_of(slice_of(key)) == s && !cluster_moves(slice_of(key));
}

static void each_key(void (*fn)(const char *key))
{
    char *save = NULL;
    for (unsigned i = 0; i < world.plan.servers && !world.failed; i++) {
        struct buf reply = {0};
        server_tick(&servers[i]);
        redis_model_command(servers[i].redis,
                            (const struct slice[]){SLICE_LIT("KEYS"), SLICE_LIT("*")}, 2,
                            &reply);
        /* *N, then $LENGTH and the text of each */
        for (char *line = strtok_r((char *)buf_str(&reply), "\r\n", &save);
             line && !world.failed; line = strtok_r(NULL, "\r\n", &save))
            if (*line != '*' && *line != '$' && is_whole(line, &servers[i]))
                fn(line);
        buf_free(&reply);
    }
}

void judge_keys(void)
{
    each_key(check_key);
}

void judge_audit(void)
{
    each_key(audit_of);
}

static void audit_again(void *arg, int64_t number)
{
    (void)arg, (void)number;
    if (servers_are_up())
        judge_audit();
    after(AUDIT_S * SECOND, audit_again, NULL, 0);
}

void judge_audits(void)
{
    after(AUDIT_S * SECOND, audit_again, NULL, 0);
}
