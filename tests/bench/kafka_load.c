/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_load.c - fills a Kafka topic with numbered records, or reads and checks a topic.
 *
 *   kafka_load fill --brokers B --topic T --count N [--bytes 100] [--rate PER_S]
 *              [--after TEXT | --at MS] [--stamp 1]
 *   kafka_load read --brokers B --topic T --count N [--wait 30]
 *   kafka_load late --brokers B --topic T --count N [--wait 30]
 *
 * fill: produces as fast as librdkafka accepts records, or at a steady rate. Each record
 * begins with its number. --after and --at set the header deliver-after or deliver-at.
 * --stamp replaces tarry: each record is produced at a whole millisecond, begins with
 * that time in ms since 1970, and does not wait for others.
 * read: reads the whole topic, until each of count numbers has arrived, or none for
 * --wait seconds. The delivery time of a record is its LogAppendTime, by the broker's
 * clock; its due time is in the header delay-due. Both print one line of JSON.
 * late: prints "ready", then reads records that begin with their due time, and prints
 * their lateness by the clock of this host.
 */
#include "tests/bench/clock.h"
#include "tests/bench/lateness.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

enum {
    NUMBER_BYTES = 10,
    BYTES_MAX = 65536,
    READ_BATCH = 1000,
    META_MS = 10000,
    QUEUE_MAX = 500000,
    LATE_MAX_MS = 10 * 60 * 1000
};

static struct {
    const char *brokers, *topic, *after, *at;
    int64_t count, bytes, rate, wait_s, stamp;
} o = {.bytes = 100, .wait_s = 30};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "kafka_load: %s: %s\n", what, why);
    exit(1);
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
        fail(name, why);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[256];
    set(conf, "bootstrap.servers", o.brokers);
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof(why));
    if (rk == NULL)
        fail("librdkafka", why);
    return rk;
}

/* ---------------------------------------------------------------------- fill */

static int64_t refused;

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk, (void)opaque;
    if (m->err && refused++ == 0)
        fprintf(stderr, "kafka_load: %s\n", rd_kafka_err2str(m->err));
}

static void produce(rd_kafka_t *rk, const char *value)
{
    for (;;) {
        rd_kafka_headers_t *headers = NULL;
        if (o.after || o.at) {
            headers = rd_kafka_headers_new(1);
            rd_kafka_header_add(headers, o.after ? "deliver-after" : "deliver-at", -1,
                                o.after ? o.after : o.at, -1);
        }
        rd_kafka_resp_err_t code =
            rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(o.topic),
                              RD_KAFKA_V_VALUE((void *)(uintptr_t)value, (size_t)o.bytes),
                              RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return;
        rd_kafka_headers_destroy(headers);
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            fail("produce", rd_kafka_err2str(code));
        rd_kafka_poll(rk, 10);
    }
}

/* Serve reports until record number n is due at this rate. */
static void keep_rate(rd_kafka_t *rk, int64_t started_us, int64_t n)
{
    const int64_t at_us = started_us + n * 1000000 / o.rate;
    int64_t left_us = at_us - now_us();

    if (left_us < 1000) /* a poll for each would be the load */
        return;
    rd_kafka_poll(rk, 0);
    left_us = at_us - now_us();
    if (left_us > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(left_us % 1000000 * 1000),
                                     .tv_sec = left_us / 1000000},
                  NULL);
}

/* Wait until record number n is due, at a whole millisecond. Returns that time in ms
 * since 1970. */
static int64_t wait_due(rd_kafka_t *rk, int64_t started_ms, int64_t n)
{
    const int64_t due_ms = started_ms + n * 1000 / o.rate;
    const struct timespec due = {due_ms / 1000, due_ms % 1000 * 1000000};

    rd_kafka_poll(rk, 0);
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &due, NULL);
    return due_ms;
}

static void fill(void)
{
    static char value[BYTES_MAX];
    char number[24], room[16];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    snprintf(room, sizeof(room), "%d", QUEUE_MAX);
    set(conf, "queue.buffering.max.messages", room);
    set(conf, "linger.ms", o.stamp ? "0" : "5");
    set(conf, "acks", "all");
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
    memset(value, 'x', sizeof(value));
    if (o.stamp) {
        memset(value, '0', NUMBER_BYTES); /* opens the connections */
        produce(rk, value);
        rd_kafka_flush(rk, 60000);
    }
    const int64_t started_us = now_us(), started_ms = (int64_t)time(NULL) * 1000 + 2000;
    for (int64_t n = 0; n < o.count; n++) {
        const int64_t head = o.stamp ? wait_due(rk, started_ms, n) : n;
        if (o.rate > 0 && !o.stamp)
            keep_rate(rk, started_us, n);
        const int digits =
            snprintf(number, sizeof(number), "%0*" PRId64, NUMBER_BYTES, head);
        memcpy(value, number, (size_t)digits);
        produce(rk, value);
    }
    if (rd_kafka_flush(rk, 60000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail("flush", "the broker does not take the rest");
    const double seconds = (double)(now_us() - started_us) / 1e6;
    printf("{\"count\":%" PRId64 ",\"seconds\":%.3f,\"per_s\":%.0f,\"refused\":%" PRId64
           ",\"cpu_us\":%" PRId64 "}\n",
           o.count, seconds, (double)o.count / seconds, refused,
           clock_us(CLOCK_PROCESS_CPUTIME_ID));
    rd_kafka_destroy(rk);
}

/* ---------------------------------------------------------------------- read */

static struct {
    uint8_t *seen;  /* how often each number arrived */
    int64_t *at_ms; /* when each record was delivered, in the order of reading */
    int32_t *late_ms;
    int64_t records, got, strange, without_due, cap;
} r;

static int64_t header_number(const rd_kafka_message_t *m, const char *name)
{
    rd_kafka_headers_t *headers;
    const void *value;
    size_t n;
    char text[32];

    if (rd_kafka_message_headers(m, &headers) ||
        rd_kafka_header_get_last(headers, name, &value, &n) || n >= sizeof(text))
        return -1;
    memcpy(text, value, n);
    text[n] = '\0';
    return strtoll(text, NULL, 10);
}

static void take(const rd_kafka_message_t *m)
{
    char number[NUMBER_BYTES + 1] = "";

    if (m->len < NUMBER_BYTES) {
        r.strange++;
        return;
    }
    memcpy(number, m->payload, NUMBER_BYTES);
    const int64_t n = strtoll(number, NULL, 10), due_ms = header_number(m, "delay-due");
    if (n < 0 || n >= o.count) {
        r.strange++;
        return;
    }
    r.got += r.seen[n] == 0;
    r.seen[n] += r.seen[n] < UINT8_MAX;
    if (r.records == r.cap) { /* twice as many as were sent: something is wrong */
        r.strange++;
        return;
    }
    const int64_t at_ms = rd_kafka_message_timestamp(m, NULL);
    r.without_due += due_ms < 0;
    r.at_ms[r.records] = at_ms;
    r.late_ms[r.records++] = due_ms < 0                     ? 0
                             : at_ms - due_ms > LATE_MAX_MS ? LATE_MAX_MS
                                                            : (int32_t)(at_ms - due_ms);
}

static int assign_all(rd_kafka_t *rk)
{
    const struct rd_kafka_metadata *meta;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, o.topic, NULL);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);

    if (rd_kafka_metadata(rk, 0, topic, &meta, META_MS) || meta->topic_cnt != 1)
        fail(o.topic, "its partitions are not known");
    for (int i = 0; i < meta->topics[0].partition_cnt; i++)
        rd_kafka_topic_partition_list_add(list, o.topic, meta->topics[0].partitions[i].id)
            ->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(rk, list);
    const int n = list->cnt;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_metadata_destroy(meta);
    rd_kafka_topic_destroy(topic);
    return n;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void print_verdict(void)
{
    int64_t first_ms = INT64_MAX, last_ms = 0, twice = 0, early = 0;

    for (int64_t n = 0; n < o.count; n++)
        twice += r.seen[n] > 1;
    for (int64_t i = 0; i < r.records; i++) {
        first_ms = r.at_ms[i] < first_ms ? r.at_ms[i] : first_ms;
        last_ms = r.at_ms[i] > last_ms ? r.at_ms[i] : last_ms;
        early += r.late_ms[i] < 0;
    }
    qsort(r.late_ms, (size_t)r.records, sizeof(*r.late_ms), by_number);
    const int64_t end = r.records > 0 ? r.records - 1 : 0;
    printf("{\"records\":%" PRId64 ",\"lost\":%" PRId64 ",\"twice\":%" PRId64
           ",\"strange\":%" PRId64 ",\"without_due\":%" PRId64 ",\"early\":%" PRId64
           ",\"first_ms\":%" PRId64 ",\"last_ms\":%" PRId64
           ",\"late_p50_ms\":%d,\"late_p99_ms\":%d,\"late_most_ms\":%d}\n",
           r.records, o.count - r.got, twice, r.strange, r.without_due, early,
           r.records ? first_ms : 0, last_ms, r.late_ms[end / 2],
           r.late_ms[end * 99 / 100], r.late_ms[end]);
}

/* Return a consumer of the whole topic. */
static rd_kafka_t *open_reader(void)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    set(conf, "group.id", "kafka_load");
    set(conf, "enable.auto.commit", "false");
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(rk);
    assign_all(rk);
    return rk;
}

static void read_all(void)
{
    static rd_kafka_message_t *batch[READ_BATCH];
    rd_kafka_t *rk = open_reader();
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);

    r.cap = 2 * o.count + 1;
    r.seen = calloc((size_t)o.count, sizeof(*r.seen));
    r.at_ms = calloc((size_t)r.cap, sizeof(*r.at_ms));
    r.late_ms = calloc((size_t)r.cap, sizeof(*r.late_ms));
    int64_t quiet_us = now_us();
    while (now_us() - quiet_us < (r.got < o.count ? o.wait_s * 1000000 : 500000)) {
        const ssize_t n = rd_kafka_consume_batch_queue(queue, 100, batch, READ_BATCH);
        for (ssize_t i = 0; i < n; i++) {
            if (!batch[i]->err) {
                take(batch[i]);
                quiet_us = now_us();
            }
            rd_kafka_message_destroy(batch[i]);
        }
    }
    print_verdict();
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
}

/* ---------------------------------------------------------------------- late */

/* One record at a time: librdkafka waits for a whole batch, or for the time limit. */
static int read_late(void)
{
    rd_kafka_t *rk = open_reader();
    rd_kafka_message_t *m;

    lateness_init(o.count);
    printf("ready\n");
    fflush(stdout);
    while (!*lateness_done() &&
           (m = rd_kafka_consumer_poll(rk, (int)o.wait_s * 1000)) != NULL) {
        if (!m->err)
            lateness_note_due(m->payload, m->len);
        rd_kafka_message_destroy(m);
    }
    rd_kafka_destroy(rk);
    return lateness_print();
}

/* ---------------------------------------------------------------------- main */

static const struct {
    const char *name;
    const char **text;
    int64_t *number;
} words[] = {{"--brokers", &o.brokers, NULL}, {"--topic", &o.topic, NULL},
             {"--after", &o.after, NULL},     {"--at", &o.at, NULL},
             {"--count", NULL, &o.count},     {"--bytes", NULL, &o.bytes},
             {"--rate", NULL, &o.rate},       {"--wait", NULL, &o.wait_s},
             {"--stamp", NULL, &o.stamp}};

static void read_word(const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].name, name) != 0)
            continue;
        if (words[i].text)
            *words[i].text = value;
        else
            *words[i].number = strtoll(value, NULL, 10);
        return;
    }
    fail(name, "is no option");
}

int main(int argc, char **argv)
{
    for (int i = 2; i + 1 < argc; i += 2)
        read_word(argv[i], argv[i + 1]);
    if (argc % 2 != 0 || argc < 2 || !o.brokers || !o.topic || o.count < 1 ||
        o.bytes < NUMBER_BYTES || o.bytes > BYTES_MAX || (o.stamp && o.rate < 1))
        fail("usage", "see the head of kafka_load.c");
    if (strcmp(argv[1], "fill") == 0)
        fill();
    else if (strcmp(argv[1], "read") == 0)
        read_all();
    else if (strcmp(argv[1], "late") == 0)
        return read_late();
    else
        fail(argv[1], "is neither fill, read nor late");
    return 0;
}
