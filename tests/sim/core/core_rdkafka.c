/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_rdkafka.c - the functions of librdkafka that sources/kafka/ uses to read, over the
 * log of the world (tests/sim/world_group.c). Lists of partitions, settings and errors
 * are those of the real library.
 */
#include "bridge/base/mem.h"
#include "tests/sim/core/core.h"
#include "tests/sim/core/core_kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>

static const char topic[] = "t";

struct rd_kafka_op_s { /* an event */
    struct group_event what;
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_message_t message; /* of the last record returned */
    unsigned next;
};
struct rd_kafka_AdminOptions_s {
    void *opaque;
};

/* ------------------------------------------------------------------------ events */

static rd_kafka_topic_partition_list_t *list_of(const struct group_event *what)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)what->n);
    for (unsigned i = 0; i < what->n; i++) {
        rd_kafka_topic_partition_t *row =
            rd_kafka_topic_partition_list_add(list, topic, what->rows[i].partition);
        row->offset = what->rows[i].offset;
        row->err = (rd_kafka_resp_err_t)what->rows[i].error;
    }
    return list;
}

rd_kafka_event_t *core_kafka_event(void)
{
    struct rd_kafka_op_s *ev = mem_alloc(sizeof(*ev));
    if (HOST->group_event(CORE, &ev->what)) {
        ev->list = list_of(&ev->what);
        return ev;
    }
    free(ev);
    return NULL;
}

void rd_kafka_event_destroy(rd_kafka_event_t *ev)
{
    rd_kafka_topic_partition_list_destroy(ev->list);
    free(ev->message.payload);
    free(ev);
}

rd_kafka_event_type_t rd_kafka_event_type(const rd_kafka_event_t *ev)
{
    static const rd_kafka_event_type_t types[] = {
        [GROUP_ASSIGN] = RD_KAFKA_EVENT_REBALANCE,
        [GROUP_REVOKE] = RD_KAFKA_EVENT_REBALANCE,
        [GROUP_FETCH] = RD_KAFKA_EVENT_FETCH,
        [GROUP_COMMITTED] = RD_KAFKA_EVENT_OFFSET_COMMIT,
        [GROUP_OFFSETS] = RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT,
        [GROUP_ERROR] = RD_KAFKA_EVENT_ERROR};
    return types[ev->what.kind];
}

rd_kafka_resp_err_t rd_kafka_event_error(rd_kafka_event_t *ev)
{
    if (ev->what.kind == GROUP_ASSIGN)
        return RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    if (ev->what.kind == GROUP_REVOKE)
        return RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS;
    return (rd_kafka_resp_err_t)ev->what.error;
}

const char *rd_kafka_event_error_string(rd_kafka_event_t *ev)
{
    return rd_kafka_err2str(rd_kafka_event_error(ev));
}

void *rd_kafka_event_opaque(rd_kafka_event_t *ev)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number is all that it carries
    return (void *)(uintptr_t)ev->what.round;
}

rd_kafka_topic_partition_list_t *rd_kafka_event_topic_partition_list(rd_kafka_event_t *ev)
{
    return ev->list;
}

/* The caller destroys it. The real library has a copy function only for lists. */
rd_kafka_topic_partition_t *rd_kafka_event_topic_partition(rd_kafka_event_t *ev)
{
    if (ev->what.n == 0)
        return NULL;
    rd_kafka_topic_partition_t *row = mem_alloc(sizeof(*row));
    *row = ev->list->elems[0];
    row->topic = mem_strdup(topic);
    return row;
}

void rd_kafka_topic_partition_destroy(rd_kafka_topic_partition_t *row)
{
    free(row->topic);
    free(row);
}

/* ----------------------------------------------------------------------- records */

const rd_kafka_message_t *rd_kafka_event_message_next(rd_kafka_event_t *ev)
{
    if (ev->next == ev->what.record_count)
        return NULL;
    const struct record *record = ev->what.records[ev->next++];
    rd_kafka_message_t *m = &ev->message;
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)record->number);
    free(m->payload);
    *m = (rd_kafka_message_t){.partition = record->partition,
                              .offset = record->offset,
                              .payload = mem_strdup(number),
                              .len = strlen(number),
                              .key = (void *)(uintptr_t)record->key,
                              .key_len = record->key ? strlen(record->key) : 0,
                              ._private = (void *)(uintptr_t)record};
    return m;
}

const char *rd_kafka_topic_name(const rd_kafka_topic_t *rkt)
{
    (void)rkt;
    return topic;
}

const char *rd_kafka_message_errstr(const rd_kafka_message_t *m)
{
    return rd_kafka_err2str(m->err);
}

int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *m,
                                   rd_kafka_timestamp_type_t *type)
{
    *type = RD_KAFKA_TIMESTAMP_CREATE_TIME;
    return ((const struct record *)m->_private)->written_ms;
}

rd_kafka_resp_err_t rd_kafka_message_headers(const rd_kafka_message_t *m,
                                             rd_kafka_headers_t **headers)
{
    *headers = m->_private;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t rd_kafka_header_get_all(const rd_kafka_headers_t *headers,
                                            size_t index, const char **name,
                                            const void **value, size_t *n)
{
    static char due[32];
    const struct record *record = (const void *)headers;
    const struct {
        const char *name, *value;
    } all[] = {{"delay-id", record->id}, {"deliver-at", record->due_ms ? due : NULL}};
    snprintf(due, sizeof(due), "%lld", (long long)record->due_ms);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].value == NULL || index-- > 0)
            continue;
        *name = all[i].name;
        *value = all[i].value;
        *n = strlen(all[i].value);
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    return RD_KAFKA_RESP_ERR__NOENT;
}

/* ------------------------------------------------------------------------- calls */

static rd_kafka_resp_err_t
call(enum group_call what, const rd_kafka_topic_partition_list_t *list, uint64_t round)
{
    struct group_row rows[GROUP_ROWS_MAX];
    int n = list ? list->cnt : 0;
    must(n <= GROUP_ROWS_MAX);
    for (int i = 0; i < n; i++)
        rows[i] = (struct group_row){list->elems[i].partition, list->elems[i].offset, 0};
    return (rd_kafka_resp_err_t)HOST->group_call(CORE, what, rows, (unsigned)n, round);
}

rd_kafka_error_t *rd_kafka_incremental_assign(rd_kafka_t *rk,
                                              const rd_kafka_topic_partition_list_t *list)
{
    (void)rk;
    call(CALL_ASSIGN, list, 0);
    return NULL;
}

rd_kafka_error_t *
rd_kafka_incremental_unassign(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    (void)rk;
    call(CALL_UNASSIGN, list, 0);
    return NULL;
}

rd_kafka_resp_err_t rd_kafka_assign(rd_kafka_t *rk,
                                    const rd_kafka_topic_partition_list_t *list)
{
    (void)rk, (void)list;
    must(!"the group is cooperative");
}

const char *rd_kafka_rebalance_protocol(rd_kafka_t *rk)
{
    (void)rk;
    return "COOPERATIVE";
}

int rd_kafka_assignment_lost(rd_kafka_t *rk)
{
    (void)rk;
    return HOST->group_is_lost(CORE);
}

int rd_kafka_consumer_closed(rd_kafka_t *rk)
{
    (void)rk;
    return HOST->group_has_left(CORE);
}

rd_kafka_resp_err_t rd_kafka_subscribe(rd_kafka_t *rk,
                                       const rd_kafka_topic_partition_list_t *list)
{
    (void)rk, (void)list;
    return call(CALL_JOIN, NULL, 0);
}

rd_kafka_resp_err_t rd_kafka_pause_partitions(rd_kafka_t *rk,
                                              rd_kafka_topic_partition_list_t *list)
{
    (void)rk;
    return call(CALL_PAUSE, list, 0);
}

rd_kafka_resp_err_t rd_kafka_resume_partitions(rd_kafka_t *rk,
                                               rd_kafka_topic_partition_list_t *list)
{
    (void)rk;
    return call(CALL_RESUME, list, 0);
}

rd_kafka_error_t *rd_kafka_seek_partitions(rd_kafka_t *rk,
                                           rd_kafka_topic_partition_list_t *list,
                                           int timeout_ms)
{
    (void)rk, (void)timeout_ms;
    call(CALL_SEEK, list, 0);
    return NULL;
}

rd_kafka_resp_err_t rd_kafka_offsets_store(rd_kafka_t *rk,
                                           rd_kafka_topic_partition_list_t *list)
{
    (void)rk;
    return call(CALL_STORE, list, 0);
}

rd_kafka_resp_err_t
rd_kafka_commit(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list, int async)
{
    (void)rk;
    must(async);
    return call(CALL_COMMIT, list, 0);
}

rd_kafka_resp_err_t rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *name,
                                                   int32_t partition, int64_t *low,
                                                   int64_t *end)
{
    (void)rk, (void)name;
    return HOST->watermarks(CORE, partition, low, end)
               ? RD_KAFKA_RESP_ERR_NO_ERROR
               : RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

/* ------------------------------------------------------------- committed offsets */

rd_kafka_AdminOptions_t *rd_kafka_AdminOptions_new(rd_kafka_t *rk,
                                                   rd_kafka_admin_op_t for_api)
{
    (void)rk, (void)for_api;
    return mem_alloc(sizeof(rd_kafka_AdminOptions_t));
}

void rd_kafka_AdminOptions_destroy(rd_kafka_AdminOptions_t *options)
{
    free(options);
}

void rd_kafka_AdminOptions_set_opaque(rd_kafka_AdminOptions_t *options, void *opaque)
{
    options->opaque = opaque;
}

rd_kafka_resp_err_t
rd_kafka_AdminOptions_set_request_timeout(rd_kafka_AdminOptions_t *options,
                                          int timeout_ms, char *why, size_t n)
{
    (void)options, (void)timeout_ms, (void)why, (void)n;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* A request is only its list. */
rd_kafka_ListConsumerGroupOffsets_t *
rd_kafka_ListConsumerGroupOffsets_new(const char *group_id,
                                      const rd_kafka_topic_partition_list_t *partitions)
{
    (void)group_id;
    return (rd_kafka_ListConsumerGroupOffsets_t *)rd_kafka_topic_partition_list_copy(
        partitions);
}

void rd_kafka_ListConsumerGroupOffsets_destroy(rd_kafka_ListConsumerGroupOffsets_t *ask)
{
    rd_kafka_topic_partition_list_destroy((rd_kafka_topic_partition_list_t *)ask);
}

void rd_kafka_ListConsumerGroupOffsets(rd_kafka_t *rk,
                                       rd_kafka_ListConsumerGroupOffsets_t **asks,
                                       size_t n, const rd_kafka_AdminOptions_t *options,
                                       rd_kafka_queue_t *queue)
{
    (void)rk, (void)n, (void)queue;
    call(CALL_OFFSETS, (rd_kafka_topic_partition_list_t *)asks[0],
         (uint64_t)(uintptr_t)options->opaque);
}

/* The result, its only group and that group's answer are the event itself. */
const rd_kafka_ListConsumerGroupOffsets_result_t *
rd_kafka_event_ListConsumerGroupOffsets_result(rd_kafka_event_t *ev)
{
    return ev;
}

const rd_kafka_group_result_t **rd_kafka_ListConsumerGroupOffsets_result_groups(
    const rd_kafka_ListConsumerGroupOffsets_result_t *result, size_t *n)
{
    static const rd_kafka_group_result_t *groups[1];
    groups[0] = (const rd_kafka_group_result_t *)result;
    *n = 1;
    return groups;
}

const rd_kafka_error_t *rd_kafka_group_result_error(const rd_kafka_group_result_t *group)
{
    (void)group;
    return NULL;
}

const rd_kafka_topic_partition_list_t *
rd_kafka_group_result_partitions(const rd_kafka_group_result_t *group)
{
    return ((const struct rd_kafka_op_s *)group)->list;
}
