/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_redis.c - the guarantees of bridge/redis/redis.h with real servers of our own, on
 * a Unix socket in a folder of our own, stopped, killed and restarted under load.
 */
#include "bridge/base/buf.h"
#include "bridge/base/histogram.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/embedded.h"
#include "bridge/redis/redis.h"
#include "bridge/redis/resp.h"
#include "tests/redis_server.h"
#include "tests/unit.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

static char dir[] = "/tmp/tarry-unit-redis-XXXXXX";

/* ------------------------------------------------------------------------- waiting */

enum { SOON_MS = 20000 }; /* limit for what should happen at once, on a busy machine */

static const unsigned *watched;
static unsigned watched_until;
static int64_t wait_end_ms;

static void look(void *arg)
{
    (void)arg;
    if (*watched >= watched_until || loop_mono_ms() >= wait_end_ms)
        loop_stop();
}

/* Run the loop until *n >= until. Returns false after limit_ms. */
static bool reached(const unsigned *n, unsigned until, int64_t limit_ms)
{
    watched = n;
    watched_until = until;
    wait_end_ms = loop_mono_ms() + limit_ms;
    struct timer *t = timer_every(2, look, NULL);
    loop_run();
    timer_del(t);
    return *n >= until;
}

static void run_for(int64_t ms)
{
    static const unsigned never = 0;
    assert_false(reached(&never, 1, ms));
}

/* -------------------------------------------------------------------------- servers */

static struct child *server;
static unsigned server_ends;
static int server_pid;

static void on_server_end(void *arg, int status)
{
    (void)arg;
    (void)status;
    server = NULL;
    server_ends++;
}

static void start_server(const char *const *more)
{
    const char *argv[32] = {redis_server(), "--port", "0", "--unixsocket",
                            "r.sock",       "--save", "",  "--loglevel",
                            "warning"};
    size_t n = 9;
    for (; more && *more; more++)
        argv[n++] = *more;
    struct child_spec spec = {argv, NULL, dir, -1, true};
    struct err err;
    server = child_start(&spec, on_server_end, NULL, &err);
    assert_non_null(server);
    server_pid = child_pid(server);
}

static void kill_server(void)
{
    unsigned ends = server_ends + 1;
    child_kill(server, SIGKILL);
    assert_true(reached(&server_ends, ends, SOON_MS));
}

/* ----------------------------------------------------------------------- connections */

static int64_t command_timeout_ms; /* of the connections made from now on */

struct watcher {
    unsigned connecting, up, down;
    char why[512];
};

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct watcher *w = arg;
    w->connecting += state == REDIS_CONNECTING;
    w->up += state == REDIS_UP;
    w->down += state == REDIS_DOWN;
    if (state == REDIS_DOWN)
        snprintf(w->why, sizeof(w->why), "%s", why);
}

static struct redis *connect_as(const char *url_fmt, struct watcher *w)
{
    struct redis_conf conf = {
        .connect_timeout_ms = SOON_MS,
        .command_timeout_ms = command_timeout_ms,
        .backoff_first_ms = 5,
        .backoff_max_ms = 100,
        .client_name = "unit",
    };
    struct buf url = {0};
    struct err err;
    const char *path = strstr(url_fmt, "DIR");
    if (path) {
        buf_add(&url, url_fmt, (size_t)(path - url_fmt));
        buf_add_str(&url, dir);
        buf_add_str(&url, path + 3);
    } else {
        buf_add_str(&url, url_fmt);
    }
    assert_int_equal(redis_url_parse(buf_str(&url), &conf.url, &err), 0);
    struct buf ca = {0};
    buf_addf(&ca, "%s/ca.pem", dir);
    conf.ca_file = buf_str(&ca);
    struct redis *r = redis_new(&conf, on_state, w);
    redis_url_free(&conf.url);
    buf_free(&url);
    buf_free(&ca);
    return r;
}

struct answers {
    unsigned count, lost, errors;
    long long last;
    bool in_order;
    char text[128];
};

static void on_answer(void *arg, const redisReply *reply)
{
    struct answers *a = arg;
    a->count++;
    if (reply == NULL) {
        a->lost++;
        return;
    }
    a->errors += reply->type == REDIS_REPLY_ERROR;
    if (reply->str)
        snprintf(a->text, sizeof(a->text), "%s", reply->str);
    if (reply->type == REDIS_REPLY_INTEGER) {
        a->in_order = a->in_order && reply->integer == a->last + 1;
        a->last = reply->integer;
    }
}

static void ask(struct redis *r, const char *text, struct answers *a)
{
    struct slice args[8];
    unsigned n = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        args[n++] = (struct slice){text, len};
        text += len + (text[len] == ' ');
    }
    redis_command(r, args, n, on_answer, a);
}

static int setup(void **state)
{
    (void)state;
    server = NULL;
    command_timeout_ms = SOON_MS;
    loop_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (server)
        kill_server();
    loop_fini();
    return 0;
}

static struct redis *up(const char *url, struct watcher *w)
{
    struct redis *r = connect_as(url, w);
    assert_int_equal(w->connecting, 0); /* never from within */
    assert_true(reached(&w->up, 1, SOON_MS));
    assert_true(redis_is_up(r));
    w->down = 0; /* attempts from before the server was listening */
    return r;
}

/* ---------------------------------------------------------------------------- tests */

static void pipelined_commands_are_answered_in_order(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {.in_order = true};
    start_server(NULL);
    struct redis *r = up("unix://DIR/r.sock?db=2", &w);
    for (int i = 0; i < 50000; i++)
        ask(r, "INCR n", &a);
    assert_true(reached(&a.count, 50000, SOON_MS));
    assert_true(a.in_order);
    assert_int_equal(a.last, 50000);
    assert_int_equal(redis_silent_ms(r), 0);
    ask(r, "CLIENT LIST", &a);
    assert_true(reached(&a.count, 50001, SOON_MS));
    assert_non_null(strstr(a.text, "name=unit"));
    redis_free(r);
}

static void a_reply_larger_than_a_turn_arrives_complete(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {0};
    start_server(NULL);
    struct redis *r = up("unix://DIR/r.sock", &w);
    ask(r, "SETRANGE big 3000000 x", &a);
    ask(r, "GET big", &a);
    ask(r, "STRLEN big", &a);
    assert_true(reached(&a.count, 3, SOON_MS));
    assert_int_equal(a.last, 3000001);
    redis_free(r);
}

static void
open_commands_get_null_when_the_server_is_killed_and_it_reconnects(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {0};
    start_server(NULL);
    struct redis *r = up("unix://DIR/r.sock", &w);
    kill(server_pid, SIGSTOP);
    for (int i = 0; i < 100; i++)
        ask(r, "PING", &a);
    kill_server();
    assert_true(reached(&w.down, 1, SOON_MS));
    assert_int_equal(a.count, 100);
    assert_int_equal(a.lost, 100);
    assert_false(redis_is_up(r));
    assert_true(reached(&w.down, 3, SOON_MS));
    run_for(300);
    assert_true(w.down < 20); /* it backs off */
    assert_non_null(strstr(w.why, "connect: "));
    start_server(NULL);
    assert_true(reached(&w.up, 2, SOON_MS));
    ask(r, "PING", &a);
    assert_true(reached(&a.count, 101, SOON_MS));
    assert_string_equal(a.text, "PONG");
    redis_free(r);
}

/* Without the loop: earlier calls are answered first. */
static void wait_until_the_server_has_answered(void)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/r.sock", dir);
    redisContext *other = redisConnectUnix(path);
    assert_non_null(other);
    void *reply = redisCommand(other, "PING");
    assert_non_null(reply);
    freeReplyObject(reply);
    redisFree(other);
}

/* While this side was busy: it handles replies and the end of the connection at once. */
static void a_server_that_dies_right_after_an_answer_is_missed_at_once(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {0};
    siginfo_t now;
    start_server(NULL);
    struct redis *r = up("unix://DIR/r.sock", &w);
    ask(r, "PING", &a);
    redis_push(r);
    wait_until_the_server_has_answered();
    kill(server_pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)server_pid, &now, WSTOPPED), 0);
    ask(r, "PING", &a);
    redis_push(r);
    kill(server_pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)server_pid, &now, WEXITED | WNOWAIT), 0);
    assert_int_equal(a.count, 0); /* the loop has not run yet */
    assert_true(reached(&w.down, 1, command_timeout_ms / 2));
    assert_int_equal(a.count, 2);
    assert_int_equal(a.lost, 1);
    assert_string_equal(a.text, "PONG");
    redis_free(r);
}

static void a_silent_server_is_left_after_the_deadline(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {0};
    start_server(NULL);
    command_timeout_ms = 1000;
    struct redis *r = up("unix://DIR/r.sock", &w);
    kill(server_pid, SIGSTOP);
    int64_t before_ms = loop_mono_ms();
    ask(r, "GET x", &a);
    assert_true(reached(&a.lost, 1, SOON_MS));
    assert_true(loop_mono_ms() - before_ms >= 1000);
    assert_string_equal(w.why, "no reply for 1000 ms, 1 commands pending");
    kill(server_pid, SIGCONT);
    assert_true(reached(&w.up, 2, SOON_MS));
    redis_free(r);
}

/* Over reconnections, until the first reply. An error is a reply, too. */
static void the_silence_of_a_stopped_server_grows_until_it_answers(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {0};
    start_server(NULL);
    command_timeout_ms = 200;
    struct redis *r = up("unix://DIR/r.sock", &w);
    run_for(100);
    assert_int_equal(redis_silent_ms(r), 0); /* it owes no reply */
    int64_t before_ms = loop_mono_ms();
    kill(server_pid, SIGSTOP);
    ask(r, "PING", &a);
    assert_true(reached(&w.down, 1, SOON_MS));
    run_for(300);
    int64_t silent_ms = redis_silent_ms(r);
    assert_within(silent_ms, 400, loop_mono_ms() - before_ms);
    kill(server_pid, SIGCONT);
    assert_true(reached(&w.up, 2, SOON_MS));
    assert_int_equal(redis_silent_ms(r), 0);
    for (unsigned n = a.count + 1; a.errors == 0; n++) { /* several on a busy machine */
        ask(r, "WRONG", &a);
        assert_true(reached(&a.count, n, SOON_MS));
    }
    assert_int_equal(redis_silent_ms(r), 0);
    redis_free(r);
}

static void an_acl_user_logs_in_and_sees_only_permitted_keys(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct answers a = {0};
    start_server(
        (const char *[]){"--user", "bob", "on", ">pa:ss", "~*", "-@all", "+get", NULL});
    struct redis *r = up("unix://bob:pa:ss@DIR/r.sock", &w);
    ask(r, "SET x 1", &a);
    assert_true(reached(&a.count, 1, SOON_MS));
    assert_int_equal(a.errors, 1);
    assert_non_null(strstr(a.text, "NOPERM"));
    redis_free(r);
}

static void a_wrong_password_is_reported_and_retried_with_backoff(void **state)
{
    (void)state;
    struct watcher w = {0};
    start_server((const char *[]){"--requirepass", "right", NULL});
    struct redis *r = connect_as("unix://:wrong@DIR/r.sock", &w);
    assert_true(reached(&w.down, 1, SOON_MS));
    while (strstr(w.why, "connect: ")) /* it was not listening yet */
        assert_true(reached(&w.down, w.down + 1, SOON_MS));
    unsigned before = w.down;
    run_for(500);
    assert_true(w.down - before <= 8); /* backoff_max is 100 ms, less 30 % */
    assert_int_equal(w.up, 0);
    assert_non_null(strstr(w.why, "AUTH failed: WRONGPASS"));
    assert_null(strstr(w.why, "wrong@"));
    redis_free(r);

    struct watcher w2 = {0};
    r = connect_as("unix://DIR/r.sock", &w2);
    assert_true(reached(&w2.down, 1, SOON_MS));
    assert_non_null(strstr(w2.why, "NOAUTH"));
    redis_free(r);
}

/* It connects, answers, and is lost again, this many times. Returns the duration in
 * ms. */
static int64_t lose_again_and_again(unsigned times, bool call)
{
    struct redis_conf conf = {.connect_timeout_ms = SOON_MS,
                              .command_timeout_ms = SOON_MS,
                              .backoff_first_ms = 5,
                              .backoff_max_ms = 5000};
    struct buf url = {0};
    struct err err;
    struct watcher w = {0};
    struct histogram took = {0};
    struct resp call_of = {0};
    buf_addf(&url, "unix://%s/r.sock", dir);
    assert_int_equal(redis_url_parse(buf_str(&url), &conf.url, &err), 0);
    struct redis *r = redis_new(&conf, on_state, &w);
    assert_true(reached(&w.up, 1, SOON_MS));
    int64_t started_ms = loop_mono_ms();
    for (unsigned i = 1; i <= times; i++) {
        struct answers a = {0};
        resp_begin(&call_of);
        resp_add(&call_of, SLICE_LIT("PING"));
        if (call)
            redis_whole_command(r, resp_end(&call_of), &took, on_answer, &a);
        else
            ask(r, "TIME", &a);
        assert_true(reached(&a.count, 1, SOON_MS));
        redis_reconnect(r, "cut");
        assert_true(reached(&w.up, i + 1, SOON_MS));
    }
    int64_t took_ms = loop_mono_ms() - started_ms;
    redis_free(r);
    resp_free(&call_of);
    redis_url_free(&conf.url);
    buf_free(&url);
    return took_ms;
}

static void
a_connection_that_answered_a_call_is_opened_again_after_the_first_backoff(void **state)
{
    (void)state;
    start_server(NULL);
    assert_true(lose_again_and_again(12, true) < 8000); /* growing: 15 s, less 30 % */
}

static void a_connection_that_answered_no_call_is_opened_again_ever_later(void **state)
{
    (void)state;
    start_server(NULL);
    assert_true(lose_again_and_again(9, false) > 1500); /* 5 + 10 + ... ms, less 30 % */
}

static void the_error_text_of_a_full_server_is_reported(void **state)
{
    (void)state;
    struct watcher w = {0}, w2 = {0};
    start_server((const char *[]){"--maxclients", "1", NULL});
    struct redis *first = up("unix://DIR/r.sock", &w);
    struct redis *second = connect_as("unix://DIR/r.sock", &w2);
    assert_true(reached(&w2.down, 1, SOON_MS));
    assert_non_null(strstr(w2.why, "max number of clients"));
    redis_free(first);
    assert_true(reached(&w2.up, 1, SOON_MS));
    redis_free(second);
}

static struct redis *doomed;

static void reconnect_from_reply(void *arg, const redisReply *reply)
{
    unsigned *calls = arg;
    ++*calls;
    if (reply)
        redis_reconnect(doomed, "asked for");
}

static void free_from_reply(void *arg, const redisReply *reply)
{
    unsigned *calls = arg;
    if (++*calls == 1 && reply)
        redis_free(doomed);
}

static void a_reply_callback_may_reconnect_or_free(void **state)
{
    (void)state;
    const struct slice ping = SLICE_LIT("PING");
    struct watcher w = {0};
    unsigned calls = 0;
    start_server(NULL);
    doomed = up("unix://DIR/r.sock", &w);
    for (int i = 0; i < 10; i++)
        redis_command(doomed, &ping, 1, reconnect_from_reply, &calls);
    assert_true(reached(&w.down, 1, SOON_MS));
    assert_int_equal(calls, 10);
    assert_string_equal(w.why, "asked for");
    assert_true(reached(&w.up, 2, SOON_MS));
    calls = 0;
    for (int i = 0; i < 10; i++)
        redis_command(doomed, &ping, 1, free_from_reply, &calls);
    assert_true(reached(&calls, 10, SOON_MS));
    run_for(20);
    assert_int_equal(calls, 10);
}

/* The state that a callback of a lost command sees. */
struct lost_seen {
    struct watcher *w;
    unsigned calls, down_untold, still_up;
};

static void look_when_lost(void *arg, const redisReply *reply)
{
    struct lost_seen *seen = arg;
    seen->calls++;
    assert_null(reply);
    seen->down_untold += seen->w->down == 0;
    seen->still_up += redis_is_up(doomed);
}

/* A callback that gets NULL must see that the connection is down. */
static void a_lost_connection_is_reported_before_open_commands_get_null(void **state)
{
    (void)state;
    const struct slice ping = SLICE_LIT("PING");
    struct watcher w = {0};
    start_server(NULL);
    doomed = up("unix://DIR/r.sock", &w);
    struct lost_seen seen = {.w = &w};
    kill(server_pid, SIGSTOP);
    for (int i = 0; i < 10; i++)
        redis_command(doomed, &ping, 1, look_when_lost, &seen);
    kill_server();
    assert_true(reached(&seen.calls, 10, SOON_MS));
    assert_int_equal(seen.down_untold, 0);
    assert_int_equal(seen.still_up, 0);
    redis_free(doomed);
}

static void free_when_down(void *arg, enum redis_state state, const char *why)
{
    (void)why;
    if (state == REDIS_DOWN)
        redis_free(doomed);
    *(unsigned *)arg += state == REDIS_UP;
}

static void a_state_callback_may_free_with_commands_open(void **state)
{
    (void)state;
    const struct slice ping = SLICE_LIT("PING");
    struct redis_conf conf = {.connect_timeout_ms = SOON_MS,
                              .command_timeout_ms = SOON_MS,
                              .backoff_first_ms = 5,
                              .backoff_max_ms = 100};
    struct answers a = {0};
    struct buf path = {0};
    unsigned ups = 0;
    start_server(NULL);
    struct watcher w = {0};
    redis_free(up("unix://DIR/r.sock", &w)); /* otherwise the first attempt may fail */
    buf_addf(&path, "%s/r.sock", dir);
    conf.url.unix_path = (char *)buf_str(&path);
    doomed = redis_new(&conf, free_when_down, &ups);
    buf_free(&path);
    assert_true(reached(&ups, 1, SOON_MS));
    kill(server_pid, SIGSTOP);
    for (int i = 0; i < 10; i++)
        redis_command(doomed, &ping, 1, on_answer, &a);
    kill_server();
    assert_true(reached(&a.lost, 10, SOON_MS));
    run_for(20);
    assert_int_equal(a.count, 10);
}

struct messages {
    unsigned count;
    char last[64];
};

static void on_message(void *arg, struct slice channel, struct slice message)
{
    struct messages *m = arg;
    assert_true(slice_is(channel, "wake"));
    m->count++;
    snprintf(m->last, sizeof(m->last), "%.*s", SLICE_ARG(message));
}

/* Publish until a subscriber receives it: a subscription may start a little after its
 * connection. */
static void publish(struct redis *r, const char *text, struct answers *a)
{
    for (a->last = 0; a->last == 0; run_for(5)) {
        ask(r, text, a);
        assert_true(reached(&a->count, a->count + 1, SOON_MS));
    }
}

static void a_subscription_outlives_the_connection(void **state)
{
    (void)state;
    struct watcher w = {0}, w2 = {0};
    struct answers a = {0};
    struct messages m = {0};
    start_server(NULL);
    command_timeout_ms = 1000;
    struct redis *sub = connect_as("unix://DIR/r.sock", &w);
    redis_subscribe(sub, (const char *const[]){"wake"}, 1, on_message, &m);
    struct redis *pub = up("unix://DIR/r.sock", &w2);
    assert_true(w.up || reached(&w.up, 1, SOON_MS));
    publish(pub, "PUBLISH wake one", &a);
    assert_true(reached(&m.count, 1, SOON_MS));
    assert_string_equal(m.last, "one");
    unsigned before = w.down;
    run_for(1300); /* a subscriber without messages is not at fault */
    assert_int_equal(w.down, before);

    kill_server();
    start_server(NULL);
    assert_true(reached(&w.up, 2, SOON_MS));
    assert_true(reached(&w2.up, 2, SOON_MS));
    publish(pub, "PUBLISH wake two", &a);
    assert_true(reached(&m.count, 2, SOON_MS));
    assert_string_equal(m.last, "two");
    redis_free(sub);
    redis_free(pub);
}

/* ------------------------------------------------------------------------------ TLS */

static const char make_certificates[] =
    "cd \"$0\" && exec >certs.log 2>&1 && "
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key "
    "-out ca.pem && "
    "openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout s.key -out s.csr && "
    "echo 'subjectAltName=DNS:localhost' > s.ext && "
    "openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
    "-extfile s.ext -out s.pem";

static unsigned certs_done;

static void on_certs(void *arg, int status)
{
    (void)arg;
    assert_int_equal(status, 0);
    certs_done = 1;
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static void tls_is_verified_and_a_wrong_name_refused(void **state)
{
    (void)state;
    const char *argv[] = {"sh", "-c", make_certificates, dir, NULL};
    struct child_spec spec = {argv, NULL, NULL, -1, true};
    assert_non_null(child_start(&spec, on_certs, NULL, NULL));
    assert_true(reached(&certs_done, 1, SOON_MS));
    char port[8], url[64];
    snprintf(port, sizeof(port), "%d", free_port());
    start_server((const char *[]){"--tls-port", port, "--tls-cert-file", "s.pem",
                                  "--tls-key-file", "s.key", "--tls-ca-cert-file",
                                  "ca.pem", "--tls-auth-clients", "no", NULL});
    struct watcher w = {0}, w2 = {0};
    struct answers a = {.in_order = true};
    snprintf(url, sizeof(url), "rediss://localhost:%s", port);
    unsigned ends = server_ends;
    struct redis *r = connect_as(url, &w);
    int64_t end_ms = loop_mono_ms() + SOON_MS;
    while (!reached(&w.up, 1, 20) && server_ends == ends && loop_mono_ms() < end_ms)
        ;
    if (getenv("TARRY_REDIS_SERVER") && server_ends > ends) {
        redis_free(r);
        skip(); /* this server is built without TLS */
    }
    assert_true(redis_is_up(r));
    w.down = 0; /* attempts from before the server was listening */
    for (int i = 0; i < 20000; i++)
        ask(r, "INCR n", &a);
    ask(r, "SETRANGE big 3000000 x", &a);
    ask(r, "GET big", &a);
    assert_true(reached(&a.count, 20002, SOON_MS));
    assert_int_equal(a.lost + a.errors, 0);
    redis_free(r);

    snprintf(url, sizeof(url), "rediss://127.0.0.1:%s", port);
    r = connect_as(url, &w2);
    assert_true(reached(&w2.down, 1, SOON_MS));
    assert_string_equal(w2.why, "TLS: the server's certificate: IP address mismatch");
    redis_free(r);
}

static void an_unreachable_host_is_reported(void **state)
{
    (void)state;
    struct watcher w = {0};
    struct redis *r = connect_as("redis://127.0.0.1:1", &w);
    assert_true(reached(&w.down, 2, SOON_MS));
    assert_string_equal(w.why, "connect: Connection refused");
    redis_free(r);
}

/* ------------------------------------------------------------------------- embedded */

static unsigned stopped;

static void on_stopped(void *arg)
{
    (void)arg;
    stopped++;
}

static void an_embedded_server_keeps_its_data_when_killed_or_stopped(void **state)
{
    (void)state;
    struct err err;
    char path[64];
    struct stat st;
    struct watcher w = {0};
    struct answers a = {0};
    snprintf(path, sizeof(path), "%s/em bedded", dir);
    for (unsigned round = 1; round <= 2; round++) {
        struct embedded *e = embedded_start(redis_server(), path, &err);
        assert_non_null(e);
        struct watcher none = {0};
        w = none;
        struct redis *r = up(embedded_url(e), &w);
        ask(r, "INCR n", &a);
        assert_true(reached(&a.count, a.count + 1, SOON_MS));
        ask(r, "SHUTDOWN NOSAVE", &a); /* it exits, and is started again */
        assert_true(reached(&w.up, 2, SOON_MS));
        ask(r, "INCR n", &a);
        assert_true(reached(&a.count, a.count + 1, SOON_MS));
        assert_int_equal(a.last, 2 * round);
        redis_free(r);
        embedded_stop(e, on_stopped, NULL);
        assert_true(reached(&stopped, round, SOON_MS));
    }
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_second_embedded_server_waits_for_one_whose_daemon_was_killed(void **state)
{
    (void)state;
    struct err err = {""};
    char path[64];
    snprintf(path, sizeof(path), "%s/killed", dir);
    pid_t pid = fork();
    if (pid == 0) {
        loop_fini();
        loop_init();
        if (embedded_start(redis_server(), path, &err) == NULL)
            _exit(1);
        usleep(200000); /* so that it really runs */
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    struct embedded *e = embedded_start(redis_server(), path, &err);
    assert_string_equal(err.text, e ? err.text : "");
    assert_non_null(e);
    struct watcher w = {0};
    struct redis *r = up(embedded_url(e), &w);
    redis_free(r);
    stopped = 0;
    embedded_stop(e, on_stopped, NULL);
    assert_true(reached(&stopped, 1, SOON_MS));
}

static void an_embedded_server_that_cannot_start_reports_the_reason(void **state)
{
    (void)state;
    struct err err;
    char path[256];
    assert_null(embedded_start("no-such-server", dir, &err));
    assert_string_equal(
        err.text,
        "Failed to execute child process “no-such-server” (No such file or directory)");
    assert_null(embedded_start(redis_server(), "/no/such/dir", &err));
    assert_string_equal(err.text, "redis.dir /no/such/dir: No such file or directory");
    snprintf(path, sizeof(path), "%s/%0120d", dir, 0);
    assert_null(embedded_start(redis_server(), path, &err));
    assert_non_null(strstr(err.text, "too long for a Unix socket"));
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", dir, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT(redis)
{
    const struct CMUnitTest tests[] = {
        CASE(pipelined_commands_are_answered_in_order),
        CASE(a_reply_larger_than_a_turn_arrives_complete),
        CASE(open_commands_get_null_when_the_server_is_killed_and_it_reconnects),
        CASE(a_server_that_dies_right_after_an_answer_is_missed_at_once),
        CASE(a_silent_server_is_left_after_the_deadline),
        CASE(the_silence_of_a_stopped_server_grows_until_it_answers),
        CASE(an_acl_user_logs_in_and_sees_only_permitted_keys),
        CASE(a_wrong_password_is_reported_and_retried_with_backoff),
        CASE(a_connection_that_answered_a_call_is_opened_again_after_the_first_backoff),
        CASE(a_connection_that_answered_no_call_is_opened_again_ever_later),
        CASE(the_error_text_of_a_full_server_is_reported),
        CASE(a_reply_callback_may_reconnect_or_free),
        CASE(a_lost_connection_is_reported_before_open_commands_get_null),
        CASE(a_state_callback_may_free_with_commands_open),
        CASE(a_subscription_outlives_the_connection),
        CASE(tls_is_verified_and_a_wrong_name_refused),
        CASE(an_unreachable_host_is_reported),
        CASE(an_embedded_server_keeps_its_data_when_killed_or_stopped),
        CASE(a_second_embedded_server_waits_for_one_whose_daemon_was_killed),
        CASE(an_embedded_server_that_cannot_start_reports_the_reason),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
