/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_store.c - libFuzzer: the replies of a Redis, a sentinel or a node of a cluster. A
 * store and our own server run on the same loop. The server replies with the lines of the
 * input. Whatever the replies are, the outcome of each call is reported once.
 *
 * Two bytes select the URL (bit 4: replies are valid until the first call) and the calls.
 * The rest are the replies, in the format of fake_redis.h.
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/redis/redis.h"
#include "tests/fake_redis.h"
#include "tests/fuzz.h"
#include "tests/store_calls.h"

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

enum {
    TURN_US = 300,   /* of the loop, at least */
    QUIET_TURNS = 8, /* turns without a command, after which the input has ended */
    WHOLE_MS = 300   /* the limit for one input */
};

static struct {
    struct timer *quiet;
    int64_t end_ms;
    struct store *store;
    unsigned question; /* the first call; those behind it in the table follow */
    unsigned asked, answered;
    unsigned seen, turns; /* seen: all commands; turns: turns since the last one */
} run;

/* ---------------------------------------------------------------------- one input */

static void on_notified(void *arg)
{
    (void)arg;
    run.answered++;
}

static void on_up(void *arg)
{
    enum { AT_A_TIME = 3 };

    (void)arg;
    fake.healthy = false;
    for (unsigned i = 0; run.asked < AT_A_TIME; i++, run.asked++)
        store_call_rows[(run.question + i) % STORE_CALLS].call(NULL);
}
static void on_down(void *arg, const char *why)
{
    (void)arg;
    must(why != NULL);
}

/* Counted in turns, not in ms: this process may only have been waiting for a
 * processor. */
static void on_quiet(void *arg)
{
    (void)arg;
    run.turns = run.seen == fake.commands ? run.turns + 1 : 0;
    run.seen = fake.commands;
    if (run.turns >= QUIET_TURNS || loop_mono_ms() > run.end_ms)
        loop_stop();
    timer_set_us(run.quiet, TURN_US);
}

static void on_asked(void)
{
    run.turns = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_set_level(LOG_ERROR + 1);
    loop_init();
    fake_start(on_asked);
    store_calls.done = on_notified;
    run.quiet = timer_new(on_quiet, NULL);
    return 0;
}

static void begin(unsigned kind, struct sentinel **sentinel)
{
    static const struct store_events events = {on_up, on_down, store_calls_on_name, NULL,
                                               NULL};
    static const struct {
        const char *scheme, *rest;
    } forms[] = {{"redis", "/1"}, {"redis+cluster", ""}, {"redis+sentinel", "/m"}};
    struct store_conf conf = {.redis = {.connect_timeout_ms = 100,
                                        .command_timeout_ms = 100,
                                        .backoff_first_ms = 1,
                                        .backoff_max_ms = 1,
                                        .client_name = "fuzz"},
                              .prefix = "tarry",
                              .instance = "fuzz",
                              .batch_max = 8,
                              .horizon_ms = 1000};
    struct err err;
    char url[64];

    snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", forms[kind].scheme, fake.port,
             forms[kind].rest);
    must(redis_url_parse(url, &conf.redis.url, &err) == 0);
    conf.redis.master_only = true;
    if (conf.redis.url.kind == REDIS_SENTINEL) {
        *sentinel = sentinel_new(&conf.redis, NULL, NULL);
        conf.redis.finder = sentinel_finder(*sentinel);
    }
    run.store = store_new(&conf, &events, NULL);
    store_calls_init(run.store);
    redis_url_free(&conf.redis.url);
}

/* Free deferred objects. */
static void one_turn(void)
{
    run.turns = QUIET_TURNS;
    timer_set(run.quiet, 0);
    loop_run();
}

static void end(struct sentinel *sentinel)
{
    fake_disconnect();
    one_turn();
    store_free(run.store);
    sentinel_free(sentinel);
    one_turn();
    run.store = NULL;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct sentinel *sentinel = NULL;

    fake.replies = (struct slice){(const char *)bytes, n};
    run.asked = run.answered = run.seen = run.turns = fake.commands = 0;
    unsigned kind = fuzz_byte(&fake.replies);
    run.question = fuzz_byte(&fake.replies) % STORE_CALLS;
    fake.healthy = kind & 4;
    kind = (kind & 3) % 3;
    bool may_stay = fake.healthy && kind == 0;
    if (run.store && !may_stay)
        end(NULL);
    if (run.store == NULL)
        begin(kind, &sentinel);
    else
        on_up(NULL);
    run.end_ms = loop_mono_ms() + WHOLE_MS;
    timer_set_us(run.quiet, TURN_US);
    loop_run();
    /* It is expensive to make a store that is up: reuse one that is undamaged. */
    if (!may_stay || !store_is_up(run.store) || run.answered < run.asked) {
        end(sentinel);
        must(run.answered == run.asked);
    }
    return 0;
}
