/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_redis_find.c - connections that ask where the server is, and those that require a
 * master, with a real server of our own that becomes a replica and a master again.
 */
#include "bridge/base/loop.h"
#include "bridge/redis/embedded.h"
#include "bridge/redis/redis.h"
#include "tests/redis_server.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOON_MS = 20000 }; /* limit for what should happen at once, on a busy machine */

static struct child *server;
static char port[8], closed_port[8];

/* The finder and the connection that asks it. */
struct seeking {
    struct redis_finder finder;
    struct redis *redis;
    unsigned asked, forgotten, connecting, up, down;
    const char *port; /* its answer; NULL: not_found; "": no answer */
    bool free_when_connecting;
    int64_t connect_timeout_ms; /* 0: SOON_MS */
    char why[512];
};

static void wake(void *arg)
{
    (void)arg;
    loop_stop();
}

/* Run the loop until *n >= until. Returns false after limit_ms. */
static bool reached(const unsigned *n, unsigned until, int64_t limit_ms)
{
    int64_t end_ms = loop_mono_ms() + limit_ms;
    struct timer *t = timer_every(2, wake, NULL);
    while (*n < until && loop_mono_ms() < end_ms)
        loop_run();
    timer_del(t);
    return *n >= until;
}

static void find(void *self, struct redis *r)
{
    struct seeking *s = self;
    s->asked++;
    if (s->port == NULL)
        redis_not_found(r, "nobody knows");
    else if (*s->port)
        redis_found(r, "127.0.0.1", s->port);
}

static void forget(void *self, struct redis *r)
{
    struct seeking *s = self;
    assert_ptr_equal(r, s->redis);
    s->forgotten++;
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct seeking *s = arg;
    s->connecting += state == REDIS_CONNECTING;
    s->up += state == REDIS_UP;
    s->down += state == REDIS_DOWN;
    if (state == REDIS_DOWN)
        snprintf(s->why, sizeof(s->why), "%s", why);
    if (state == REDIS_CONNECTING && s->free_when_connecting)
        redis_free(s->redis);
}

static void seek(struct seeking *s, int64_t backoff_ms)
{
    const struct redis_conf conf = {
        .url = {.kind = REDIS_SENTINEL},
        .finder = &s->finder,
        .master_only = true,
        .connect_timeout_ms = s->connect_timeout_ms ? s->connect_timeout_ms : SOON_MS,
        .command_timeout_ms = SOON_MS,
        .backoff_first_ms = backoff_ms,
        .backoff_max_ms = backoff_ms,
    };
    s->finder = (struct redis_finder){find, forget, s, NULL};
    s->redis = redis_new(&conf, on_state, s);
    assert_int_equal(s->asked, 0); /* never from within */
}

static void found_by_its_finder_and_asked_again_each_time(void **state)
{
    (void)state;
    struct seeking s = {.port = port};
    seek(&s, 5);
    assert_true(reached(&s.up, 1, SOON_MS)); /* the server may have started only now */
    unsigned down = s.down;
    assert_int_equal(s.asked, s.connecting);
    redis_found(s.redis, "127.0.0.1", closed_port); /* without a request */
    redis_not_found(s.redis, "nothing");
    assert_true(redis_is_up(s.redis));
    s.port = closed_port;
    redis_reconnect(s.redis, "moved");
    assert_string_equal(s.why, "moved");
    assert_true(reached(&s.down, down + 3, SOON_MS));
    assert_int_equal(s.up, 1);
    s.port = port;
    assert_true(reached(&s.up, 2, SOON_MS));
    assert_int_equal(s.asked, s.connecting);
    assert_int_equal(s.forgotten, 0);
    redis_free(s.redis);
    assert_int_equal(s.forgotten, 1);
}

static void the_finders_error_is_the_reason(void **state)
{
    (void)state;
    struct seeking s = {.port = NULL};
    seek(&s, 5);
    assert_true(reached(&s.down, 3, SOON_MS));
    assert_string_equal(s.why, "nobody knows");
    assert_int_equal(s.asked, s.connecting);
    redis_free(s.redis);
    assert_int_equal(s.forgotten, 1);
}

static void a_find_that_hangs_is_cut_by_the_connect_timeout(void **state)
{
    (void)state;
    struct seeking s = {.port = "", .connect_timeout_ms = 400};
    int64_t started_ms = loop_mono_ms();
    seek(&s, 5);
    assert_true(reached(&s.down, 1, SOON_MS));
    assert_true(loop_mono_ms() - started_ms >= 395);
    assert_non_null(strstr(s.why, "the address of the server"));
    redis_found(s.redis, "127.0.0.1", port); /* too late: it is in backoff */
    assert_true(reached(&s.asked, 2, SOON_MS));
    s.port = port; /* a busy machine may need another attempt */
    redis_found(s.redis, "127.0.0.1", port);
    assert_true(reached(&s.up, 1, SOON_MS));
    redis_free(s.redis);
}

static void reconnect_now_ends_the_backoff(void **state)
{
    (void)state;
    struct seeking first = {.port = port}, s = {.port = NULL};
    seek(&first, 5);
    assert_true(reached(&first.up, 1, SOON_MS)); /* the server is listening */
    redis_free(first.redis);
    seek(&s, 60000);
    assert_true(reached(&s.down, 1, SOON_MS));
    s.port = port;
    assert_false(reached(&s.up, 1, 100));
    redis_reconnect_now(s.redis);
    assert_true(reached(&s.up, 1, SOON_MS));
    unsigned down = s.down;
    redis_reconnect_now(s.redis); /* not in backoff: no effect */
    assert_false(reached(&s.down, down + 1, 50));
    redis_free(s.redis);
}

static void a_connection_may_be_freed_before_it_asks_the_finder(void **state)
{
    (void)state;
    struct seeking s = {.port = port, .free_when_connecting = true};
    seek(&s, 5);
    assert_true(reached(&s.forgotten, 1, SOON_MS));
    assert_int_equal(s.asked, 0);
}

static void on_said(void *arg, const struct redisReply *reply)
{
    unsigned *said = arg;
    assert_null(redis_error_text(reply).p);
    (*said)++;
}

static void tell_replicaof(struct redis *r, const char *host, const char *of_port)
{
    unsigned said = 0;
    const struct slice args[] = {SLICE_LIT("REPLICAOF"), slice_of(host),
                                 slice_of(of_port)};
    redis_command(r, args, 3, on_said, &said);
    assert_true(reached(&said, 1, SOON_MS));
}

static void a_replica_is_left_until_it_is_a_master(void **state)
{
    (void)state;
    struct seeking any = {.port = port}, s = {.port = port};
    struct redis_conf plain = {.url = {.host = (char *)"127.0.0.1", .port = port},
                               .connect_timeout_ms = SOON_MS,
                               .command_timeout_ms = SOON_MS,
                               .backoff_first_ms = 5,
                               .backoff_max_ms = 5};
    any.redis = redis_new(&plain, on_state, &any);
    assert_true(reached(&any.up, 1, SOON_MS));
    tell_replicaof(any.redis, "127.0.0.1", closed_port);
    seek(&s, 5);
    assert_true(reached(&s.down, 3, SOON_MS));
    assert_int_equal(s.up, 0);
    char want[64];
    snprintf(want, sizeof(want),
             "the server is a replica (of 127.0.0.1:%s), not the master", closed_port);
    assert_string_equal(s.why, want);
    tell_replicaof(any.redis, "NO", "ONE");
    assert_true(reached(&s.up, 1, SOON_MS));
    redis_free(s.redis);
    redis_free(any.redis);
}

/* ROLE is only for a check: without it, the first READONLY error shows it. */
static void a_user_without_permission_for_role_can_connect(void **state)
{
    (void)state;
    unsigned said = 0;
    struct seeking admin = {.port = port}, s = {.port = port};
    seek(&admin, 5);
    assert_true(reached(&admin.up, 1, SOON_MS));
    const struct slice args[] = {SLICE_LIT("ACL"), SLICE_LIT("SETUSER"),
                                 SLICE_LIT("default"), SLICE_LIT("-role")};
    redis_command(admin.redis, args, 4, on_said, &said);
    assert_true(reached(&said, 1, SOON_MS));
    seek(&s, 5);
    assert_true(reached(&s.up, 1, SOON_MS));
    assert_int_equal(s.down, 0);
    redis_free(s.redis);
    redis_free(admin.redis);
}

/* ---------------------------------------------------------------------------- life */

static void on_end(void *arg, int status)
{
    (void)arg;
    (void)status;
    server = NULL;
    loop_stop();
}

/* A port without a listener. */
static void free_port(char out[8])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    snprintf(out, 8, "%u", (unsigned)ntohs(at.sin_port));
    close(fd);
}

static int setup(void **state)
{
    (void)state;
    loop_init();
    free_port(port);
    free_port(closed_port);
    const char *argv[] = {redis_server(), "--port", port,         "--bind",  "127.0.0.1",
                          "--save",       "",       "--loglevel", "warning", NULL};
    const struct child_spec spec = {argv, NULL, "/tmp", -1, true};
    struct err err;
    server = child_start(&spec, on_end, NULL, &err);
    return server ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    child_kill(server, SIGKILL);
    while (server)
        loop_run();
    loop_fini();
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT(redis_find)
{
    const struct CMUnitTest tests[] = {
        CASE(found_by_its_finder_and_asked_again_each_time),
        CASE(the_finders_error_is_the_reason),
        CASE(a_find_that_hangs_is_cut_by_the_connect_timeout),
        CASE(reconnect_now_ends_the_backoff),
        CASE(a_connection_may_be_freed_before_it_asks_the_finder),
        CASE(a_replica_is_left_until_it_is_a_master),
        CASE(a_user_without_permission_for_role_can_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
