/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_replicas.c - WAIT: a connection is blocked until enough replicas have what
 * it wrote, or its time is over. */
#include "tests/sim/redis_model_internal.h"

unsigned model_replicas_with(const struct redis_model *m, uint64_t offset)
{
    unsigned n = 0;
    for (int i = 0; i < REDIS_REPLICAS_MAX; i++)
        n += m->replicas[i].online && m->replicas[i].has >= offset;
    return n;
}

uint64_t model_replicated(const struct redis_model *m)
{
    uint64_t least = m->offset;
    for (int i = 0; i < REDIS_REPLICAS_MAX; i++)
        if (m->replicas[i].online && m->replicas[i].has < least)
            least = m->replicas[i].has;
    return least;
}

struct redis_replica *redis_model_replicas(struct redis_model *m)
{
    return m->replicas;
}

uint64_t redis_model_offset(const struct redis_model *m)
{
    return m->offset;
}

/* ---------------------------------------------------------------------------- WAIT */

static unsigned acked(const struct redis_conn *conn)
{
    return model_replicas_with(conn->m, conn->wrote_at);
}

/* WAIT replicas ms. ms 0: without a limit. */
static void run_wait(struct call *c)
{
    reply_error(c, "ERR the model has no WAIT outside of a connection");
}

bool model_wait(struct redis_conn *conn, struct call *c)
{
    int64_t replicas, ms;
    if (!arg_is(c, 0, "WAIT") || c->count != 3)
        return false;
    if (c->m->faults.readonly)
        reply_error(c, "ERR WAIT cannot be used with replica instances. Please also note "
                       "that since Redis 4.0 if a replica is configured to be writable "
                       "(which is not the default) writes to replicas are just local and "
                       "are not propagated.");
    else if (!arg_int(c, 1, &replicas) || !arg_int(c, 2, &ms))
        ;
    else if (ms < 0)
        reply_error(c, "ERR timeout is negative");
    else if (acked(conn) >= replicas)
        reply_int(c, acked(conn));
    else {
        conn->wait.is_open = true;
        conn->wait.replicas = replicas;
        conn->wait.until_us = ms ? conn->m->now_us + ms * 1000 : INT64_MAX;
        return true;
    }
    model_report(c, buf_slice(&conn->out));
    return true;
}

/* Answers, and continues with the commands behind it. error NULL: with the count. */
static void end_wait(struct redis_conn *conn, const char *error)
{
    struct slice name = SLICE_LIT("WAIT");
    struct call c = {.m = conn->m, .args = &name, .count = 1, .out = &conn->out};
    conn->wait.is_open = false;
    if (error)
        reply_error(&c, error);
    else
        reply_int(&c, acked(conn));
    model_report(&c, buf_slice(&conn->out));
    conn->output(conn->arg, buf_slice(&conn->out));
    buf_clear(&conn->out);
    model_continue(conn);
}

void redis_model_replicated(struct redis_model *m)
{
    for (guint i = 0; i < m->conns->len; i++) {
        struct redis_conn *conn = m->conns->pdata[i];
        if (conn->wait.is_open && acked(conn) >= conn->wait.replicas)
            end_wait(conn, NULL);
    }
}

int64_t redis_model_end_waits(struct redis_model *m)
{
    int64_t next_us = INT64_MAX;
    for (guint i = 0; i < m->conns->len; i++) {
        struct redis_conn *conn = m->conns->pdata[i];
        while (conn->wait.is_open && conn->wait.until_us <= m->now_us)
            end_wait(conn, NULL);
        if (conn->wait.is_open && conn->wait.until_us < next_us)
            next_us = conn->wait.until_us;
    }
    return next_us;
}

void redis_model_demote(struct redis_model *m)
{
    m->faults.readonly = true;
    for (guint i = 0; i < m->conns->len; i++) {
        struct redis_conn *conn = m->conns->pdata[i];
        if (conn->wait.is_open)
            end_wait(conn, "UNBLOCKED force unblock from blocking operation, instance "
                           "state changed (master -> replica?)");
    }
}

const struct command replica_commands[] = {
    {"WAIT", 3, COMMAND_NO_SCRIPT, run_wait},
    {NULL, 0, 0, NULL},
};
