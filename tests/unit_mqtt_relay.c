/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_mqtt_relay.c - the relay between a broker and paho. Sockets of this test replace
 * both.
 */
#include "bridge/base/loop.h"
#include "sources/mqtt/mqtt_relay.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIMIT_MS = 20000, STRANGERS = 3 };
#define PUBLISH_1(id) "\x32\x05\0\1t\0" id /* QoS 1, topic t, no payload; MQTT 3.1.1 */
#define PUBLISH_BYTES 7
#define PUBACK(id) "\x40\x02\0" id
#define PUBLISH_2(id) "\x34\x05\0\1t\0" id
#define PINGREQ "\xc0\0"
#define PINGRESP "\xd0\0"
#define DISCONNECT "\xe0\0"

static struct rig {
    struct mqtt_relay *relay;
    struct timer *tick;
    int listener, broker, paho; /* our ends; -1: none */
    unsigned port;              /* of the relay for paho; 0: not open */
    char broker_port[16];
    unsigned connected; /* number of reports */
    unsigned messages;  /* given to the source */
    bool session_present;
    bool left;
    char lost[256];
} rig;

static struct sockaddr_in local(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void on_ready(void *arg, unsigned port)
{
    (void)arg;
    rig.port = port;
}

static void on_connected(void *arg, bool session_present)
{
    (void)arg;
    rig.connected++;
    rig.session_present = session_present;
}

static void on_message(void *arg, const struct mqtt_message *m)
{
    (void)arg;
    (void)m;
    rig.messages++;
}

static void on_lost(void *arg, const char *why)
{
    (void)arg;
    snprintf(rig.lost, sizeof(rig.lost), "%s", why);
}

static void on_left(void *arg)
{
    (void)arg;
    rig.left = true;
}

static void on_tick(void *arg)
{
    (void)arg;
    loop_stop();
}

static void turn(void)
{
    timer_set(rig.tick, 2);
    loop_run();
}

static void turns_ms(int64_t ms)
{
    for (int64_t end_ms = loop_mono_ms() + ms; loop_mono_ms() < end_ms;)
        turn();
}

/* Run the relay until this many bytes have arrived, and read them. */
static void expect(int fd, const char *bytes, size_t n)
{
    char got[256] = {0};
    ssize_t have = 0;
    assert_true(n <= sizeof(got));
    for (int64_t end_ms = loop_mono_ms() + LIMIT_MS;
         have < (ssize_t)n && loop_mono_ms() < end_ms; turn())
        have = recv(fd, got, n, MSG_PEEK | MSG_DONTWAIT);
    assert_int_equal(recv(fd, got, n, MSG_DONTWAIT), n);
    assert_memory_equal(got, bytes, n);
}
#define EXPECT(fd, lit) expect(fd, lit, sizeof(lit) - 1)

static void expect_nothing(int fd)
{
    char got;
    turns_ms(50);
    assert_int_equal(recv(fd, &got, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

#define SEND(fd, lit)                                                                    \
    assert_int_equal(send(fd, lit, sizeof(lit) - 1, MSG_NOSIGNAL), sizeof(lit) - 1)

static int connect_to(unsigned port)
{
    const struct sockaddr_in at = local(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static int setup(void **state)
{
    struct sockaddr_in at = local(0);
    socklen_t n = sizeof(at);
    (void)state;
    rig = (struct rig){.broker = -1, .paho = -1};
    loop_init();
    rig.tick = timer_new(on_tick, NULL);
    rig.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(rig.listener, (struct sockaddr *)&at, n) != 0 ||
        listen(rig.listener, 1) != 0 ||
        getsockname(rig.listener, (struct sockaddr *)&at, &n) != 0)
        return -1;
    snprintf(rig.broker_port, sizeof(rig.broker_port), "%u", ntohs(at.sin_port));
    return 0;
}

/* Start a relay that is connected to its broker; paho is not connected. */
static void begin(unsigned open_max)
{
    static const struct relay_events events = {on_ready, on_connected, on_message,
                                               on_lost, on_left};
    static struct net_conf conf;
    conf = (struct net_conf){.host = "127.0.0.1",
                             .port = rig.broker_port,
                             .connect_timeout_ms = 10000,
                             .unacknowledged_timeout_ms = 10000};
    rig.relay = relay_new(&conf, open_max, false, &events, NULL);
    for (int64_t end_ms = loop_mono_ms() + LIMIT_MS;
         rig.port == 0 && loop_mono_ms() < end_ms;)
        turn();
    assert_int_not_equal(rig.port, 0);
    rig.broker = accept(rig.listener, NULL, NULL);
}

static void begin_both(unsigned open_max)
{
    begin(open_max);
    rig.paho = connect_to(rig.port);
    SEND(rig.paho, "\x10\0"); /* the relay does not parse CONNECT */
    EXPECT(rig.broker, "\x10\0");
}

static int teardown(void **state)
{
    const int fds[] = {rig.listener, rig.broker, rig.paho};
    (void)state;
    if (rig.relay)
        relay_free(rig.relay);
    timer_del(rig.tick);
    loop_fini();
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return 0;
}

/* Lets the relay run until the source has this many messages. */
static void expect_messages(unsigned n)
{
    for (int64_t end_ms = loop_mono_ms() + LIMIT_MS;
         rig.messages < n && loop_mono_ms() < end_ms;)
        turn();
    assert_int_equal(rig.messages, n);
}

/* -------------------------------------------------------------------- other processes */

/* A process that connects to the port of the relay. Exit code 0: the connection was
 * reset. */
static pid_t stranger(void)
{
    pid_t pid = fork();
    char got;
    if (pid != 0)
        return pid;
    int fd = connect_to(rig.port);
    bool was_reset =
        send(fd, "\x10\0", 2, MSG_NOSIGNAL) < 0; /* then recv() does not report it */
    was_reset = was_reset || (recv(fd, &got, 1, 0) < 0 && errno == ECONNRESET);
    _exit(was_reset ? 0 : 1);
}

static void connections_of_other_processes_are_reset(void **state)
{
    pid_t pids[STRANGERS];
    int status = 1;
    (void)state;
    begin(20);
    for (int i = 0; i < STRANGERS; i++)
        pids[i] = stranger();
    for (int i = 0; i < STRANGERS; i++) {
        while (waitpid(pids[i], &status, WNOHANG) == 0)
            turn();
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expect_nothing(rig.broker);
    rig.paho = connect_to(rig.port);
    SEND(rig.paho, PINGREQ);
    EXPECT(rig.broker, PINGREQ);
}

/* -------------------------------------------------------------------- packets */

static void a_puback_is_sent_after_its_message_is_stored(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, PUBLISH_1("\1") "\x30\3\0\1t" PUBLISH_1("\2"));
    expect_messages(3);
    SEND(rig.paho, PINGREQ); /* overtakes them */
    EXPECT(rig.broker, PINGREQ);
    expect_nothing(rig.broker);
    assert_int_equal(relay_stored(rig.relay, 2), 0);
    EXPECT(rig.broker, PUBACK("\1"));
    expect_nothing(rig.broker);
    assert_true(relay_waits(rig.relay));
    assert_int_equal(relay_stored(rig.relay, 1), 0);
    EXPECT(rig.broker, PUBACK("\2"));
    assert_false(relay_waits(rig.relay));
    assert_int_equal(relay_stored(rig.relay, 1), -1);
    expect_nothing(rig.paho); /* it receives no message */
}

static void at_qos_2_a_pubrec_is_sent_after_its_message_is_stored(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, PUBLISH_2("\5"));
    expect_messages(1);
    expect_nothing(rig.broker);
    assert_int_equal(relay_stored(rig.relay, 1), 0);
    EXPECT(rig.broker, "\x50\2\0\5");
    SEND(rig.broker, "\x62\2\0\5");
    EXPECT(rig.broker, "\x70\2\0\5");
}

/* MQTT 3.1.1 has no receive maximum: the broker may send without a limit. */
static void at_the_limit_further_messages_wait_and_pings_are_answered(void **state)
{
    (void)state;
    begin_both(2);
    for (char id = 1; id <= 5; id++)
        SEND(rig.broker, PUBLISH_1("\1"));
    turns_ms(50);
    expect_messages(2);
    SEND(rig.paho, PINGREQ);
    EXPECT(rig.paho, PINGRESP);
    EXPECT(rig.broker, PINGREQ);
    assert_int_equal(relay_stored(rig.relay, 1), 0);
    turns_ms(50);
    expect_messages(3);
}

/* The broker's PINGRESP would come after the message. */
static void a_ping_during_a_long_message_is_answered_while_bytes_arrive(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, "\x30\x7f\0\1t");
    turns_ms(50);
    SEND(rig.paho, PINGREQ);
    EXPECT(rig.paho, PINGRESP);
    SEND(rig.paho, PINGREQ);
    expect_nothing(rig.paho);
    EXPECT(rig.broker, PINGREQ PINGREQ);
    assert_int_equal(rig.messages, 0);
}

static void a_broker_that_sends_without_end_is_no_longer_read(void **state)
{
    char many[PUBLISH_BYTES * 1000];
    size_t sent = 0;
    ssize_t n = 1;
    (void)state;
    begin_both(2);
    for (size_t i = 0; i < sizeof(many); i += PUBLISH_BYTES)
        memcpy(many + i, PUBLISH_1("\1"), PUBLISH_BYTES);
    for (; n > 0 && sent < (size_t)1 << 28; turn()) {
        turns_ms(20);
        n = 0;
        for (ssize_t now; (now = send(rig.broker, many, sizeof(many),
                                      MSG_NOSIGNAL | MSG_DONTWAIT)) > 0;)
            n += now;
        sent += (size_t)n;
    }
    assert_true(sent < 32 << 20); /* only the kernel's buffers */
    SEND(rig.paho, PINGREQ);
    EXPECT(rig.paho, PINGRESP);
    expect_messages(2);
}

static void
the_relay_pings_the_broker_in_time_if_the_broker_sets_the_keepalive(void **state)
{
    (void)state;
    begin_both(20);
    relay_ping(rig.relay, 1);
    expect_nothing(rig.broker);
    EXPECT(rig.broker, PINGREQ PINGREQ);
    SEND(rig.paho, PINGREQ);
    EXPECT(rig.broker, PINGREQ);
}

static void an_accepted_connection_is_reported_once_before_its_messages(void **state)
{
    const struct {
        const char *connack;
        size_t bytes;
        unsigned connected;
        bool session_present;
    } rows[] = {{"\x20\3\1\0\0", 5, 1, true},
                {"\x20\3\0\0\0", 5, 1, false},
                {"\x20\2\1\0", 4, 1, true},
                {"\x20\3\0\x87\0", 5, 0, false}, /* not authorized */
                {"\x20\0", 2, 0, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin_both(20);
        for (size_t n = 0; n < rows[i].bytes; n++) {
            assert_int_equal(send(rig.broker, rows[i].connack + n, 1, MSG_NOSIGNAL), 1);
            turns_ms(5);
        }
        expect(rig.paho, rows[i].connack, rows[i].bytes);
        assert_int_equal(rig.connected, rows[i].connected);
        assert_int_equal(rig.session_present, rows[i].session_present);
        SEND(rig.broker, "\x20\2\0\0"
                         "\x20\2\0\0");
        EXPECT(rig.paho, "\x20\2\0\0"
                         "\x20\2\0\0");
        assert_int_equal(rig.connected, 1);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void paho_reads_the_last_packet_before_it_notices_the_end(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, "\x20\x02\0\5"); /* CONNACK: not authorized */
    close(rig.broker);
    rig.broker = -1;
    EXPECT(rig.paho, "\x20\x02\0\5");
    char got;
    assert_int_equal(recv(rig.paho, &got, 1, 0), 0);
    assert_string_equal(relay_why(rig.relay), "the server closed the connection");
    assert_string_equal(rig.lost, ""); /* paho reports it first, with a better text */
}

static void expect_loss(const char *why)
{
    for (int64_t end_ms = loop_mono_ms() + LIMIT_MS;
         rig.lost[0] == '\0' && loop_mono_ms() < end_ms;)
        turn();
    assert_non_null(strstr(rig.lost, why));
}

static void an_invalid_packet_of_the_broker_ends_the_connection(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, "\x30\xff\xff\xff\xff\1");
    expect_loss("invalid length");
}

static void an_invalid_message_of_the_broker_ends_the_connection(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, "\x32\4\0\2tx"); /* without an id */
    expect_loss("invalid message");
    assert_int_equal(rig.messages, 0);
}

/* -------------------------------------------------------------------- leaving */

static void expect_to_leave_when_the_broker_closes(void)
{
    expect_nothing(rig.broker);
    assert_false(rig.left);
    close(rig.broker);
    rig.broker = -1;
    turns_ms(100);
    assert_true(rig.left);
}

static void only_stored_messages_are_acknowledged_before_leaving(void **state)
{
    (void)state;
    begin_both(20);
    SEND(rig.broker, PUBLISH_1("\1") PUBLISH_1("\2"));
    expect_messages(2);
    assert_int_equal(relay_stored(rig.relay, 1), 0);
    relay_leave(rig.relay);
    assert_int_equal(relay_stored(rig.relay, 1), 0); /* too late */
    SEND(rig.paho, PINGREQ);
    EXPECT(rig.broker, PUBACK("\1") DISCONNECT);
    expect_to_leave_when_the_broker_closes();
}

static void a_slow_broker_reads_all_pubacks_before_the_connection_closes(void **state)
{
    const char unread[8192] = {0x30, 0x7f};
    (void)state;
    begin_both(20);
    SEND(rig.broker, PUBLISH_1("\1"));
    expect_messages(1);
    assert_int_equal(send(rig.broker, unread, sizeof(unread), MSG_NOSIGNAL),
                     sizeof(unread));
    assert_int_equal(relay_stored(rig.relay, 1), 0);
    relay_leave(rig.relay);
    turns_ms(200); /* meanwhile it stops, with unread messages */
    EXPECT(rig.broker, PUBACK("\1") DISCONNECT);
    expect_to_leave_when_the_broker_closes();
}

/* Messages of QoS 0 may arrive at any time. */
static void leaving_ends_in_time_if_the_broker_keeps_sending(void **state)
{
    (void)state;
    begin_both(20);
    const int64_t from_ms = loop_mono_ms();
    relay_leave(rig.relay);
    while (!rig.left && loop_mono_ms() - from_ms < LIMIT_MS) {
        send(rig.broker, "\x30\x03\0\1t", 5, MSG_NOSIGNAL | MSG_DONTWAIT);
        turn();
    }
    assert_true(rig.left);
    assert_within(loop_mono_ms() - from_ms, 2500, LIMIT_MS);
}

UNIT(mqtt_relay)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(connections_of_other_processes_are_reset),
        CASE(a_puback_is_sent_after_its_message_is_stored),
        CASE(at_qos_2_a_pubrec_is_sent_after_its_message_is_stored),
        CASE(at_the_limit_further_messages_wait_and_pings_are_answered),
        CASE(a_ping_during_a_long_message_is_answered_while_bytes_arrive),
        CASE(a_broker_that_sends_without_end_is_no_longer_read),
        CASE(the_relay_pings_the_broker_in_time_if_the_broker_sets_the_keepalive),
        CASE(an_accepted_connection_is_reported_once_before_its_messages),
        CASE(paho_reads_the_last_packet_before_it_notices_the_end),
        CASE(an_invalid_packet_of_the_broker_ends_the_connection),
        CASE(an_invalid_message_of_the_broker_ends_the_connection),
        CASE(only_stored_messages_are_acknowledged_before_leaving),
        CASE(a_slow_broker_reads_all_pubacks_before_the_connection_closes),
        CASE(leaving_ends_in_time_if_the_broker_keeps_sending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
