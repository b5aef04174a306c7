/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * publish.c - an MQTT 5 publisher that outlives its broker.
 *
 * A killed broker loses what it accepted since it last wrote its file, even if it has
 * acknowledged it. So after each lost connection, the publisher repeats what was
 * acknowledged within UNSAFE_MS. The daemon recognises these jobs by their ids.
 */
#include "tests/faults/million/million.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OPEN_MAX = 100, UNSAFE_MS = 4000, PACKET_MAX = BODY_MAX + 512, IN_BYTES = 4096 };

static struct {
    struct entry *ledger;
    uint64_t count, sent; /* sent: at least once */
    uint32_t run;
    const char *topic;
    int port, fd; /* -1: no connection */
    struct {
        uint64_t seq;
        bool open;
    } slot[OPEN_MAX]; /* packet id less 1 */
    unsigned open;
    /* Jobs to repeat before new ones: a ring of count places. A job is in the ring, in a
     * slot, or acknowledged, so the ring never overflows. */
    uint64_t *again, again_at, again_n;
    unsigned char in[IN_BYTES];
    size_t in_n;
} p = {.fd = -1};

static unsigned char *put_text(unsigned char *to, const char *text)
{
    size_t n = strlen(text);
    *to++ = (unsigned char)(n >> 8);
    *to++ = (unsigned char)n;
    memcpy(to, text, n);
    return to + n;
}

static unsigned char *put_property(unsigned char *to, const char *name, const char *value)
{
    *to++ = 0x26; /* user property */
    return put_text(put_text(to, name), value);
}

static unsigned char *put_length(unsigned char *to, size_t n)
{
    for (; n >= 128; n /= 128)
        *to++ = (unsigned char)(n % 128 | 128);
    *to++ = (unsigned char)n;
    return to;
}

static bool send_all(const unsigned char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t got = send(p.fd, bytes, n, MSG_NOSIGNAL);
        if (got <= 0)
            return false;
        bytes += got;
        n -= (size_t)got;
    }
    return true;
}

static bool send_packet(unsigned char type, const unsigned char *rest, size_t n)
{
    unsigned char head[8] = {type};
    size_t head_n = (size_t)(put_length(head + 1, n) - head);
    return send_all(head, head_n) && send_all(rest, n);
}

static void send_again(uint64_t seq)
{
    p.again[(p.again_at + p.again_n++) % p.count] = seq;
}

static void lose(void)
{
    int64_t since_ms = clock_us() / 1000 - UNSAFE_MS;
    close(p.fd);
    p.fd = -1;
    p.in_n = 0;
    for (unsigned i = 0; i < OPEN_MAX; i++)
        if (p.slot[i].open)
            send_again(p.slot[i].seq);
    memset(p.slot, 0, sizeof(p.slot));
    p.open = 0;
    /* Acks arrive nearly in order: what was sent 100,000 jobs ago is safe. */
    uint64_t from = p.sent > 100000 ? p.sent - 100000 : 0;
    for (uint64_t seq = from; seq < p.sent; seq++) {
        if (p.ledger[seq].acked_ms <= since_ms)
            continue;
        p.ledger[seq].acked_ms = 0;
        send_again(seq);
    }
}

static bool publish(uint64_t seq, unsigned slot)
{
    unsigned char packet[PACKET_MAX], props[256], *at = packet, *end;
    char due[24], id[24];
    snprintf(due, sizeof(due), "%lld", (long long)p.ledger[seq].due_ms);
    snprintf(id, sizeof(id), "m%llu", (unsigned long long)seq);
    end = put_property(put_property(props, "deliver-at", due), "delay-id", id);
    at = put_text(at, p.topic);
    *at++ = (unsigned char)((slot + 1) >> 8);
    *at++ = (unsigned char)(slot + 1);
    at = put_length(at, (size_t)(end - props));
    memcpy(at, props, (size_t)(end - props));
    at += end - props;
    at += body_make(p.run, seq, p.ledger[seq].due_ms, at);
    p.slot[slot].seq = seq;
    p.slot[slot].open = true;
    p.open++;
    return send_packet(0x32, packet, (size_t)(at - packet)); /* PUBLISH, QoS 1 */
}

static void connect_again(void)
{
    static const unsigned char hello[] = {0,   4, 'M', 'Q', 'T',
                                          'T', 5, 2, /* clean start */
                                          0,   0,    /* no keepalive */
                                          0,         /* no properties */
                                          0,   3, 'm', 'i', 'l'};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)p.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p.fd < 0)
        die("socket");
    setsockopt(p.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(p.fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        send_packet(0x10, hello, sizeof(hello)))
        return;
    close(p.fd);
    p.fd = -1;
    usleep(100000);
}

/* PUBACK. A job that the broker rejected is sent again: a restarted broker without its
 * subscriber rejects everything until the subscriber is back. */
static void on_puback(const unsigned char *rest, size_t n)
{
    unsigned slot = (unsigned)(rest[0] << 8 | rest[1]) - 1;
    if (slot >= OPEN_MAX || !p.slot[slot].open)
        return;
    p.slot[slot].open = false;
    p.open--;
    if (n > 2 && rest[2] != 0)
        send_again(p.slot[slot].seq);
    else
        p.ledger[p.slot[slot].seq].acked_ms = clock_us() / 1000;
}

/* Handle the complete packets. No packet in this direction is longer than 127 bytes. */
static void take_packets(void)
{
    size_t used = 0;
    while (p.in_n - used >= 2 && p.in_n - used >= 2U + p.in[used + 1]) {
        if (p.in[used] >> 4 == 4)
            on_puback(p.in + used + 2, p.in[used + 1]);
        used += 2U + p.in[used + 1];
    }
    p.in_n -= used;
    memmove(p.in, p.in + used, p.in_n);
}

static void receive(int wait_ms)
{
    struct pollfd fd = {.fd = p.fd, .events = POLLIN};
    if (poll(&fd, 1, wait_ms) <= 0)
        return;
    ssize_t got = recv(p.fd, p.in + p.in_n, sizeof(p.in) - p.in_n, 0);
    if (got <= 0) {
        lose();
        return;
    }
    p.in_n += (size_t)got;
    take_packets();
}

/* Return the next job to send: an unsafe one first, then a new one if the rate allows. */
static bool next(uint64_t rate, int64_t started_us, int64_t spread_ms, uint64_t *seq)
{
    if (p.again_n > 0) {
        *seq = p.again[p.again_at];
        p.again_at = (p.again_at + 1) % p.count;
        p.again_n--;
        return true;
    }
    if (p.sent == p.count || pace_allows(p.sent, rate, started_us) == 0)
        return false;
    *seq = p.sent++;
    p.ledger[*seq].due_ms = due_of(*seq, clock_us(), spread_ms);
    return true;
}

static unsigned free_slot(void)
{
    unsigned i = 0;
    while (p.slot[i].open)
        i++;
    return i;
}

int publish_main(int argc, char **argv)
{
    (void)argc;
    uint64_t rate = strtoull(argv[6], NULL, 10), seq;
    int64_t spread_ms = strtoll(argv[7], NULL, 10), started_us = clock_us(), safe_us = 0;
    p.port = atoi(argv[2]);
    p.topic = argv[3];
    p.count = strtoull(argv[5], NULL, 10);
    p.run = (uint32_t)strtoul(argv[8], NULL, 10);
    p.ledger = ledger_open(argv[4], p.count);
    p.again = calloc(p.count, sizeof(*p.again));
    if (p.again == NULL)
        die("memory");
    /* Done when nothing is open, and the last acknowledged job is safe. */
    while (p.sent < p.count || p.open > 0 || p.again_n > 0 || clock_us() < safe_us) {
        if (p.fd < 0) {
            connect_again();
            continue;
        }
        while (p.open < OPEN_MAX && next(rate, started_us, spread_ms, &seq)) {
            safe_us = clock_us() + UNSAFE_MS * 1000;
            if (!publish(seq, free_slot())) {
                lose();
                break;
            }
        }
        if (p.fd >= 0)
            receive(p.open < OPEN_MAX ? 2 : 100);
    }
    return 0;
}
