/* SPDX-License-Identifier: BSD-2-Clause */
/* lab.c - the calls of the laboratory, and the table of its features. */
#include "tests/sim/lab.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

#include <stdlib.h>

extern const struct lab_feature lab_lines, lab_paced, lab_runs, lab_dead;
static const struct lab_feature *const features[] = {&lab_lines, &lab_paced, &lab_runs,
                                                     &lab_dead};
enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* ------------------------------------------------------------------------- calls */

struct sending {
    struct lab_call *call;
    unsigned sent;
};

struct lab_call *lab_call_new(enum lab_op op, const char *topic, const char *id,
                              void (*done)(struct lab_call *call,
                                           const struct lab_answer *answer),
                              void *of, uint64_t *stream)
{
    struct lab_call *call = mem_alloc(sizeof(*call));
    call->ask = (struct lab_ask){.op = op, .topic = topic, .id = id, .after = ""};
    call->done = done;
    call->of = of;
    call->stream = stream;
    return call;
}

static void give_up(void *arg, int64_t sent)
{
    struct lab_call *call = arg;
    if (call->core == NULL || call->sent != (unsigned)sent)
        return;
    call->core = NULL;
    uint64_t *before = draw_from(call->stream);
    call->done(call, NULL);
    draw_from(before);
}

static void send_now(void *arg, int64_t number)
{
    (void)number;
    lab_send(arg);
}

void lab_send_later(struct lab_call *call, int64_t us)
{
    uint64_t *before = draw_from(call->stream);
    call->core = NULL;
    after(us, send_now, call, 0);
    draw_from(before);
}

void lab_send(struct lab_call *call)
{
    uint64_t *before = draw_from(call->stream);
    struct sim_core *core = any_core();
    if (core == NULL) {
        lab_send_later(call, SECOND);
        draw_from(before);
        return;
    }
    struct sending *s = mem_alloc(sizeof(*s));
    call->core = core;
    call->asked = core;
    call->life = core->life;
    call->sent_us = world.now_us;
    if (call->sent++ == 0)
        call->first_us = world.now_us;
    *s = (struct sending){call, call->sent};
    core_event(core, &(struct event){.kind = EVENT_LAB, .of = s});
    after(30 * SECOND + (call->ask.op == LAB_PULL ? call->ask.ms * MS : 0), give_up, call,
          call->sent);
    draw_from(before);
}

const struct lab_ask *lab_ask(struct sim_core *core, void *call)
{
    const struct sending *s = call;
    (void)core;
    return &s->call->ask;
}

void lab_answer(struct sim_core *core, void *arg, const struct lab_answer *answer)
{
    struct sending *s = arg;
    struct lab_call *call = s->call;
    if (call->core != core || call->life != core->life || call->sent != s->sent) {
        free(s);
        return; /* the client does not wait any more */
    }
    free(s);
    call->core = NULL;
    uint64_t *before = draw_from(call->stream);
    call->done(call, answer->code < 0 ? NULL : answer);
    draw_from(before);
}

/* ---------------------------------------------------------------------- outcomes */

struct outcome_later {
    struct sim_core *core;
    unsigned life;
    void *delivery;
};

static void give_outcome(void *arg, int64_t outcome)
{
    struct outcome_later *o = arg;
    if (o->core->alive && o->core->life == o->life)
        core_event(o->core, &(struct event){.kind = EVENT_OUTCOME,
                                            .of = o->delivery,
                                            .outcome = (int)outcome,
                                            .bytes = slice_of(outcome ? "no" : "")});
    free(o);
}

void lab_outcome(struct sim_core *core, void *delivery, int64_t after_us, int outcome)
{
    struct outcome_later *o = mem_alloc(sizeof(*o));
    *o = (struct outcome_later){core, core->life, delivery};
    after(after_us, give_outcome, o, outcome);
}

bool lab_is_calm_since(int64_t us)
{
    return faults_end_us() < us - 30 * SECOND;
}

bool lab_is_slow(void)
{
    return world.plan.latency_max_us > MS;
}

int64_t lab_number(int64_t number, int64_t i)
{
    return number + i * FEATURES * ((int64_t)1 << 24);
}

long long lab_redis(const char *command, const char *key, const char *member)
{
    struct buf reply = {0};
    redis_model_command(
        server_of(slice_of(key))->redis,
        (const struct slice[]){slice_of(command), slice_of(key), slice_of(member)},
        *member ? 3 : 2, &reply);
    const char *digits = buf_str(&reply);
    if (*digits == '$' && digits[1] != '-')
        digits = strchr(digits, '\n');
    long long n = digits && digits[1] != '-' ? strtoll(digits + 1, NULL, 10) : -1;
    buf_free(&reply);
    return n;
}

/* ---------------------------------------------------------------------- features */

#define EACH_FEATURE(f)                                                                  \
    for (size_t i_ = 0; i_ < FEATURES && world.plan.lab; i_++)                           \
        for (const struct lab_feature *f = features[i_]; f; f = NULL)

void lab_write_conf(FILE *out, bool routes)
{
    EACH_FEATURE(f)
    f->write_conf(out, routes);
}

void lab_init(void)
{
    EACH_FEATURE(f)
    f->init();
}

bool lab_produce(struct step *step)
{
    if (world.plan.lab == 0 || !one_in(world.plan.lab))
        return false;
    int64_t feature = between(0, FEATURES - 1);
    features[feature]->produce(step, step->number * FEATURES + feature);
    return true;
}

void lab_deliver(struct sim_core *core, void *delivery, const struct lab_delivery *d)
{
    world.totals.deliveries++;
    features[d->number % FEATURES]->deliver(core, delivery, d);
}

void lab_server_lost(int64_t since_us)
{
    EACH_FEATURE(f)
    if (f->lost)
        f->lost(since_us);
}

int64_t lab_latest_us(void)
{
    int64_t latest_us = 0;
    EACH_FEATURE(f)
    latest_us = f->latest_us() > latest_us ? f->latest_us() : latest_us;
    return latest_us;
}

bool lab_is_done(void)
{
    EACH_FEATURE(f)
    if (!f->is_done())
        return false;
    return true;
}

void lab_judge(void)
{
    EACH_FEATURE(f)
    if (f->judge && !world.failed)
        f->judge();
}
