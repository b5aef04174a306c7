/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_admin.c - the commands of the Redis model that concern the server. */
#include "tests/sim/redis_model_internal.h"

#include <stdio.h>
#include <stdlib.h>

static void run_ping(struct call *c)
{
    buf_add_str(c->out, "+PONG\r\n");
}

static void run_ok(struct call *c)
{
    reply_ok(c);
}

static void run_time(struct call *c)
{
    char text[NUMBER_BYTES];
    reply_array(c, 2);
    for (size_t i = 0; i < 2; i++) {
        int64_t n = i ? c->m->now_us % 1000000 : c->m->now_us / 1000000;
        reply_bulk(c, (struct slice){text, int_text(text, n)});
    }
}

/* SCRIPT LOAD text, SCRIPT FLUSH */
static void run_script(struct call *c)
{
    if (arg_is(c, 1, "FLUSH")) {
        redis_model_flush_scripts(c->m);
        reply_ok(c);
    } else {
        must(arg_is(c, 1, "LOAD") && c->count == 3);
        model_script_load(c, c->args[2]);
    }
}

/* EVAL text numkeys key... arg... */
static void run_eval(struct call *c)
{
    struct buf sha = {0};
    struct call load = {.m = c->m, .out = &sha};
    model_script_load(&load, c->args[1]);
    c->args[1] = (struct slice){sha.p + sizeof("$40\r\n") - 1, 40};
    model_evalsha(c);
    buf_free(&sha);
}

static void run_publish(struct call *c)
{
    struct redis_model *m = c->m;
    reply_int(c, model_publish(m, c->args[1], c->args[2]));
    if (m->on_publish)
        m->on_publish(m->on_publish_arg, c->args[1], c->args[2]);
}

static void run_flushall(struct call *c)
{
    db_fini(&c->m->db);
    db_init(&c->m->db);
    reply_ok(c);
}

/* REPLICAOF host port, REPLICAOF NO ONE */
static void run_replicaof(struct call *c)
{
    struct slice *primary = c->m->primary;
    if (arg_is(c, 1, "NO"))
        c->m->faults.readonly = false;
    else
        redis_model_demote(c->m);
    for (int i = 0; i < 2; i++) {
        free((char *)primary[i].p);
        primary[i] = (struct slice){mem_strndup(c->args[i + 1].p, c->args[i + 1].n),
                                    c->args[i + 1].n};
    }
    reply_ok(c);
}

/* Its offsets count commands, not bytes. */
static void run_role(struct call *c)
{
    const struct redis_model *m = c->m;
    char text[24];
    if (model_is_replica(m)) {
        const struct slice host = m->primary[0].p ? m->primary[0] : SLICE_LIT("10.0.0.2"),
                           port = m->primary[1].p ? m->primary[1] : SLICE_LIT("6379");
        reply_array(c, 5);
        reply_bulk(c, SLICE_LIT("slave"));
        reply_bulk(c, host);
        reply_int(c, strtoll(port.p, NULL, 10));
        reply_bulk(c, SLICE_LIT("connect"));
        reply_int(c, -1);
        return;
    }
    reply_array(c, 3);
    reply_bulk(c, SLICE_LIT("master"));
    reply_int(c, (int64_t)m->offset);
    reply_array(c, model_replicas_with(m, 0));
    for (int i = 0; i < REDIS_REPLICAS_MAX; i++) {
        if (!m->replicas[i].online)
            continue;
        reply_array(c, 3);
        reply_bulk(c, SLICE_LIT("127.0.0.1"));
        snprintf(text, sizeof(text), "%d", 6380 + i);
        reply_bulk(c, slice_of(text));
        snprintf(text, sizeof(text), "%llu", (unsigned long long)m->replicas[i].has);
        reply_bulk(c, slice_of(text));
    }
}

static void add_replication(const struct redis_model *m, struct buf *text)
{
    unsigned n = 0;
    buf_addf(text, "role:%s\r\nconnected_slaves:%u\r\n",
             model_is_replica(m) ? "slave" : "master", model_replicas_with(m, 0));
    for (int i = 0; i < REDIS_REPLICAS_MAX; i++)
        if (m->replicas[i].online)
            buf_addf(text,
                     "slave%u:ip=127.0.0.1,port=%d,state=online,offset=%llu,lag=0\r\n",
                     n++, 6380 + i, (unsigned long long)m->replicas[i].has);
}

/* INFO section */
static void run_info(struct call *c)
{
    struct redis_model *m = c->m;
    struct buf text = {0};
    if (arg_is(c, 1, "memory"))
        buf_addf(&text,
                 "used_memory:%d\r\nmaxmemory:1000000\r\nmaxmemory_policy:noeviction\r\n",
                 m->faults.oom ? 2000000 : 500000);
    else if (arg_is(c, 1, "replication"))
        add_replication(m, &text);
    else if (arg_is(c, 1, "clients"))
        buf_addf(&text, "connected_clients:%u\r\nblocked_clients:0\r\n", m->conns->len);
    else if (arg_is(c, 1, "keyspace"))
        buf_addf(&text, "db0:keys=%u,expires=0,avg_ttl=0\r\n",
                 g_hash_table_size(m->db.keys));
    else if (arg_is(c, 1, "server"))
        buf_add_str(&text, "redis_version:7.0.15\r\n");
    else if (arg_is(c, 1, "persistence"))
        buf_add_str(&text, "aof_enabled:1\r\n");
    reply_bulk(c, buf_slice(&text));
    buf_free(&text);
}

/* CONFIG GET name, of what bridge/redis/redis_probe.c reads */
static void run_config(struct call *c)
{
    const struct {
        const char *name, *value;
    } params[] = {{"appendonly", "yes"},
                  {"appendfsync", c->m->fsync_always ? "always" : "everysec"},
                  {"no-appendfsync-on-rewrite", "no"},
                  {"save", ""},
                  {"min-replicas-to-write", "0"}};
    if (arg_is(c, 1, "SET")) {
        if (arg_is(c, 2, "maxmemory") && c->count == 4)
            c->m->faults.oom = !slice_is(c->args[3], "0");
        if (arg_is(c, 2, "appendfsync") && c->count == 4)
            c->m->fsync_always = arg_is(c, 3, "always");
        reply_ok(c);
        return;
    }
    if (!arg_is(c, 1, "GET") || c->count != 3) {
        reply_error(c, "ERR the model has no such CONFIG");
        return;
    }
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
        if (slice_is(c->args[2], params[i].name)) {
            reply_array(c, 2);
            reply_bulk(c, c->args[2]);
            reply_bulk(c, slice_of(params[i].value));
            return;
        }
    reply_array(c, 0);
}

const struct command server_commands[] = {
    {"PING", -1, 0, run_ping},
    {"CLIENT", -2, COMMAND_NO_SCRIPT, run_ok},
    {"SELECT", 2, 0, run_ok},
    {"TIME", 1, 0, run_time},
    {"SCRIPT", -2, COMMAND_NO_SCRIPT, run_script},
    {"EVALSHA", -3, COMMAND_NO_SCRIPT, model_evalsha},
    {"EVAL", -3, COMMAND_NO_SCRIPT, run_eval},
    {"PUBLISH", 3, 0, run_publish},
    {"REPLICAOF", 3, COMMAND_NO_SCRIPT, run_replicaof},
    {"ROLE", 1, COMMAND_NO_SCRIPT, run_role},
    {"INFO", -1, 0, run_info},
    {"CONFIG", -2, COMMAND_NO_SCRIPT, run_config},
    {"FLUSHALL", -1, COMMAND_WRITE, run_flushall},
    {NULL, 0, 0, NULL},
};
