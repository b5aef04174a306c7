/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_count.c - counts the jobs of a bucket by state, also of many buckets in one call;
 * reads the memory and key usage of the servers.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    MANY = 50, /* buckets per call, which blocks Redis for less than 1 ms */
    NUMBERS = 9
};

struct count_call {
    struct call call; /* first: freed together */
    unsigned n;
    struct count_ask asks[];
};

static void tell_one(const struct count_ask *ask, struct redisReply *const *at)
{
    ask->bucket->calls--;
    if (at == NULL) {
        ask->cb(ask->arg, NULL);
        return;
    }
    const struct counts counts = {
        .waiting = at[0]->integer,
        .in_flight = at[1]->integer,
        .dead = at[2]->integer,
        .overdue = at[3]->integer,
        .head_ms = at[4]->integer,
        .lease_ms = at[5]->integer,
        .now_ms = at[6]->integer,
        .far = at[7]->integer,
    };
    far_set_first(ask->bucket, at[8]->integer);
    ask->cb(ask->arg, &counts);
}

static void call_cb(struct call *call, const struct redisReply *r)
{
    const struct count_call *of = (struct count_call *)call;
    bool good = r && r->elements == (size_t)of->n * NUMBERS;
    for (unsigned i = 0; i < of->n; i++)
        tell_one(&of->asks[i], good ? r->element + (size_t)i * NUMBERS : NULL);
}

unsigned store_count_max(const struct store *st)
{
    return st->map ? 1 : MANY; /* in a cluster all keys of a call must lie in one slot */
}

void store_count_many(const struct count_ask *asks, unsigned n)
{
    struct store *st = asks[0].bucket->store;
    struct count_call *call = mem_alloc(sizeof(*call) + n * sizeof(call->asks[0]));
    struct slice keys[MANY + 1];
    unsigned count = 0;
    must(n > 0 && n <= store_count_max(st));
    call->n = n;
    memcpy(call->asks, asks, n * sizeof(asks[0]));
    for (unsigned i = 0; i < n; i++) {
        keys[count++] = asks[i].bucket->key[KEY_POOL];
        asks[i].bucket->calls++;
    }
    if (st->map)
        keys[count++] = asks[0].bucket->key[KEY_WHOLE];
    args_begin(&st->args, &st->scripts, SCRIPT_COUNT, keys, count);
    args_slice(&st->args, SLICE_LIT(""));
    call->call.script = SCRIPT_COUNT;
    call->call.call_cb = call_cb;
    call_send_to(&call->call, st,
                 bucket_is_up(asks[0].bucket) ? bucket_node(asks[0].bucket) : NULL);
}

void store_count(struct bucket *b, count_cb *cb, void *arg)
{
    store_count_many(&(const struct count_ask){b, cb, arg}, 1);
}

/* --- usage of the servers --- */

/* One section per command: Redis 6 accepts only one. */
static const char *const sections[] = {"memory", "clients", "keyspace"};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

struct usage_call {
    struct queue_usage sum;
    unsigned db, open;
    bool torn; /* a reply is missing */
    usage_cb *cb;
    void *arg;
};

static void end_usage(void *arg)
{
    struct usage_call *call = arg;
    call->cb(call->arg, call->torn ? NULL : &call->sum);
    free(call);
}

/* Return the number after `name` in the line that starts with `line`; 0: none. */
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
    const char *text = redis_text(reply).p; /* NUL-terminated */
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
        end_usage(call);
}

void store_usage(struct store *st, usage_cb *cb, void *arg)
{
    struct usage_call *call = mem_alloc(sizeof(*call));
    *call = (struct usage_call){.db = st->conf.redis.url.db, .cb = cb, .arg = arg};
    if (!store_is_up(st)) {
        call->torn = true;
        loop_defer(end_usage, call);
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
