/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_mqtt_paho.c - how a worker's process leaves its broker.
 */
#include "sources/mqtt/mqtt_paho.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* A broker that listens on loopback; gives its descriptor. */
static int listen_at(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t n = sizeof(*at);
    *at = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)at, n), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &n), 0);
    return fd;
}

/* A process that sends its last word to this broker, closes as paho does, and leaves it
 * within limit_ms; gives its id. */
static pid_t leave(const struct sockaddr_in *broker, int limit_ms)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char first;
    if (connect(fd, (const struct sockaddr *)broker, sizeof(*broker)) != 0 ||
        recv(fd, &first, 1, 0) != 1 || send(fd, "PUBACK", 6, 0) != 6)
        _exit(1);
    int held = paho_dup_socket();
    close(fd);
    paho_exit(held, limit_ms);
}

static void a_slow_broker_reads_all_pubacks_before_the_connection_closes(void **state)
{
    (void)state;
    struct sockaddr_in at;
    char unread[8192] = {0}, got[16];
    int status = 0, listener = listen_at(&at);
    pid_t pid = leave(&at, 20000);
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(send(fd, unread, sizeof(unread), MSG_NOSIGNAL), sizeof(unread));
    usleep(200000); /* it leaves meanwhile, with messages that nobody has read */
    assert_int_equal(recv(fd, got, sizeof(got), 0), 6);
    assert_int_equal(recv(fd, got, sizeof(got), 0), 0);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(listener);
}

/* Messages of QoS 0 may come for as long as they like. */
static void paho_exit_ends_in_time_if_the_broker_keeps_sending(void **state)
{
    (void)state;
    struct sockaddr_in at;
    int status = 0, listener = listen_at(&at);
    const int64_t from_ms = now_ms();
    pid_t pid = leave(&at, 300);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        send(fd, "message", 7, MSG_NOSIGNAL | MSG_DONTWAIT);
        usleep(2000);
        if (now_ms() - from_ms > 20000) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            fail_msg("it still reads after 20 s");
        }
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(now_ms() - from_ms >= 300);
    close(fd);
    close(listener);
}

UNIT(mqtt_paho)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_broker_reads_all_pubacks_before_the_connection_closes),
        cmocka_unit_test(paho_exit_ends_in_time_if_the_broker_keeps_sending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
