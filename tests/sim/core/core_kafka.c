/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_kafka.c - replaces kafka_client.c (a consumer on the loop) and kafka_query.c (the
 * offsets of a time), which use threads and descriptors.
 */
#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"
#include "tests/sim/core/core.h"
#include "tests/sim/core/core_kafka.h"

#include <stdio.h>
#include <stdlib.h>

enum { EVENTS_PER_TURN = 500, TICK_MS = 1000, CLOSE_MAX_MS = 300 };

struct kafka_client {
    const char *who;
    const struct kafka_events *events;
    void *arg;
    struct timer *again, *tick;
    bool failed, fatal_reported, paused;
    char why[200];
};

static struct kafka_client *the_client; /* NULL: none */

/* --------------------------------------------------------------------- the client */

static void on_timer(void *arg)
{
    kafka_client_poll(arg);
}

struct kafka_client *kafka_client_open(const char *who, rd_kafka_type_t type,
                                       const struct kafka_link *link,
                                       rd_kafka_conf_t *conf,
                                       const struct kafka_events *events, void *arg,
                                       struct err *err)
{
    struct kafka_client *c = mem_alloc(sizeof(*c));
    (void)link, (void)err;
    must(type == RD_KAFKA_CONSUMER && the_client == NULL);
    rd_kafka_conf_destroy(conf);
    c->who = who;
    c->events = events;
    c->arg = arg;
    c->again = timer_new(on_timer, c);
    c->tick = timer_every(TICK_MS, on_timer, c);
    the_client = c;
    return c;
}

/* Not NULL: it is only passed on. */
rd_kafka_t *kafka_client_rk(const struct kafka_client *c)
{
    return (rd_kafka_t *)(uintptr_t)c;
}

rd_kafka_queue_t *kafka_client_queue(const struct kafka_client *c)
{
    return (rd_kafka_queue_t *)(uintptr_t)c;
}

unsigned kafka_client_connections(const struct kafka_client *c)
{
    return c ? 1 : 0;
}

void kafka_client_reached(struct kafka_client *c)
{
    (void)c;
}

void kafka_client_fail(struct kafka_client *c, const char *why)
{
    if (c->failed)
        return;
    c->failed = true;
    snprintf(c->why, sizeof(c->why), "%s", why);
    timer_set(c->again, 0);
}

static void serve(struct kafka_client *c, rd_kafka_event_t *ev)
{
    if (rd_kafka_event_type(ev) != RD_KAFKA_EVENT_ERROR) {
        c->events->event(c->arg, ev);
        return;
    }
    c->events->error(c->arg, ev);
    rd_kafka_event_destroy(ev);
}

void kafka_client_poll(struct kafka_client *c)
{
    for (unsigned n = 0; !c->paused; n++) {
        must(c == the_client); /* the real one would use a queue that was destroyed */
        if (n == EVENTS_PER_TURN) {
            timer_set(c->again, 0);
            break;
        }
        rd_kafka_event_t *ev = core_kafka_event();
        if (ev == NULL)
            break;
        serve(c, ev);
    }
    if (c->failed && !c->fatal_reported) {
        c->fatal_reported = true;
        c->events->fatal(c->arg, c->why);
    }
}

void kafka_client_pause(struct kafka_client *c, bool paused)
{
    c->paused = paused;
    if (!paused)
        timer_set(c->again, 0);
}

int kafka_client_leave(struct kafka_client *c, struct err *err)
{
    (void)c, (void)err;
    HOST->group_call(CORE, CALL_LEAVE, NULL, 0, 0);
    return 0;
}

struct closing {
    struct timer *timer;
    loop_cb *done;
    void *arg;
};

static void on_closed(void *arg)
{
    struct closing *cl = arg;
    timer_del(cl->timer);
    cl->done(cl->arg);
    free(cl);
}

void kafka_client_close(struct kafka_client *c, loop_cb *done, void *arg)
{
    HOST->group_call(CORE, CALL_CLOSE, NULL, 0, 0);
    timer_del(c->again);
    timer_del(c->tick);
    the_client = NULL;
    loop_defer_free(c);
    if (done == NULL)
        return;
    struct closing *cl = mem_alloc(sizeof(*cl));
    *cl = (struct closing){timer_new(on_closed, cl), done, arg};
    timer_set(cl->timer, (int64_t)(HOST->random(CORE) % CLOSE_MAX_MS));
}

int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err)
{
    (void)link, (void)topics, (void)n, (void)said;
    return err_set(err, "not part of the simulation");
}

/* -------------------------------------------------------------- an operator's rewind */

struct asked {
    struct kafka_marks *marks;
    rewind_cb *cb;
    void *arg;
};

static void on_put(void *arg, enum kv_code code)
{
    struct asked *asked = arg;
    asked->marks->parts->open_requests--;
    asked->cb(asked->arg, NULL, 0, code == KV_OK ? NULL : "Redis did not answer");
    free(asked);
}

void kafka_rewind(struct kafka_marks *marks, const struct kafka_rewind *what,
                  rewind_cb *cb, void *arg)
{
    struct group_row found[GROUP_ROWS_MAX];
    struct rewind_row rows[GROUP_ROWS_MAX];
    int64_t ends[GROUP_ROWS_MAX];
    struct asked *asked = mem_alloc(sizeof(*asked));
    *asked = (struct asked){marks, cb, arg};
    unsigned n = HOST->offsets_at(what->to_ms, found, ends);
    for (unsigned i = 0; i < n; i++)
        rows[i] = (struct rewind_row){"t", found[i].partition, found[i].offset, ends[i]};
    marks->parts->open_requests++;
    kafka_marks_ask_rewind(marks, what->route, rows, n, on_put, asked);
}

/* --------------------------------------------------------------------- the source */

extern const struct source_ops source_kafka;
struct source_ops source_log;
static struct source *the_source; /* NULL: not started */
static void *the_self;

static int start(struct source *src, void *self, struct err *err)
{
    the_source = src;
    the_self = self;
    return source_kafka.start(src, self, err);
}

static void pause_log(struct source *src, void *self, bool paused)
{
    HOST->paused(CORE, SOURCE_LOG, paused);
    source_kafka.pause(src, self, paused);
}

static void stop(struct source *src, void *self)
{
    if (the_source == src)
        the_source = NULL;
    HOST->paused(CORE, SOURCE_LOG, false);
    source_kafka.stop(src, self);
}

static void __attribute__((constructor)) make_ops(void)
{
    source_log = source_kafka;
    source_log.start = start;
    source_log.pause = pause_log;
    source_log.stop = stop;
}

static void on_rewound(void *arg, const struct rewind_row *rows, size_t n,
                       const char *why)
{
    (void)arg, (void)rows, (void)n, (void)why;
}

void core_kafka_on_event(const struct event *event)
{
    if (event->kind == EVENT_REWIND && the_source)
        source_kafka.rewind(the_source, the_self, "log", event->number, false, on_rewound,
                            NULL);
    else if (event->kind == EVENT_GROUP && the_client)
        kafka_client_poll(the_client);
}

/* --------------------------------------------------- what it reports to the world */

/* The linker binds each call of source_submit() to this function (--wrap). */
void __real_source_submit(struct source *src, struct job *job, stored_cb *done,
                          void *arg);
void __wrap_source_submit(struct source *src, struct job *job, stored_cb *done,
                          void *arg);

struct submitted {
    stored_cb *done;
    void *arg;
    int64_t number;
};

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct submitted s = *(struct submitted *)arg;
    free(arg);
    HOST->stored(CORE, s.number, (int)reply->outcome, reply->reason);
    s.done(s.arg, reply);
}

void __wrap_source_submit(struct source *src, struct job *job, stored_cb *done, void *arg)
{
    if (job->offset < 0) {
        __real_source_submit(src, job, done, arg);
        return;
    }
    struct submitted *s = mem_alloc(sizeof(*s));
    *s = (struct submitted){done, arg, strtoll(job->payload.p, NULL, 10)};
    HOST->submitted(CORE, s->number, job->incarnation);
    __real_source_submit(src, job, on_stored, s);
}
