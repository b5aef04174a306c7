/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/faults/million/million.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 300, RECORDS = 4096 };

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK) {
        fprintf(stderr, "million: %s\n", why);
        exit(1);
    }
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf,
                          const char *brokers)
{
    char why[256];
    set(conf, "bootstrap.servers", brokers);
    set(conf, "log_level", "2"); /* brokers stop and start in these runs */
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof(why));
    if (rk == NULL) {
        fprintf(stderr, "million: %s\n", why);
        exit(1);
    }
    return rk;
}

/* ------------------------------------------------------------------------- produce */

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct entry *ledger = opaque;
    (void)rk;
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        ledger[(uintptr_t)m->_private].acked_ms = clock_us() / 1000;
}

/* Returns false if the queue is full. */
static bool produce(rd_kafka_t *rk, const char *topic, uint64_t seq, uint32_t run,
                    int64_t due_ms)
{
    unsigned char body[BODY_MAX];
    char due[24];
    size_t n = body_make(run, seq, due_ms, body);
    snprintf(due, sizeof(due), "%lld", (long long)due_ms);
    return rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_VALUE(body, n),
                             RD_KAFKA_V_HEADER("deliver-at", due, -1),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                             RD_KAFKA_V_OPAQUE((void *)(uintptr_t)seq),
                             RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

int produce_main(int argc, char **argv)
{
    (void)argc;
    const char *topic = argv[3];
    uint64_t count = strtoull(argv[5], NULL, 10), rate = strtoull(argv[6], NULL, 10);
    int64_t spread_ms = strtoll(argv[7], NULL, 10), started_us = clock_us();
    uint32_t run = (uint32_t)strtoul(argv[8], NULL, 10);
    struct entry *ledger = ledger_open(argv[4], count);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "enable.idempotence", "true");
    set(conf, "linger.ms", "10");
    set(conf, "message.timeout.ms", "300000");
    rd_kafka_conf_set_opaque(conf, ledger);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf, argv[2]);
    for (uint64_t seq = 0; seq < count;) {
        uint64_t may = pace_allows(seq, rate, started_us);
        for (; may > 0 && seq < count; may--) {
            /* Kept if the queue was full: the ledger must contain what is sent. */
            if (ledger[seq].due_ms == 0)
                ledger[seq].due_ms = due_of(seq, clock_us(), spread_ms);
            if (!produce(rk, topic, seq, run, ledger[seq].due_ms))
                break;
            seq++;
        }
        rd_kafka_poll(rk, 5);
    }
    return rd_kafka_flush(rk, PATIENCE_S * 1000) ? 1 : 0;
}

/* ---------------------------------------------------------------------------- read */

static const char *header(const rd_kafka_headers_t *headers, const char *name)
{
    const void *value;
    size_t n;
    if (headers == NULL || rd_kafka_header_get_last(headers, name, &value, &n) != 0)
        return NULL;
    return value; /* librdkafka terminates it with a NUL */
}

/* Uses the record's own time, which the sink sets when it sends; the end of that ms
 * counts. */
static struct record record_from(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_timestamp_type_t type;
    int64_t ms = rd_kafka_message_timestamp(m, &type);
    rd_kafka_message_headers(m, &headers);
    return record_of(m->payload, m->len, ms * 1000 + 999, header(headers, "delay-due"),
                     header(headers, "delay-attempt"));
}

/* Read everything that the topic contains now. */
int read_main(int argc, char **argv)
{
    (void)argc;
    int partitions = atoi(argv[4]), ended = 0, fd = records_open(argv[5]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    static struct record records[RECORDS];
    size_t n = 0;
    set(conf, "group.id", "million");
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, conf, argv[2]);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++)
        rd_kafka_topic_partition_list_add(list, argv[3], i)->offset =
            RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_assign(rk, list);
    int64_t end_us = clock_us() + PATIENCE_S * INT64_C(1000000);
    while (ended < partitions && clock_us() < end_us) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 1000);
        if (m && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            ended++;
        else if (m && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            records[n++] = record_from(m);
        if (m)
            rd_kafka_message_destroy(m);
        if (n == RECORDS || ended == partitions) {
            records_add(fd, records, n);
            n = 0;
        }
    }
    return ended == partitions ? 0 : 1;
}
