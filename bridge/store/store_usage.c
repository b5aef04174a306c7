/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_usage.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"
#include "bridge/store/store.h"
#include "bridge/store/store_lane.h"

#include <stdio.h>
#include <stdlib.h>

/* One at a time: Redis 6 takes no more. */
static const char *const sections[] = {"memory", "clients", "keyspace"};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

struct usage_call {
    struct queue_usage sum;
    unsigned db, open;
    bool torn; /* an answer is missing */
    usage_cb *cb;
    void *arg;
};

static void end(void *arg)
{
    struct usage_call *call = arg;
    call->cb(call->arg, call->torn ? NULL : &call->sum);
    free(call);
}

/* The number behind `name` in a line that begins with `line`; 0: there is none. */
static int64_t number_in(const char *text, const char *line, const char *name)
{
    for (const char *at = text; at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, strlen(line)) != 0)
            continue;
        const char *number = strstr(at, name), *stop = strchr(at, '\n');
        return number && (stop == NULL || number < stop)
                   ? strtoll(number + strlen(name), NULL, 10)
                   : 0;
    }
    return 0;
}

static void on_info(void *arg, const struct redisReply *reply)
{
    struct usage_call *call = arg;
    struct queue_usage *sum = &call->sum;
    const char *text = redis_text(reply).p; /* ends with a NUL */
    char db[24];
    snprintf(db, sizeof(db), "db%u:", call->db);
    call->torn |= text == NULL;
    sum->used_bytes += number_in(text, "used_memory:", ":");
    sum->max_bytes += number_in(text, "maxmemory:", ":");
    sum->clients += number_in(text, "connected_clients:", ":");
    sum->blocked_clients += number_in(text, "blocked_clients:", ":");
    sum->keys += number_in(text, db, "keys=");
    sum->expiring_keys += number_in(text, db, "expires=");
    if (--call->open == 0)
        end(call);
}

void store_usage(struct store *st, usage_cb *cb, void *arg)
{
    struct usage_call *call = mem_alloc(sizeof(*call));
    *call = (struct usage_call){.db = st->conf.redis.url.db, .cb = cb, .arg = arg};
    if (!store_is_up(st)) {
        call->torn = true;
        loop_defer(end, call);
        return;
    }
    call->open = st->node_count * SECTIONS;
    for (unsigned i = 0; i < st->node_count; i++) {
        for (unsigned k = 0; k < SECTIONS; k++) {
            const struct slice args[] = {SLICE_LIT("INFO"), slice_of(sections[k])};
            redis_command(st->nodes[i]->redis, args, 2, on_info, call);
        }
    }
}
