/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_session.c - the source "session": acknowledges messages as the MQTT source does
 * (mqtt_slot.c), with its real memory of messages in flight (mqtt_flight.c). A run is a
 * connection.
 */
#include "bridge/base/retry.h"
#include "sources/mqtt/mqtt_flight.h"
#include "tests/sim/core/core_session.h"

#include <stdio.h>
#include <stdlib.h>

struct session {
    struct source *src;
    struct mqtt_flight flight;
    struct timer *connect;
    unsigned failures;
    bool runs, reporting, paused, stopping;
};
static struct session *the_session; /* NULL: not started */

struct message { /* of the world, until its answer */
    struct flight_message *in_flight;
    const struct record *record;
};

/* Acknowledges the stored messages in front. */
static void report(void *arg)
{
    struct session *self = arg;
    self->reporting = false;
    unsigned count = self->runs ? flight_take_stored(&self->flight) : 0;
    if (count > 0)
        HOST->session_call(CORE, SESSION_ACK, count);
}

static void report_later(struct session *self)
{
    if (!self->reporting)
        loop_defer(report, self);
    self->reporting = true;
}

static void end_run(struct session *self)
{
    self->runs = false;
    flight_end_run(&self->flight);
    if (!self->stopping)
        timer_set(self->connect, retry_broker_ms(++self->failures));
}

/* The broker sends a message again only after a reconnection. */
static void reconnect(struct session *self)
{
    if (!self->runs)
        return;
    report(self);
    HOST->session_call(CORE, SESSION_DISCONNECT, 0);
    end_run(self);
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct message m = *(struct message *)arg;
    struct session *self = m.in_flight->owner;
    bool stored = reply->outcome != NOT_STORED && reply->outcome != REFUSED;
    bool in_run = m.in_flight->in_run;
    free(arg);
    flight_settle(m.in_flight, stored); /* may free it */
    HOST->stored(CORE, m.record->number, (int)reply->outcome, reply->reason);
    if (in_run && stored)
        report_later(self);
    else if (in_run)
        reconnect(self);
}

static void take(struct session *self, const struct session_event *event)
{
    char number[32];
    bool again;
    snprintf(number, sizeof(number), "%lld", (long long)event->record->number);
    const struct mqtt_message m = {.dup = event->dup,
                                   .msgid = event->msgid,
                                   .topic = SLICE_LIT("s"),
                                   .payload = slice_of(number)};
    struct flight_message *in_flight = flight_add(&self->flight, &m, &again);
    in_flight->owner = self;
    if (again) {
        if (in_flight->state != FLIGHT_OPEN)
            report_later(self);
        return;
    }
    struct message *message = mem_alloc(sizeof(*message));
    *message = (struct message){in_flight, event->record};
    source_submit(self->src, core_job(event->record), on_stored, message);
}

static void poll_events(struct session *self)
{
    struct session_event event;
    while (!self->paused && HOST->session_event(CORE, &event)) {
        if (event.kind == SESSION_CONNECTED) {
            self->runs = true;
            self->failures = 0;
            if (!event.present)
                flight_forget(&self->flight);
        } else if (event.kind == SESSION_CLOSED) { /* perhaps before it was connected */
            end_run(self);
        } else if (event.kind == SESSION_MESSAGE && self->runs) {
            take(self, &event);
        }
    }
}

static void on_connect(void *arg)
{
    (void)arg;
    HOST->session_call(CORE, SESSION_CONNECT, 0);
}

static int start(struct source *src, void *arg, struct err *err)
{
    struct session *self = the_session = arg;
    (void)err;
    self->src = src;
    self->connect = timer_new(on_connect, self);
    timer_set(self->connect, 0);
    return 0;
}

static void pause_session(struct source *src, void *arg, bool paused)
{
    struct session *self = arg;
    (void)src;
    self->paused = paused;
    poll_events(self);
}

static void stop(struct source *src, void *arg)
{
    struct session *self = arg;
    self->stopping = true;
    report(self);
    HOST->session_call(CORE, SESSION_DISCONNECT, 0);
    if (self->runs)
        end_run(self);
    flight_forget(&self->flight);
    timer_del(self->connect);
    the_session = the_session == self ? NULL : the_session;
    source_stopped(src);
}

static const struct opt no_opts[] = {{0}};

const struct source_ops source_session = {
    .name = "session",
    .help = "A session of the simulation.",
    .size = sizeof(struct session),
    .opts = no_opts,
    .start = start,
    .pause = pause_session,
    .stop = stop,
};

void core_session_on_event(void)
{
    if (the_session)
        poll_events(the_session);
}
