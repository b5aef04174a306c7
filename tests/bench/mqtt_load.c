/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_load.c - publishes to an MQTT broker, or reads from it, as fast as possible. It
 * implements QoS 1 of MQTT 3.1.1 itself, on one thread, so that it is not the limit.
 *
 *   mqtt_load publish --port P --topic T --count N [--conns 8] [--window 20]
 *             [--bytes 100] [--rate N]
 *   mqtt_load read --port P --topic T --count N [--wait 30]
 *   mqtt_load late --port P --topic T --count N [--wait 30]
 *
 * publish: sends count messages over conns connections, each with up to window messages
 * without a PUBACK, and at most rate messages a second. Each message begins with its
 * number. read: prints "ready" when it has
 * subscribed, and ends when each number has arrived, or none for --wait seconds. Both
 * print one line of JSON. For read, per_s is measured from the first to the last message,
 * and twice counts duplicates. late: like read, but each payload begins with its due
 * time; prints the lateness.
 */
#include "tests/bench/clock.h"
#include "tests/bench/lateness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    NUMBER_BYTES = 10,
    BYTES_MAX = 4096,
    TOPIC_MAX = 256,
    CONNS_MAX = 64,
    WINDOW_MAX = 1000,
    IN_BYTES = 1 << 20,
    KEEPALIVE_S = 600,
    TICK_MS = 2, /* with --rate */
    CONNECT = 0x10,
    CONNACK = 2,
    PUBLISH = 0x30,
    QOS1 = 2,
    PUBACK = 4,
    SUBSCRIBE = 0x82,
    SUBACK = 9
};

static struct {
    const char *topic;
    int64_t port, count, conns, window, bytes, rate, wait_s;
} o = {.conns = 8, .window = 20, .bytes = 100, .wait_s = 30};

struct conn {
    int fd;
    unsigned char *in;
    size_t in_n;
    bool accepted; /* by the broker */
    int64_t open;  /* published, without a PUBACK */
    uint16_t next_id;
};

static struct conn conns[CONNS_MAX];
static int64_t started_us, sent, acked, first_us, last_us, came, twice, strange;
static uint8_t *seen;
static bool late;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "mqtt_load: %s: %s\n", what, why);
    exit(1);
}

/* ------------------------------------------------------------------- packets */

static void write_all(struct conn *c, const unsigned char *p, size_t n)
{
    while (n > 0) {
        const ssize_t did = write(c->fd, p, n);
        if (did < 0)
            fail("write", strerror(errno));
        p += did;
        n -= (size_t)did;
    }
}

static unsigned char *put_text(unsigned char *at, const char *text, size_t n)
{
    *at++ = (unsigned char)(n >> 8);
    *at++ = (unsigned char)n;
    memcpy(at, text, n);
    return at + n;
}

static unsigned char *put_length(unsigned char *at, size_t n)
{
    for (; n > 127; n >>= 7)
        *at++ = (unsigned char)(n | 128);
    *at++ = (unsigned char)n;
    return at;
}

static void say_connect(struct conn *c, const char *client)
{
    unsigned char packet[64], *at = packet;
    const size_t n = strlen(client);

    *at++ = CONNECT;
    at = put_length(at, 10 + 2 + n);
    at = put_text(at, "MQTT", 4);
    *at++ = 4; /* 3.1.1 */
    *at++ = 2; /* a clean session */
    *at++ = KEEPALIVE_S >> 8;
    *at++ = KEEPALIVE_S & 255;
    at = put_text(at, client, n);
    write_all(c, packet, (size_t)(at - packet));
}

static void say_subscribe(struct conn *c)
{
    unsigned char packet[TOPIC_MAX + 16], *at = packet;
    const size_t n = strlen(o.topic);

    *at++ = SUBSCRIBE;
    at = put_length(at, 2 + 2 + n + 1);
    *at++ = 0;
    *at++ = 1;
    at = put_text(at, o.topic, n);
    *at++ = 1; /* QoS */
    write_all(c, packet, (size_t)(at - packet));
}

/* Return how many messages may be sent until now. */
static int64_t sent_max(void)
{
    const int64_t by_now = (now_us() - started_us) * o.rate / 1000000;

    return o.rate && by_now < o.count ? by_now : o.count;
}

/* Fill the window of the connection, in one write. */
static void publish_more(struct conn *c)
{
    const int64_t max = sent_max();
    static unsigned char packets[WINDOW_MAX * (BYTES_MAX + TOPIC_MAX + 16)];
    unsigned char *at = packets;
    const size_t topic_n = strlen(o.topic);
    char number[24];

    for (; c->open < o.window && sent < max; c->open++, sent++) {
        *at++ = PUBLISH | QOS1;
        at = put_length(at, 2 + topic_n + 2 + (size_t)o.bytes);
        at = put_text(at, o.topic, topic_n);
        c->next_id = c->next_id == UINT16_MAX ? 1 : c->next_id + 1;
        *at++ = (unsigned char)(c->next_id >> 8);
        *at++ = (unsigned char)c->next_id;
        snprintf(number, sizeof(number), "%0*" PRId64, NUMBER_BYTES, sent);
        memset(at, 'x', (size_t)o.bytes);
        memcpy(at, number, NUMBER_BYTES);
        at += o.bytes;
    }
    write_all(c, packets, (size_t)(at - packets));
}

/* ------------------------------------------------------------------ received */

static void take_publish(const unsigned char *body, size_t n, unsigned char **acks)
{
    char number[NUMBER_BYTES + 1] = "";
    const size_t topic_n = (size_t)body[0] << 8 | body[1];

    if (n < 4 + topic_n + NUMBER_BYTES)
        fail("a message", "is shorter than they are sent");
    const unsigned char *id = body + 2 + topic_n;
    const unsigned char ack[] = {PUBACK << 4, 2, id[0], id[1]};
    memcpy(*acks, ack, sizeof(ack));
    *acks += sizeof(ack);
    if (late) {
        lateness_note_due((const char *)id + 2, n - 4 - topic_n);
        return;
    }
    memcpy(number, id + 2, NUMBER_BYTES);
    const int64_t k = strtoll(number, NULL, 10);
    last_us = now_us();
    first_us = first_us ? first_us : last_us;
    if (k < 0 || k >= o.count) {
        strange++;
        return;
    }
    twice += seen[k] > 0;
    came += seen[k] == 0;
    seen[k] = 1;
}

static void take_packet(struct conn *c, int type, const unsigned char *body, size_t n,
                        unsigned char **acks)
{
    switch (type) {
    case CONNACK:
        if (n < 2 || body[1] != 0)
            fail("connect", "the broker refuses");
        c->accepted = true;
        if (seen)
            say_subscribe(c);
        else
            publish_more(c);
        break;
    case SUBACK:
        printf("ready\n");
        fflush(stdout);
        break;
    case PUBACK:
        c->open--;
        acked++;
        break;
    case PUBLISH >> 4:
        take_publish(body, n, acks);
        break;
    default:
        fail("the broker", "sends what it should not");
    }
}

/* Return the length of the packet at p; 0: it is incomplete. body: where its body
 * begins. */
static size_t packet_bytes(const unsigned char *p, size_t n, size_t *body)
{
    size_t length = 0;

    for (size_t i = 1; i < n && i < 5; i++) {
        length |= (size_t)(p[i] & 127) << 7 * (i - 1);
        if (p[i] < 128) {
            *body = i + 1;
            return n >= i + 1 + length ? i + 1 + length : 0;
        }
    }
    return 0;
}

static void read_conn(struct conn *c)
{
    static unsigned char acks[IN_BYTES];
    unsigned char *ack = acks;
    size_t at = 0, bytes, body = 0;
    const ssize_t n = read(c->fd, c->in + c->in_n, IN_BYTES - c->in_n);

    if (n <= 0)
        fail("the broker", n == 0 ? "hangs up" : strerror(errno));
    c->in_n += (size_t)n;
    while ((bytes = packet_bytes(c->in + at, c->in_n - at, &body)) > 0) {
        take_packet(c, c->in[at] >> 4, c->in + at + body, bytes - body, &ack);
        at += bytes;
    }
    memmove(c->in, c->in + at, c->in_n - at);
    c->in_n -= at;
    if (ack > acks)
        write_all(c, acks, (size_t)(ack - acks));
    if (seen == NULL && c->open <= o.window / 2)
        publish_more(c);
}

static void open_conn(struct conn *c, int number)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)o.port),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char client[32];

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(c->fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
        fail("connect", strerror(errno));
    c->in = malloc(IN_BYTES);
    snprintf(client, sizeof(client), "load-%d-%d", (int)getpid(), number);
    say_connect(c, client);
}

/* ---------------------------------------------------------------------- main */

static void run(int64_t n)
{
    struct pollfd fds[CONNS_MAX];
    const int wait_ms = o.rate ? TICK_MS : (int)o.wait_s * 1000;

    for (int i = 0; i < n; i++) {
        open_conn(&conns[i], i);
        fds[i] = (struct pollfd){.fd = conns[i].fd, .events = POLLIN};
    }
    while (late ? !*lateness_done() : seen ? came < o.count : acked < o.count) {
        const int ready = poll(fds, (nfds_t)n, wait_ms);
        if (ready < 0 || (ready == 0 && o.rate == 0))
            break;
        for (int i = 0; i < n; i++) {
            if (fds[i].revents)
                read_conn(&conns[i]);
            if (o.rate && conns[i].accepted)
                publish_more(&conns[i]);
        }
    }
}

static const struct {
    const char *name;
    const char **text;
    int64_t *number, most;
} words[] = {{"--topic", &o.topic, NULL, 0},
             {"--port", NULL, &o.port, UINT16_MAX},
             {"--count", NULL, &o.count, INT64_C(1000000000)},
             {"--conns", NULL, &o.conns, CONNS_MAX},
             {"--window", NULL, &o.window, WINDOW_MAX},
             {"--bytes", NULL, &o.bytes, BYTES_MAX},
             {"--rate", NULL, &o.rate, INT64_C(1000000)},
             {"--wait", NULL, &o.wait_s, 3600}};

static void read_word(const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].name, name) != 0)
            continue;
        if (words[i].text) {
            *words[i].text = value;
            return;
        }
        *words[i].number = strtoll(value, NULL, 10);
        if (*words[i].number < 1 || *words[i].number > words[i].most)
            fail(name, "is out of range");
        return;
    }
    fail(name, "is no option");
}

int main(int argc, char **argv)
{
    for (int i = 2; i + 1 < argc; i += 2)
        read_word(argv[i], argv[i + 1]);
    late = argc > 1 && strcmp(argv[1], "late") == 0;
    const bool reads = late || (argc > 1 && strcmp(argv[1], "read") == 0);
    if (argc % 2 != 0 || !o.topic || strlen(o.topic) > TOPIC_MAX || !o.port || !o.count ||
        o.bytes < NUMBER_BYTES || (!reads && strcmp(argv[1], "publish") != 0))
        fail("usage", "see the head of mqtt_load.c");
    if (reads)
        seen = calloc((size_t)o.count, 1);
    if (late)
        lateness_init(o.count);
    started_us = now_us();
    run(reads ? 1 : o.conns);
    if (late)
        return lateness_print();
    if (!reads) {
        first_us = started_us;
        last_us = now_us();
        came = acked;
    }
    const double seconds = (double)(last_us - first_us) / 1e6;
    printf("{\"count\":%" PRId64 ",\"lost\":%" PRId64 ",\"twice\":%" PRId64
           ",\"strange\":%" PRId64 ",\"seconds\":%.3f,\"per_s\":%.0f}\n",
           came, o.count - came, twice, strange, seconds,
           seconds > 0 ? (double)came / seconds : 0.0);
    return 0;
}
