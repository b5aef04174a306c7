/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_loop.c - the guarantees of bridge/base/loop.h, each tested on the real loop. */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
    (void)state;
    loop_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_fini();
    return 0;
}

static void stop_loop(void *arg)
{
    (void)arg;
    loop_stop();
}

/* ------------------------------------------------------------------------ timers */

struct shot {
    struct timer *timer;
    int64_t set_us, delay_ms, late_us;
    unsigned order;
    uint64_t turn;
};
static unsigned shots_left, shots_fired;

static void on_shot(void *arg)
{
    struct shot *s = arg;
    s->late_us = loop_mono_us() - s->set_us - s->delay_ms * 1000;
    s->order = shots_fired++;
    s->turn = loop_wakeups();
    if (--shots_left == 0)
        loop_stop();
}

static void a_timer_is_never_early(void **state)
{
    (void)state;
    struct shot shots[200] = {{0}};
    shots_left = 200;
    for (int i = 0; i < 200; i++) {
        struct shot *s = &shots[i];
        s->timer = timer_new(on_shot, s);
        s->delay_ms = (i * 37) % 60;
        s->set_us = loop_mono_us();
        timer_set(s->timer, s->delay_ms);
    }
    loop_run();
    for (int i = 0; i < 200; i++) {
        assert_true(shots[i].late_us >= 0);
        assert_false(timer_is_set(shots[i].timer));
        timer_del(shots[i].timer);
    }
}

static void on_short(void *arg)
{
    *(int64_t *)arg = loop_mono_us();
    loop_stop();
}

/* A busy machine also prolongs the shortest sleep. So the timer is compared with sleeps
 * of the same length. */
static void a_timer_set_in_microseconds_waits_no_whole_millisecond(void **state)
{
    (void)state;
    enum { WAIT_US = 200, TRIES = 50 };
    int64_t fired_us, best_us = INT64_MAX, sleep_us = INT64_MAX;
    struct timer *t = timer_new(on_short, &fired_us);
    for (int i = 0; i < TRIES; i++) {
        int64_t set_us = loop_mono_us();
        timer_set_us(t, WAIT_US);
        loop_run();
        assert_true(fired_us - set_us >= WAIT_US);
        best_us = fired_us - set_us < best_us ? fired_us - set_us : best_us;
        int64_t asleep_us = loop_mono_us();
        usleep(WAIT_US);
        int64_t slept_us = loop_mono_us() - asleep_us;
        sleep_us = slept_us < sleep_us ? slept_us : sleep_us;
    }
    timer_del(t);
    assert_within(best_us, WAIT_US, sleep_us + 700);
}

static void timers_fire_in_the_order_of_their_deadlines(void **state)
{
    (void)state;
    static const int64_t delays_ms[] = {30, 10, 20, 10, 0};
    static const unsigned want[] = {4, 1, 3, 2, 0};
    struct shot shots[5] = {{0}};
    shots_left = 5;
    shots_fired = 0;
    for (int i = 0; i < 5; i++) {
        shots[i].timer = timer_new(on_shot, &shots[i]);
        timer_set(shots[i].timer, delays_ms[i]);
    }
    loop_run();
    for (int i = 0; i < 5; i++) {
        assert_int_equal(shots[i].order, want[i]);
        timer_del(shots[i].timer);
    }
}

static void timers_of_whole_seconds_fire_in_one_turn(void **state)
{
    (void)state;
    struct shot a = {0}, b = {0};
    shots_left = 2;
    a.timer = timer_every(1000, on_shot, &a);
    usleep(20000);
    b.timer = timer_every(1000, on_shot, &b);
    loop_run();
    assert_int_equal(a.turn, b.turn);
    timer_del(a.timer);
    timer_del(b.timer);
}

static struct timer *again;
static unsigned beats;
static uint64_t beat_turn;

static void beat(void *arg)
{
    (void)arg;
    assert_true(beats == 0 || loop_wakeups() > beat_turn);
    beat_turn = loop_wakeups();
    if (++beats == 100)
        loop_stop();
    else
        timer_set(again, 0);
}

static void a_timer_set_to_zero_fires_once_in_each_turn(void **state)
{
    (void)state;
    beats = 0;
    again = timer_new(beat, NULL);
    timer_set(again, 0);
    loop_run();
    assert_int_equal(beats, 100);
    timer_del(again);
}

static struct timer *pair[2];

static void delete_both(void *arg)
{
    (void)arg;
    beats++;
    timer_del(pair[0]);
    timer_del(pair[1]);
}

static void a_timer_deleted_in_a_callback_does_not_fire(void **state)
{
    (void)state;
    beats = 0;
    for (int i = 0; i < 2; i++) {
        pair[i] = timer_new(delete_both, NULL);
        timer_set(pair[i], 5);
    }
    struct timer *end = timer_new(stop_loop, NULL);
    timer_set(end, 20);
    loop_run();
    assert_int_equal(beats, 1);
    timer_del(end);
}

static void an_idle_loop_sleeps(void **state)
{
    (void)state;
    struct timer *every = timer_every(1000, stop_loop, NULL);
    struct timer *far = timer_new(stop_loop, NULL);
    timer_set(far, 3600 * 1000);
    uint64_t before = loop_wakeups();
    loop_run();
    assert_true(loop_wakeups() - before <= 3);
    timer_del(every);
    timer_del(far);
}

/* ------------------------------------------------------------- turns and threads */

static char trace[64];

static void note(void *arg)
{
    strncat(trace, arg, sizeof(trace) - strlen(trace) - 1);
}

static char note_a[] = "a", note_b[] = "b", note_hook[] = "h";

static void defer_two(void *arg)
{
    (void)arg;
    trace[0] = '\0';
    loop_defer(note, note_a);
    loop_defer(note, note_b);
    loop_stop();
}

static void deferred_calls_run_in_order_and_before_the_hooks(void **state)
{
    (void)state;
    struct turn_hook *h = loop_each_turn(note, note_hook);
    loop_post(defer_two, NULL);
    loop_run();
    assert_string_equal(trace, "abh");
    turn_hook_del(h);
}

static void stop_at_once(void *arg)
{
    (void)arg;
    loop_stop();
}

static void the_newest_hook_is_called_first(void **state)
{
    (void)state;
    struct turn_hook *store = loop_each_turn(note, note_a),
                     *listener = loop_each_turn(note, note_b);
    trace[0] = '\0';
    loop_post(stop_at_once, NULL);
    loop_run();
    assert_memory_equal(trace, "ba", 2);
    turn_hook_del(store);
    turn_hook_del(listener);
}

static struct turn_hook *hook;
static unsigned hook_calls;

static void defer_from_hook(void *arg)
{
    (void)arg;
    if (hook_calls++ == 0)
        loop_defer(stop_loop, NULL);
}

static void functions_deferred_by_a_hook_run_before_the_loop_sleeps(void **state)
{
    (void)state;
    hook_calls = 0;
    hook = loop_each_turn(defer_from_hook, NULL);
    loop_run(); /* otherwise it would never end */
    turn_hook_del(hook);
}

static struct turn_hook *both[2];

static void delete_hooks(void *arg)
{
    (void)arg;
    hook_calls++;
    turn_hook_del(both[0]);
    turn_hook_del(both[1]);
    loop_stop();
}

static void a_hook_may_delete_itself_and_the_next_one(void **state)
{
    (void)state;
    hook_calls = 0;
    trace[0] = '\0';
    both[1] = loop_each_turn(note, note_hook);
    both[0] = loop_each_turn(delete_hooks, NULL);
    loop_run();
    assert_string_equal(trace, "");
    assert_int_equal(hook_calls, 1);
}

enum { POSTS = 2000 };
static unsigned posted[2];

static void on_posted(void *arg)
{
    unsigned n = (unsigned)(uintptr_t)arg;
    assert_int_equal(posted[n & 1], n >> 1);
    posted[n & 1]++;
    if (posted[0] == POSTS && posted[1] == POSTS)
        loop_stop();
}

static void *post_all(void *arg)
{
    for (unsigned i = 0; i < POSTS; i++)
        loop_post(on_posted, (void *)(uintptr_t)(i << 1 | (unsigned)(uintptr_t)arg));
    return NULL;
}

static void posts_of_a_thread_arrive_in_order(void **state)
{
    (void)state;
    pthread_t threads[2];
    posted[0] = posted[1] = 0;
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, (void *)i), 0);
    loop_run();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(posted[0], POSTS);
    assert_int_equal(posted[1], POSTS);
}

static void open_requests_at_the_end_leak_nothing(void **state)
{
    (void)state;
    loop_post(stop_loop, NULL);
    loop_defer(stop_loop, NULL);
    loop_defer_free(mem_alloc(10));
    timer_every(1000, stop_loop, NULL);
    loop_each_turn(note, note_hook);
    watch_add(eventfd(0, EFD_CLOEXEC), 0, NULL, NULL);
    resolve_start("127.0.0.1", "1", NULL, NULL);
}

/* ------------------------------------------------------------------- descriptors */

static struct watch *watches[2];
static unsigned seen_events;

static void on_events(void *arg, unsigned events)
{
    (void)arg;
    seen_events = events;
    beats++;
    watch_del(watches[0]);
    watch_del(watches[1]);
    loop_defer(stop_loop, NULL);
}

static void a_watch_deleted_by_another_is_not_called(void **state)
{
    (void)state;
    int a[2], b[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    beats = 0;
    watches[0] = watch_add(a[0], WATCH_READ, on_events, NULL);
    watches[1] = watch_add(b[0], WATCH_READ, on_events, NULL);
    loop_run();
    assert_int_equal(beats, 1);
    assert_int_equal(seen_events, WATCH_READ);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

static void a_refused_connection_is_reported_as_an_error_or_writable(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd, (struct sockaddr *)&to, sizeof(to));
    watches[0] = watch_add(fd, WATCH_WRITE, on_events, NULL);
    watches[1] = NULL;
    loop_run();
    assert_true(seen_events & WATCH_WRITE);
    close(fd);
}

static int reading_fd;

/* Write one byte at a time, until EOF or an error. */
static void read_one(void *arg, unsigned events)
{
    char byte;
    (void)arg;
    assert_true(events & WATCH_READ);
    if (read(reading_fd, &byte, 1) == 1)
        beats++;
    else
        loop_stop();
}

static void data_received_before_a_connection_broke_is_reported_first(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(write(fds[0], "unread", 6), 6);
    assert_int_equal(write(fds[1], "xyz", 3), 3);
    close(fds[1]); /* this resets it */
    beats = 0;
    reading_fd = fds[0];
    watches[0] = watch_add(reading_fd, WATCH_READ, read_one, NULL);
    struct timer *limit = timer_new(stop_loop, NULL);
    timer_set(limit, 20000);
    loop_run();
    assert_true(timer_is_set(limit));
    assert_int_equal(beats, 3);
    timer_del(limit);
    watch_del(watches[0]);
    close(reading_fd);
}

/* ---------------------------------------------------------- signals and children */

static int last_signal;

static void on_signal(void *arg, int signo)
{
    (void)arg;
    last_signal = signo;
    loop_stop();
}

static void a_signal_reaches_its_callback(void **state)
{
    (void)state;
    loop_on_signal(SIGHUP, on_signal, NULL);
    kill(getpid(), SIGHUP);
    loop_run();
    assert_int_equal(last_signal, SIGHUP);
}

static void a_signal_after_the_end_of_the_loop_does_not_end_the_process(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        loop_on_signal(SIGTERM, on_signal, NULL);
        loop_fini();
        raise(SIGTERM);
        _exit(7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static int exit_status;

static void on_exit_status(void *arg, int status)
{
    (void)arg;
    exit_status = status;
    loop_stop();
}

static int status_of(const char *script, int pass_fd)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    const char *env[] = {"TARRY_TEST=yes", "PATH=/usr/bin:/bin", NULL};
    struct child_spec spec = {argv, env, "/", pass_fd, true};
    struct err err;
    exit_status = -1;
    assert_non_null(child_start(&spec, on_exit_status, NULL, &err));
    loop_run();
    return exit_status;
}

static void a_childs_exit_code_or_signal_is_reported(void **state)
{
    (void)state;
    assert_int_equal(status_of("exit 7", -1), 7);
    assert_int_equal(status_of("kill -9 $$", -1), 128 + 9);
    assert_int_equal(status_of("test $TARRY_TEST = yes -a $PWD = /", -1), 0);
}

static void a_child_that_other_code_has_reaped_is_reported_as_ended(void **state)
{
    (void)state;
    const char *argv[] = {"true", NULL};
    struct child_spec spec = {argv, NULL, NULL, -1, true};
    struct err err;
    int status;
    struct child *c = child_start(&spec, on_exit_status, NULL, &err);
    assert_non_null(c);
    exit_status = 0;
    assert_int_equal(waitpid(child_pid(c), &status, 0), child_pid(c));
    loop_run();
    assert_int_equal(exit_status, CHILD_STATUS_UNKNOWN);
}

static void a_child_has_the_passed_descriptor_and_no_other(void **state)
{
    (void)state;
    int pipe_fds[2];
    char got[8] = "";
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(status_of("echo hi >&3", pipe_fds[1]), 0);
    assert_int_equal(read(pipe_fds[0], got, sizeof(got)), 3);
    assert_string_equal(got, "hi\n");
    /* ls itself opens one to list them. */
    assert_int_equal(status_of("test $(ls /proc/self/fd | wc -l) = 4", -1), 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void a_missing_program_is_an_error_at_once(void **state)
{
    (void)state;
    const char *argv[] = {"no-such-program-here", NULL};
    struct child_spec spec = {argv, NULL, NULL, -1, true};
    struct err err = {""};
    assert_null(child_start(&spec, on_exit_status, NULL, &err));
    assert_string_equal(err.text, "Failed to execute child process "
                                  "“no-such-program-here” (No such file or directory)");
}

/* A child process starts a loop and a grandchild, then is killed. */
static void a_child_ends_when_its_parent_is_killed(void **state)
{
    (void)state;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const char *argv[] = {"sleep", "60", NULL};
        struct child_spec spec = {argv, NULL, NULL, pipe_fds[1], true};
        close(pipe_fds[0]);
        child_start(&spec, on_exit_status, NULL, NULL);
        kill(getpid(), SIGKILL);
    }
    close(pipe_fds[1]);
    char byte;
    assert_int_equal(read(pipe_fds[0], &byte, 1),
                     0); /* ends when the last holder has died */
    close(pipe_fds[0]);
}

/* ------------------------------------------------------------------------- names */

static char resolved_text[64];

static void on_resolved(void *arg, const struct addrinfo *list, const char *why)
{
    (void)arg;
    const struct sockaddr_in *in = list ? (const void *)list->ai_addr : NULL;
    if (in && in->sin_family == AF_INET)
        snprintf(resolved_text, sizeof(resolved_text), "%s:%u", inet_ntoa(in->sin_addr),
                 ntohs(in->sin_port));
    else
        snprintf(resolved_text, sizeof(resolved_text), "%s", list ? "other" : why);
    loop_stop();
}

static void a_numeric_address_is_resolved_later_not_from_within(void **state)
{
    (void)state;
    resolved_text[0] = '\0';
    resolve_start("127.0.0.1", "6379", on_resolved, NULL);
    assert_string_equal(resolved_text, "");
    loop_run();
    assert_string_equal(resolved_text, "127.0.0.1:6379");
}

static void a_name_is_resolved_or_refused_with_a_reason(void **state)
{
    (void)state;
    resolve_start("localhost", "80", on_resolved, NULL);
    loop_run();
    assert_true(strcmp(resolved_text, "127.0.0.1:80") == 0 ||
                strcmp(resolved_text, "other") == 0);
    resolve_start("no such name", "80", on_resolved, NULL);
    loop_run();
    assert_true(strlen(resolved_text) > 5);
}

static void a_cancelled_name_resolution_calls_nothing(void **state)
{
    (void)state;
    resolved_text[0] = '\0';
    resolve_cancel(resolve_start("127.0.0.1", "1", on_resolved, NULL));
    resolve_cancel(resolve_start("localhost", "1", on_resolved, NULL));
    struct timer *end = timer_new(stop_loop, NULL);
    timer_set(end, 50);
    loop_run();
    assert_string_equal(resolved_text, "");
    timer_del(end);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT(loop)
{
    const struct CMUnitTest tests[] = {
        CASE(a_timer_is_never_early),
        CASE(a_timer_set_in_microseconds_waits_no_whole_millisecond),
        CASE(timers_fire_in_the_order_of_their_deadlines),
        CASE(timers_of_whole_seconds_fire_in_one_turn),
        CASE(a_timer_set_to_zero_fires_once_in_each_turn),
        CASE(a_timer_deleted_in_a_callback_does_not_fire),
        CASE(an_idle_loop_sleeps),
        CASE(deferred_calls_run_in_order_and_before_the_hooks),
        CASE(the_newest_hook_is_called_first),
        CASE(functions_deferred_by_a_hook_run_before_the_loop_sleeps),
        CASE(a_hook_may_delete_itself_and_the_next_one),
        CASE(posts_of_a_thread_arrive_in_order),
        CASE(open_requests_at_the_end_leak_nothing),
        CASE(a_watch_deleted_by_another_is_not_called),
        CASE(a_refused_connection_is_reported_as_an_error_or_writable),
        CASE(data_received_before_a_connection_broke_is_reported_first),
        CASE(a_signal_reaches_its_callback),
        CASE(a_signal_after_the_end_of_the_loop_does_not_end_the_process),
        CASE(a_childs_exit_code_or_signal_is_reported),
        CASE(a_child_that_other_code_has_reaped_is_reported_as_ended),
        CASE(a_child_has_the_passed_descriptor_and_no_other),
        CASE(a_missing_program_is_an_error_at_once),
        CASE(a_child_ends_when_its_parent_is_killed),
        CASE(a_numeric_address_is_resolved_later_not_from_within),
        CASE(a_name_is_resolved_or_refused_with_a_reason),
        CASE(a_cancelled_name_resolution_calls_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
