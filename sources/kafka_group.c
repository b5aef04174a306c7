/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.c - rebalance events, of which librdkafka sends the next one only when the
 * last was applied.
 */
#include "sources/kafka_group.h"

#include <string.h>

enum { REVOKE_WAIT_MS = 3000 /* for the answers to records of partitions that leave */ };

static void on_limit(void *arg);

void kafka_group_init(struct kafka_group *g, const char *who)
{
    g->who = who;
    kafka_parts_init(&g->parts, who);
    g->parts.owner = g;
    g->limit = timer_new(on_limit, g);
}

void kafka_group_fini(struct kafka_group *g)
{
    timer_del(g->limit);
    g->limit = NULL;
}

void kafka_group_join(struct kafka_group *g, struct kafka_client *client)
{
    g->client = client;
    g->parts.rk = kafka_client_rk(client);
}

static void apply(struct kafka_group *g, bool add,
                  const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_t *rk = kafka_client_rk(g->client);
    rd_kafka_error_t *error = NULL;
    const char *protocol = rd_kafka_rebalance_protocol(rk);

    if (protocol && strcmp(protocol, "COOPERATIVE") == 0) {
        error = add ? rd_kafka_incremental_assign(rk, list)
                    : rd_kafka_incremental_unassign(rk, list);
        if (error)
            log_warn(g->who, "rebalance: %s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    } else {
        rd_kafka_resp_err_t code = rd_kafka_assign(rk, add ? list : NULL);
        if (code)
            log_warn(g->who, "rebalance: %s", rd_kafka_err2str(code));
    }
}

static void drop_parts(struct kafka_group *g, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        struct kafka_part *part =
            kafka_part_find(&g->parts, list->elems[i].topic, list->elems[i].partition);
        if (part)
            kafka_part_drop(part);
    }
}

static void drop_all_parts(struct kafka_group *g)
{
    while (!TAILQ_EMPTY(&g->parts.list))
        kafka_part_drop(TAILQ_FIRST(&g->parts.list));
}

void kafka_group_leave(struct kafka_group *g)
{
    if (g->revoke)
        rd_kafka_event_destroy(g->revoke);
    g->revoke = NULL;
    timer_rest(g->limit);
    drop_all_parts(g);
    g->parts.rk = NULL;
    g->client = NULL;
}

void kafka_group_pause(struct kafka_group *g, bool paused)
{
    g->paused = paused;
    if (paused)
        kafka_parts_hold(&g->parts, HOLD_FLOW);
    else
        kafka_parts_let_go(&g->parts, HOLD_FLOW);
}

/* librdkafka commits what was stored before it lets the partitions go. */
static void finish_revoke(struct kafka_group *g)
{
    rd_kafka_event_t *ev = g->revoke;
    rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(ev);

    g->revoke = NULL;
    timer_rest(g->limit);
    kafka_parts_store(&g->parts);
    drop_parts(g, list);
    /* librdkafka keeps a pause for the next time that a partition is ours (2.0.2); and to
     * resume it then would set it to where we had read to, past what was not stored. */
    rd_kafka_resume_partitions(kafka_client_rk(g->client), list);
    apply(g, false, list);
    log_msg(list->cnt > 0 ? LOG_INFO : LOG_DEBUG, g->who,
            "%d partitions revoked, %u left", list->cnt, g->parts.count);
    rd_kafka_event_destroy(ev);
}

static bool revoke_is_answered(const struct kafka_group *g)
{
    const struct kafka_part *part;

    TAILQ_FOREACH (part, &g->parts.list, link)
        if ((part->holds & HOLD_REVOKE) && part->offsets.open > 0)
            return false;
    return true;
}

void kafka_group_answered(struct kafka_group *g)
{
    if (g->revoke && revoke_is_answered(g))
        finish_revoke(g);
}

static void on_limit(void *arg)
{
    struct kafka_group *g = arg;

    log_warn(g->who, "partitions go while records are open; another member "
                     "will read these again");
    finish_revoke(g);
}

/* Takes ev. */
static void on_revoke(struct kafka_group *g, rd_kafka_event_t *ev)
{
    const rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(ev);

    g->revoke = ev;
    for (int i = 0; i < list->cnt; i++) {
        struct kafka_part *part =
            kafka_part_find(&g->parts, list->elems[i].topic, list->elems[i].partition);
        if (part)
            kafka_part_hold(part, HOLD_REVOKE);
    }
    /* Of what was lost nothing can be committed any more. */
    if (rd_kafka_assignment_lost(kafka_client_rk(g->client)) || revoke_is_answered(g))
        finish_revoke(g);
    else
        timer_set(g->limit, REVOKE_WAIT_MS);
}

static void on_assign(struct kafka_group *g, const rd_kafka_topic_partition_list_t *list)
{
    apply(g, true, list);
    for (int i = 0; i < list->cnt; i++)
        kafka_part_add(&g->parts, list->elems[i].topic, list->elems[i].partition);
    if (g->paused)
        kafka_parts_hold(&g->parts, HOLD_FLOW);
    kafka_client_alive(g->client);
    log_msg(list->cnt > 0 ? LOG_INFO : LOG_DEBUG, g->who,
            "%d partitions assigned, %u in all", list->cnt, g->parts.count);
}

void kafka_group_rebalance(struct kafka_group *g, rd_kafka_event_t *ev)
{
    if (g->revoke)
        finish_revoke(g);
    switch (rd_kafka_event_error(ev)) {
    case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
        on_assign(g, rd_kafka_event_topic_partition_list(ev));
        break;
    case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
        on_revoke(g, ev);
        return;
    default:
        drop_all_parts(g);
        rd_kafka_assign(kafka_client_rk(g->client), NULL);
        kafka_client_fail(g->client, rd_kafka_err2str(rd_kafka_event_error(ev)));
    }
    rd_kafka_event_destroy(ev);
}
