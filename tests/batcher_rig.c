/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/batcher_rig.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "tests/fake_redis.h"
#include "tests/store_calls.h"

#include <setjmp.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct batcher_rig rig;

/* --------------------------------------------- commands that the fake Redis receives */

/* Positions of the changes in the arguments of a script, after the keys. */
static const struct shape {
    size_t head;     /* arguments before the changes, or before the partitions */
    bool partitions; /* lua/lib/ingest.lua */
    size_t stride;   /* arguments per change; one more if there are partitions */
    size_t mark;     /* index of the letter in a change; 0: it has no letter */
    char letter;     /* result of a successful first run */
} shapes[SCRIPTS] = {
    [SCRIPT_ENQUEUE] = {7, true, 8, 6, 's'}, [SCRIPT_ACK] = {2, false, 3, 2, 'a'},
    [SCRIPT_RETRY] = {1, false, 9, 8, 'r'},  [SCRIPT_CANCEL] = {3, true, 4, 3, 'c'},
    [SCRIPT_FINISH] = {7, false, 4, 3, 'f'}, [SCRIPT_RELEASE] = {7, false, 4, 3, 'r'},
    [SCRIPT_RENEW] = {1, false, 3, 0, 'r'},
};

static size_t number(struct slice word)
{
    return strtoul(word.p, NULL, 10);
}

/* Returns the result letter of a successful first run. */
static char success_letter(const struct fake_command *c)
{
    const struct shape *shape = &shapes[c->script];
    struct slice mark =
        shape->mark ? c->word[c->n - shape->stride + shape->mark] : SLICE_LIT("");
    bool bury =
        c->script == SCRIPT_RETRY && mark.n > 0 && tolower(mark.p[0]) == RETRY_HOW_BURY;
    return bury ? RETRY_BURIED : shape->letter;
}

/* Records the call in rig. Returns the number of its changes. */
static unsigned record_call(const struct fake_command *c)
{
    const struct shape *shape = &shapes[c->script];
    size_t at = 3 + number(c->word[2]) + shape->head, stride = shape->stride;
    size_t partitions = shape->partitions ? number(c->word[at]) : 0;
    unsigned count = 0;

    at += shape->partitions ? 1 + 3 * partitions : 0;
    stride += partitions > 0;
    buf_add_str(&rig.sent, script_names[c->script]);
    for (; at + stride <= c->n; at += stride, count++) {
        struct slice mark = shape->mark ? c->word[at + shape->mark] : SLICE_LIT("");
        buf_addf(&rig.sent, " %.*s", SLICE_ARG(c->word[at]));
        buf_addf(&rig.marks, "%s%.*s", count > 0 ? " " : "",
                 SLICE_ARG(mark.n > 0 ? mark : SLICE_LIT("-")));
    }
    must(at == c->n);
    buf_add_str(&rig.sent, "\n");
    buf_add_str(&rig.marks, "\n");
    buf_addf(&rig.sizes, "%u", count);
    if (partitions > 0)
        buf_addf(&rig.sizes, "/%zu", partitions);
    buf_add_str(&rig.sizes, " ");
    rig.calls++;
    return count;
}

static bool on_command(const struct fake_command *c, struct buf *lines)
{
    if (rig.pause_at && slice_is(c->word[0], rig.pause_at))
        fake.paused = true;
    rig.waits += slice_is(c->word[0], "WAIT");
    rig.times += slice_is(c->word[0], "TIME");
    if (c->script == SCRIPTS || shapes[c->script].stride == 0)
        return true;
    unsigned count = record_call(c);
    const char *plan = rig.plan && *rig.plan ? *rig.plan++ : "";
    if (*plan == '=')
        buf_addf(lines, "$%s\n", plan + 1);
    else if (*plan == '-')
        buf_addf(lines, "%s\n", plan);
    if (*plan == '\0') {
        buf_add_str(lines, "$");
        for (; count > 0; count--)
            buf_addf(lines, "%c", success_letter(c));
        buf_add_str(lines, "\n");
    }
    return *plan != '!';
}

/* -------------------------------------------------------------------------- the store */

static void on_up(void *arg)
{
    (void)arg;
    rig.ups++;
    loop_stop();
}
static void on_down(void *arg, const char *why)
{
    (void)arg;
    (void)why;
    rig.downs++;
    loop_stop();
}
static void on_reply(void)
{
    fake.commands = 0;
    loop_stop();
}
static void on_limit(void *arg)
{
    (void)arg;
    loop_stop();
}

int rig_setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR + 1);
    loop_init();
    fake_start(on_reply);
    fake.on_command = on_command;
    rig.limit = timer_new(on_limit, NULL);
    return 0;
}

void rig_start(unsigned batch_max, unsigned replicas)
{
    static const struct store_events events = {on_up, on_down, store_calls_on_name, NULL,
                                               NULL};
    struct store_conf conf = {.redis = {.connect_timeout_ms = 10000,
                                        .command_timeout_ms = 10000,
                                        .backoff_first_ms = 1,
                                        .backoff_max_ms = 1},
                              .prefix = "tarry",
                              .instance = "unit",
                              .batch_max = batch_max,
                              .durability = {.replicas = replicas}};
    char text[64];
    if (rig.store) /* left by a failed test */
        rig_stop();
    snprintf(text, sizeof(text), "redis://127.0.0.1:%u", fake.port);
    assert_int_equal(redis_url_parse(text, &conf.redis.url, NULL), 0);
    rig = (struct batcher_rig){.limit = rig.limit};
    rig.store = store_new(&conf, &events, NULL);
    store_calls_init(rig.store);
    rig.route = store_calls.route;
    rig.queue = store_calls.queue;
    redis_url_free(&conf.redis.url);
    assert_true(rig_wait_for(&rig.ups, 1));
}

void rig_stop(void)
{
    store_free(rig.store);
    rig.store = NULL;
    fake_disconnect();
    fake.paused = false;
    fake.match = NULL;
    timer_set(rig.limit, 0);
    loop_run(); /* frees deferred objects */
    buf_free(&rig.sent);
    buf_free(&rig.marks);
    buf_free(&rig.sizes);
    buf_free(&rig.results);
}

bool rig_wait_for(const unsigned *n, unsigned at_least)
{
    int64_t end_ms = loop_mono_ms() + 10000;
    while (*n < at_least && loop_mono_ms() < end_ms) {
        timer_set(rig.limit, 50);
        loop_run();
    }
    return *n >= at_least;
}

void rig_disconnect(void)
{
    unsigned downs = rig.downs;
    rig.pause_at = NULL;
    fake.paused = false;
    fake.match = "PING"; /* sent after each connect */
    fake.match_reply = "-LOADING not yet\n";
    fake_disconnect();
    assert_true(rig_wait_for(&rig.downs, downs + 1));
}

void rig_reconnect(void)
{
    fake.match = NULL;
    assert_true(rig_wait_for(&rig.ups, rig.ups + 1));
}

/* ------------------------------------------------------------------------ the changes */

#define NONE ((struct slice){NULL, 0})

void rig_on_result(void *id, char code)
{
    buf_addf(&rig.results, "%s=%c ", (const char *)id, code ? code : '0');
    rig.answers++;
    loop_stop();
}

/* Copies the parameters that a test may set. */
static void set_parameters(struct change *c, const struct change *how, const char *id)
{
    c->how = how->how;
    c->awaited = how->awaited;
    c->origin = how->origin;
    c->deadline_us = how->deadline_us;
    c->cb = rig_on_result;
    c->arg = (void *)id;
}

void rig_enqueue(struct bucket *b, const char *id, const struct change *how,
                 size_t body_n)
{
    struct job *job = job_new(body_n);
    char *body = mem_alloc(body_n + 1);
    job->id = job_copy_slice(job, slice_of(id));
    job->payload = (struct slice){body, body_n};
    struct change *c = change_of_job(sizeof(*c), b, job, NONE, NONE);
    set_parameters(c, how, id);
    bucket_add(b, BATCHER_ENQUEUE, c);
    free(body);
    job_free(job);
}

void rig_cancel(struct bucket *b, const char *id, const struct change *how)
{
    struct change *c = change_new(sizeof(*c), slice_of(id), NONE, NONE, NONE);
    set_parameters(c, how, id);
    bucket_add(b, BATCHER_CANCEL, c);
}

void rig_send(enum batcher_kind kind, const char *name)
{
    const struct change how = {.awaited = true};
    struct slice id = slice_of(name);
    void *arg = (void *)name;
    switch (kind) {
    case BATCHER_ENQUEUE:
        rig_enqueue(rig.route, name, &how, 0);
        break;
    case BATCHER_ACK:
        store_ack(rig.route, id, 5, 0, rig_on_result, arg);
        break;
    case BATCHER_RETRY:
        store_retry(rig.route, id, 5, 9, NONE, rig_on_result, arg);
        break;
    case BATCHER_BURY:
        store_bury(rig.route, id, 5, NONE, rig_on_result, arg);
        break;
    case BATCHER_CANCEL:
        rig_cancel(rig.route, name, &how);
        break;
    case BATCHER_FINISH:
        store_finish(rig.queue, id, 5, "acked", 0, 0, rig_on_result, arg);
        break;
    case BATCHER_RELEASE:
        store_release(rig.queue, id, 5, 0, true, 0, rig_on_result, arg);
        break;
    case BATCHER_RENEW:
        store_renew(rig.route, id, 5, 9, rig_on_result, arg);
        break;
    case BATCHERS:
        break;
    }
}

void rig_send_each(enum batcher_kind kind, const char *ids)
{
    static const char *const names[26] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                          "j", "k", "l", "m", "n", "o", "p", "q", "r",
                                          "s", "t", "u", "v", "w", "x", "y", "z"};
    for (; *ids; ids++)
        rig_send(kind, names[*ids - 'a']);
}
