/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_plugins.c - the sources and sinks of the simulation; replaces bridge/plugins.c.
 *
 * "log": core_kafka.c; "session": core_session.c. "web": each request waits for its
 * answer, as HTTP; it can also cancel. "remote": delivers to the world.
 */
#include "bridge/plugin.h"
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"
#include "bridge/engine/kv.h"
#include "tests/sim/core/core.h"
#include "tests/sim/core/core_kafka.h"
#include "tests/sim/core/core_session.h"

#include <stdio.h>
#include <stdlib.h>

/* A core has at most one of each. NULL: not started. */
static struct web_source {
    struct source *src;
    unsigned open;
} * the_web;
static struct remote_sink {
    struct sink *sink;
} * the_sink;

/* Text of the world; NULL: absent. */
struct job *core_job(const struct record *r)
{
    char text[32];
    struct err err;
    struct job *job = job_new(256);
    snprintf(text, sizeof(text), "%lld", (long long)r->number);
    job->payload = job_copy_slice(job, slice_of(text));
    job->timestamp_ms = r->written_ms;
    job->topic = r->queued ? SLICE_LIT("q") : SLICE_LIT("t");
    job->partition = r->partition;
    job->offset = r->offset;
    if (r->key)
        job->key = job_copy_slice(job, slice_of(r->key));
    if (r->id)
        must(job_add_header(job, SLICE_LIT("delay-id"), slice_of(r->id), &err) == 0);
    snprintf(text, sizeof(text), "%lld", (long long)r->due_ms);
    if (r->due_ms)
        must(job_add_header(job, SLICE_LIT("deliver-at"), slice_of(text), &err) == 0);
    return job;
}

static const struct opt no_opts[] = {{0}};

/* --------------------------------------------------------------------- requests */

static void on_answer(void *arg, const struct stored_reply *reply)
{
    HOST->answered(CORE, (int64_t)(intptr_t)arg, (int)reply->outcome);
}

static void on_cancelled(void *arg, enum cancelled answer)
{
    HOST->answered(CORE, (int64_t)(intptr_t)arg, (int)answer);
}

static void on_request(int64_t number)
{
    const struct record *r = HOST->request(CORE, number);
    if (the_web == NULL)
        HOST->answered(CORE, number, -1);
    else if (r->cancels)
        source_cancel(the_web->src, SLICE_LIT("web"), slice_of(r->id), on_cancelled,
                      (void *)(intptr_t)number);
    else
        source_submit(the_web->src, core_job(r), on_answer, (void *)(intptr_t)number);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct pulled *pulled = mem_alloc((n + 1) * sizeof(*pulled));
    for (unsigned i = 0; i < n; i++) {
        pulled[i].number = strtoll(jobs[i].job->payload.p, NULL, 10);
        pulled[i].lease = jobs[i].lease;
    }
    HOST->pulled(CORE, (int64_t)(intptr_t)arg, (int)code, pulled, n);
    free(pulled);
}

static void on_pull(int64_t consumer)
{
    static const struct slice topic = SLICE_LIT("q");
    const struct ask *ask = HOST->ask(CORE, consumer);
    const struct queue_ask pull = {
        .topics = &topic, .topic_count = 1, .max = ask->max, .wait_ms = ask->wait_ms};
    if (the_web)
        queue_pull(the_web->src, &pull, on_pulled, (void *)(intptr_t)consumer);
    else
        HOST->pulled(CORE, consumer, QUEUE_AWAY, NULL, 0);
}

static void on_finished(void *arg, enum queue_code code, enum queue_state was)
{
    (void)was;
    HOST->finished(CORE, (int64_t)(intptr_t)arg, (int)code);
}

static void on_finish(int64_t consumer)
{
    const struct ask *ask = HOST->ask(CORE, consumer);
    const struct queue_finish how = {.lease = ask->lease, .end = QUEUE_END_ACKED};
    void *arg = (void *)(intptr_t)consumer;
    if (the_web == NULL)
        HOST->finished(CORE, consumer, QUEUE_AWAY);
    else if (ask->release)
        queue_release(the_web->src, SLICE_LIT("q"), slice_of(ask->id), ask->lease, 0,
                      on_finished, arg);
    else
        queue_finish(the_web->src, SLICE_LIT("q"), slice_of(ask->id), &how, on_finished,
                     arg);
}

static int web_start(struct source *src, void *arg, struct err *err)
{
    the_web = arg;
    the_web->src = src;
    (void)err;
    return 0;
}

static void web_pause(struct source *src, void *arg, bool paused)
{
    (void)src, (void)arg; /* submit answers NOT_STORED itself */
    HOST->paused(CORE, SOURCE_WEB, paused);
}

static void web_stop(struct source *src, void *arg)
{
    if (the_web == arg) {
        the_web = NULL;
        HOST->paused(CORE, SOURCE_WEB, false);
    }
    source_stopped(src);
}

static const struct source_ops source_web = {
    .name = "web",
    .help = "Requests of the simulation.",
    .size = sizeof(struct web_source),
    .opts = no_opts,
    .answers = true,
    .start = web_start,
    .pause = web_pause,
    .stop = web_stop,
};

/* --------------------------------------------------------------------- the sink */

static int remote_start(struct sink *sink, void *arg, struct err *err)
{
    the_sink = arg;
    the_sink->sink = sink;
    (void)err;
    return 0;
}

static void remote_deliver(struct sink *sink, void *arg, struct delivery *d)
{
    (void)sink, (void)arg;
    HOST->deliver(CORE, d, d->job->payload, d->attempt, d->timeout_ms, d->dead != NULL);
}

static void remote_stop(struct sink *sink, void *arg)
{
    if (the_sink == arg)
        the_sink = NULL;
    sink_stopped(sink);
}

static const struct sink_ops sink_remote = {
    .name = "remote",
    .help = "The receiver of the simulation.",
    .size = sizeof(struct remote_sink),
    .opts = no_opts,
    .target = "",
    .max_in_flight = 100,
    .start = remote_start,
    .deliver = remote_deliver,
    .stop = remote_stop,
};

void core_plugin_event(const struct event *event)
{
    if (event->kind == EVENT_OUTCOME) {
        char *why = mem_strndup(event->bytes.p, event->bytes.n);
        delivery_done(event->of, (enum outcome)event->outcome, why);
        free(why);
    } else if (event->kind == EVENT_PULL) {
        on_pull(event->number);
    } else if (event->kind == EVENT_FINISH) {
        on_finish(event->number);
    } else if (event->kind == EVENT_LAB) {
        core_lab_event(event->of);
    } else if (event->kind == EVENT_REQUEST) {
        on_request(event->number);
    } else if (event->kind == EVENT_SESSION) {
        core_session_on_event();
    } else {
        core_kafka_on_event(event);
    }
}

extern const struct sink_ops sink_queue, sink_lab;
extern const struct source_ops source_lab;
const struct source_ops *const source_plugins[] = {&source_log, &source_session,
                                                   &source_web, &source_lab, NULL};
const struct sink_ops *const sink_plugins[] = {&sink_remote, &sink_queue, &sink_lab,
                                               NULL};

int plugins_worker(int argc, char **argv)
{
    (void)argc, (void)argv;
    return 64;
}
