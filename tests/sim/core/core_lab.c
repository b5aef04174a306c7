/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_lab.c - the source "lab" makes any call of bridge/plugin.h and queue.h for the
 * world, and lists, replays and drops dead letters as the admin API does. The sink "lab"
 * delivers to the world, with what it knows of each job.
 */
#include "bridge/engine/bridge.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"
#include "bridge/plugin.h"
#include "bridge/store/store.h"
#include "tests/sim/core/core.h"

#include <stdio.h>
#include <stdlib.h>

static struct lab_source {
    struct source *src;
} * the_lab; /* NULL: not started */
static struct lab_sink {
    struct sink *sink;
} * lab_sink;

static void answer_code(void *call, int code, int64_t lease)
{
    HOST->lab_answer(CORE, call, &(struct lab_answer){.code = code, .lease = lease});
}

static void put_id(char to[LAB_ID_MAX], struct slice id)
{
    snprintf(to, LAB_ID_MAX, "%.*s", SLICE_ARG(id));
}

/* ------------------------------------------------------------------------- jobs */

static void on_stored(void *call, const struct stored_reply *reply)
{
    answer_code(call, (int)reply->outcome, 0);
}

static void submit(void *call, const struct lab_ask *ask)
{
    char text[32];
    struct err err;
    struct job *job = job_new(256);
    snprintf(text, sizeof(text), "%lld", (long long)ask->number);
    job->payload = job_copy_slice(job, slice_of(text));
    job->topic = job_copy_slice(job, slice_of(ask->topic));
    job->partition = -1;
    job->offset = -1;
    for (int i = 0; i < LAB_HEADERS && ask->headers[i][0]; i++)
        must(job_add_header(job, slice_of(ask->headers[i][0]),
                            slice_of(ask->headers[i][1]), &err) == 0);
    if (*ask->id)
        must(job_add_header(job, SLICE_LIT("delay-id"), slice_of(ask->id), &err) == 0);
    source_submit(the_lab->src, job, on_stored, call);
}

static void on_cancelled(void *call, enum cancelled answer)
{
    answer_code(call, (int)answer, 0);
}

/* ----------------------------------------------------------------------- queues */

static void on_pulled(void *call, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct lab_item *items = mem_alloc((n + 1) * sizeof(*items));
    for (unsigned i = 0; i < n; i++) {
        items[i] = (struct lab_item){.number = strtoll(jobs[i].job->payload.p, NULL, 10),
                                     .lease = jobs[i].lease,
                                     .attempts = jobs[i].attempts};
        put_id(items[i].id, jobs[i].id);
    }
    HOST->lab_answer(CORE, call,
                     &(struct lab_answer){.code = (int)code, .items = items, .n = n});
    free(items);
}

static void pull(void *call, const struct lab_ask *ask)
{
    const struct slice topic = slice_of(ask->topic);
    const struct queue_ask how = {
        .topics = &topic, .topic_count = 1, .max = ask->max, .wait_ms = ask->ms};
    queue_pull(the_lab->src, &how, on_pulled, call);
}

static void on_changed(void *call, enum queue_code code, enum queue_state was)
{
    (void)was;
    answer_code(call, (int)code, 0);
}

static void on_touched(void *call, enum queue_code code, int64_t lease)
{
    answer_code(call, (int)code, lease);
}

static void on_number(void *call, enum queue_code code, int64_t n)
{
    HOST->lab_answer(CORE, call, &(struct lab_answer){.code = (int)code, .done = n});
}

static void finish(void *call, const struct lab_ask *ask)
{
    const struct queue_finish how = {.lease = ask->lease,
                                     .end = ask->op == LAB_ACK ? QUEUE_END_ACKED
                                                               : QUEUE_END_DELETED};
    queue_finish(the_lab->src, slice_of(ask->topic), slice_of(ask->id), &how, on_changed,
                 call);
}

/* ------------------------------------------------------------------ dead letters */

static void on_dead(void *call, const struct store_dead_reply *reply)
{
    char after[LAB_ID_MAX];
    if (reply == NULL) {
        answer_code(call, -1, 0);
        return;
    }
    struct lab_item *items = mem_alloc((reply->count + 1) * sizeof(*items));
    for (unsigned i = 0; i < reply->count; i++) {
        items[i].number = reply->items[i].buried_ms;
        put_id(items[i].id, reply->items[i].id);
    }
    put_id(after, reply->more ? reply->after : SLICE_LIT(""));
    HOST->lab_answer(CORE, call,
                     &(struct lab_answer){.items = items,
                                          .n = reply->count,
                                          .more = reply->more,
                                          .after_ms = reply->more ? reply->after_ms : 0,
                                          .done = reply->done,
                                          .after = after});
    free(items);
}

static void dead(void *call, const struct lab_ask *ask)
{
    struct route *route;
    const struct store_dead_ask how = {.what = ask->what,
                                       .id = slice_of(ask->id),
                                       .id_whole = *ask->id != '\0',
                                       .after_ms = ask->after_ms,
                                       .after = slice_of(ask->after),
                                       .max = ask->max,
                                       .look = STORE_DEAD_MAX,
                                       .replays_max = 1000,
                                       .bytes_max = STORE_DEAD_BYTES,
                                       .ahead = true};
    TAILQ_FOREACH (route, &the_lab->src->bridge->routes, link) {
        if (strcmp(route->conf->name, ask->topic) != 0)
            continue;
        int64_t bucket = *ask->id ? route_bucket_number(route, how.id) : ask->bucket;
        if (bucket >= route->bucket_count)
            break; /* not read from Redis yet */
        store_dead(route->scheds[bucket]->bucket, &how, on_dead, call);
        return;
    }
    answer_code(call, -1, 0);
}

/* ---------------------------------------------------------------------- the calls */

void core_lab_event(void *call)
{
    const struct lab_ask *ask = HOST->lab_ask(CORE, call);
    if (the_lab == NULL) {
        answer_code(call, -1, 0);
        return;
    }
    switch (ask->op) {
    case LAB_SUBMIT:
        submit(call, ask);
        break;
    case LAB_CANCEL:
        source_cancel(the_lab->src, slice_of(ask->topic), slice_of(ask->id), on_cancelled,
                      call);
        break;
    case LAB_PULL:
        pull(call, ask);
        break;
    case LAB_ACK:
    case LAB_DELETE:
        finish(call, ask);
        break;
    case LAB_RELEASE:
        queue_release(the_lab->src, slice_of(ask->topic), slice_of(ask->id), ask->lease,
                      ask->ms, on_changed, call);
        break;
    case LAB_TOUCH:
        queue_touch(the_lab->src, slice_of(ask->topic), slice_of(ask->id), ask->lease,
                    ask->ms, on_touched, call);
        break;
    case LAB_DESTROY:
        queue_destroy(the_lab->src, slice_of(ask->topic), true, on_number, call);
        break;
    case LAB_DEAD:
        dead(call, ask);
    }
}

static int lab_start(struct source *src, void *arg, struct err *err)
{
    the_lab = arg;
    the_lab->src = src;
    (void)err;
    return 0;
}

static void lab_pause(struct source *src, void *arg, bool paused)
{
    (void)src, (void)arg, (void)paused; /* submit answers NOT_STORED itself */
}

static void lab_stop(struct source *src, void *arg)
{
    if (the_lab == arg)
        the_lab = NULL;
    source_stopped(src);
}

static int lab_sink_start(struct sink *sink, void *arg, struct err *err)
{
    lab_sink = arg;
    lab_sink->sink = sink;
    (void)err;
    return 0;
}

static void lab_deliver(struct sink *sink, void *arg, struct delivery *d)
{
    (void)sink, (void)arg;
    char id[LAB_ID_MAX], target[LAB_ID_MAX];
    const struct header *run = delivery_header(d, "delay-run"),
                        *due = delivery_header(d, "delay-due");
    put_id(id, d->job->id);
    put_id(target, d->target);
    const struct lab_delivery what = {
        .number = strtoll(d->job->payload.p, NULL, 10),
        .id = id,
        .route_target = target,
        .due_ms = due ? strtoll(due->value.p, NULL, 10) : 0,
        .timeout_ms = d->timeout_ms,
        .run = run ? strtoll(run->value.p, NULL, 10) : 0,
        .attempt = d->attempt,
        .dead = d->dead != NULL,
    };
    HOST->lab_deliver(CORE, d, &what);
}

static void lab_sink_stop(struct sink *sink, void *arg)
{
    if (lab_sink == arg)
        lab_sink = NULL;
    sink_stopped(sink);
}

static const struct opt no_opts[] = {{0}};

const struct source_ops source_lab = {
    .name = "lab",
    .help = "Calls of the simulation.",
    .size = sizeof(struct lab_source),
    .opts = no_opts,
    .answers = true,
    .start = lab_start,
    .pause = lab_pause,
    .stop = lab_stop,
};

const struct sink_ops sink_lab = {
    .name = "lab",
    .help = "The laboratory of the simulation.",
    .size = sizeof(struct lab_sink),
    .opts = no_opts,
    .target = "{topic}",
    .max_in_flight = 100,
    .start = lab_sink_start,
    .deliver = lab_deliver,
    .stop = lab_sink_stop,
};
