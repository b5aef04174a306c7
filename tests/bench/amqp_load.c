/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_load.c - publishes to RabbitMQ with confirms, or consumes with acknowledgements,
 * as fast as librabbitmq does it on one connection and one thread.
 *
 *   amqp_load publish --url URL --queue Q --count N [--window 1000] [--bytes 100]
 *             [--headers N]
 *   amqp_load read --url URL --queue Q --count N [--prefetch 1000]
 *
 * publish: sends count persistent messages, with up to window unconfirmed, until all are
 * confirmed. Each begins with its number, and has N headers with a text of 13 bytes, as
 * tarry adds six. read: prints "ready" when it consumes, and ends when each number has
 * arrived. Both print one line of JSON. For read, per_s is measured from the first to the
 * last message, and twice counts duplicates.
 */
#include "tests/bench/clock.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_BYTES = 10,
    BYTES_MAX = 65536,
    FRAME_MAX = 131072,
    CHANNEL = 1,
    HEADERS_MAX = 6
};

static struct {
    const char *url, *queue;
    int64_t count, window, bytes, headers, prefetch;
} o = {.window = 1000, .bytes = 100, .prefetch = 1000};

static amqp_connection_state_t conn;
static int64_t first_us, last_us, came, twice, strange;
static uint8_t *seen;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "amqp_load: %s: %s\n", what, why);
    exit(1);
}

static void check(const char *what)
{
    const amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);

    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        fail(what, amqp_error_string2(reply.library_error));
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        fail(what, "the broker reports an error");
}

static void open_connection(void)
{
    struct amqp_connection_info info;
    char *url = strdup(o.url);

    if (amqp_parse_url(url, &info) != AMQP_STATUS_OK)
        fail("--url", o.url);
    conn = amqp_new_connection();
    if (amqp_socket_open(amqp_tcp_socket_new(conn), info.host, info.port) !=
        AMQP_STATUS_OK)
        fail("connect", info.host);
    const amqp_rpc_reply_t reply =
        amqp_login(conn, info.vhost, 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, info.user,
                   info.password);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        fail("login", info.user);
    amqp_channel_open(conn, CHANNEL);
    check("channel");
}

/* -------------------------------------------------------------------- publish */

static void publish_one(int64_t number)
{
    static char body[BYTES_MAX];
    static const char *const names[HEADERS_MAX] = {"delay-id",      "delay-due",
                                                   "delay-emitted", "delay-attempt",
                                                   "delay-source",  "delay-hops"};
    amqp_table_entry_t headers[HEADERS_MAX];
    amqp_basic_properties_t props = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                     .delivery_mode = 2};
    char text[24];

    for (int64_t i = 0; i < o.headers; i++)
        headers[i] = (amqp_table_entry_t){
            .key = amqp_cstring_bytes(names[i]),
            .value = {.kind = AMQP_FIELD_KIND_UTF8,
                      .value.bytes = amqp_cstring_bytes("1893456000000")}};
    if (o.headers > 0) {
        props._flags |= AMQP_BASIC_HEADERS_FLAG;
        props.headers = (amqp_table_t){(int)o.headers, headers};
    }
    snprintf(text, sizeof(text), "%0*" PRId64, NUMBER_BYTES, number);
    memset(body, 'x', (size_t)o.bytes);
    memcpy(body, text, NUMBER_BYTES);
    if (amqp_basic_publish(conn, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(o.queue),
                           0, 0, &props,
                           (amqp_bytes_t){(size_t)o.bytes, body}) != AMQP_STATUS_OK)
        fail("publish", "the connection ended");
}

/* RabbitMQ confirms single messages, and ranges up to a tag. lowest: the first tag that
 * is not confirmed; all tags are below o.count + 1. */
static void confirm(const amqp_basic_ack_t *ack)
{
    static uint64_t lowest = 1;
    const uint64_t first = ack->multiple ? lowest : ack->delivery_tag;

    if (ack->delivery_tag > (uint64_t)o.count)
        fail("the broker", "confirms what was not published");
    for (uint64_t tag = first; tag <= ack->delivery_tag; tag++) {
        came += seen[tag - 1] == 0;
        seen[tag - 1] = 1;
    }
    while (lowest <= (uint64_t)o.count && seen[lowest - 1])
        lowest++;
}

/* Wait for at least one confirm, then read those that have arrived, too. */
static void read_confirms(void)
{
    struct timeval none = {0, 0}, *timeout = NULL;
    amqp_frame_t frame;

    for (;; timeout = &none) {
        const int status = amqp_simple_wait_frame_noblock(conn, &frame, timeout);
        if (status == AMQP_STATUS_TIMEOUT)
            return;
        if (status != AMQP_STATUS_OK)
            fail("confirms", amqp_error_string2(status));
        if (frame.frame_type != AMQP_FRAME_METHOD ||
            frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            fail("the broker", "answers with something else than an ack");
        confirm(frame.payload.method.decoded);
        amqp_maybe_release_buffers(conn);
    }
}

static void publish(void)
{
    int64_t sent = 0;

    amqp_confirm_select(conn, CHANNEL);
    check("confirms");
    first_us = now_us();
    while (came < o.count) {
        while (sent < o.count && sent - came < o.window)
            publish_one(sent++);
        read_confirms();
    }
    last_us = now_us();
}

/* -------------------------------------------------------------------- read */

static void note(const amqp_message_t *m)
{
    char number[NUMBER_BYTES + 1] = "";

    if (m->body.len < NUMBER_BYTES)
        fail("a message", "is shorter than they are sent");
    memcpy(number, m->body.bytes, NUMBER_BYTES);
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

static void consume(void)
{
    amqp_envelope_t envelope;
    int64_t open = 0;

    amqp_basic_qos(conn, CHANNEL, 0, (uint16_t)o.prefetch, 0);
    check("prefetch");
    amqp_basic_consume(conn, CHANNEL, amqp_cstring_bytes(o.queue), amqp_empty_bytes, 0, 0,
                       0, amqp_empty_table);
    check("consume");
    printf("ready\n");
    fflush(stdout);
    while (came < o.count) {
        const amqp_rpc_reply_t reply = amqp_consume_message(conn, &envelope, NULL, 0);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL)
            fail("consume", "the connection ended");
        note(&envelope.message);
        if (++open >= o.prefetch / 10 || came == o.count) {
            amqp_basic_ack(conn, CHANNEL, envelope.delivery_tag, 1);
            open = 0;
        }
        amqp_destroy_envelope(&envelope);
        amqp_maybe_release_buffers(conn);
    }
}

/* ---------------------------------------------------------------------- main */

static const struct {
    const char *name, **text;
    int64_t *number, most;
} words[] = {{"--url", &o.url, NULL, 0},
             {"--queue", &o.queue, NULL, 0},
             {"--count", NULL, &o.count, INT64_C(1000000000)},
             {"--window", NULL, &o.window, 65535},
             {"--bytes", NULL, &o.bytes, BYTES_MAX},
             {"--headers", NULL, &o.headers, HEADERS_MAX},
             {"--prefetch", NULL, &o.prefetch, 65535}};

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
    const bool reads = argc > 1 && strcmp(argv[1], "read") == 0;
    if (argc % 2 != 0 || !o.url || !o.queue || !o.count || o.bytes < NUMBER_BYTES ||
        (!reads && strcmp(argv[1], "publish") != 0))
        fail("usage", "see the head of amqp_load.c");
    seen = calloc((size_t)o.count, 1);
    open_connection();
    if (reads)
        consume();
    else
        publish();
    amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(conn);
    const double seconds = (double)(last_us - first_us) / 1e6;
    printf("{\"count\":%" PRId64 ",\"lost\":%" PRId64 ",\"twice\":%" PRId64
           ",\"strange\":%" PRId64 ",\"seconds\":%.3f,\"per_s\":%.0f}\n",
           came, o.count - came, twice, strange, seconds,
           seconds > 0 ? (double)came / seconds : 0.0);
    return 0;
}
