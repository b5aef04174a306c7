/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_session.c - a session at a broker, as of MQTT: at most RECEIVE_MAX messages are
 * in flight, each with a packet id; acknowledgements are in order. One core at a time is
 * connected. A new connection, of the same core or of another one, receives all messages
 * in flight again.
 */
#include "bridge/base/mem.h"
#include "tests/sim/world_jobs.h"

#include <glib.h>
#include <stdlib.h>

enum { RECEIVE_MAX = 20, PACKET_IDS = 200 };

struct message {
    struct job_seen *job;
    unsigned msgid;
};

static uint64_t stream; /* of its chances */
static struct {
    GPtrArray *queue; /* struct message; the first `in_flight` have been sent */
    unsigned in_flight, sent_now; /* sent_now: of them, in this run */
    unsigned next_id;
    struct sim_core *core; /* connected; NULL: none */
    unsigned life, run;
    unsigned acking;  /* messages whose acknowledgement is on its way */
    bool is_lost;     /* the next connection gets a new session */
    bool chooses;     /* a core will be connected */
    bool will_be_cut; /* after the next message is sent, while it is being stored */
} session;
static bool wants[CORES_MAX];      /* to be connected */
static unsigned in_run[CORES_MAX]; /* the run, as the core knows it; 0: none */
static GPtrArray *events[CORES_MAX];

static bool is_connected(void)
{
    return session.core && session.core->alive && session.core->life == session.life;
}

/* Whether the core does not know yet that its connection has ended. */
static bool has_lost(const struct sim_core *core)
{
    unsigned run = in_run[core->index];
    return run > 0 && (session.core != core || session.run != run);
}

static struct session_event *add_event(struct sim_core *core, int kind)
{
    struct session_event *event = mem_alloc(sizeof(*event));
    event->kind = kind;
    g_ptr_array_add(events[core->index], event);
    core_event(core, &(struct event){.kind = EVENT_SESSION});
    return event;
}

/* ------------------------------------------------------------------------ sending */

static void cut_in_flight(void *arg, int64_t run);

/* A message that is sent to another life than before may be stored twice. */
static void send_one(struct message *m)
{
    struct session_event *event = add_event(session.core, SESSION_MESSAGE);
    struct job_seen *job = m->job;
    bool is_new_life = job->core != session.core || job->life != session.life;
    event->record = &job->record;
    event->msgid = m->msgid;
    event->dup = job->copies++ > 0;
    job->excused = job->excused || (event->dup && is_new_life);
    job->core = session.core;
    job->life = session.life;
    if (!event->dup || is_new_life)
        job->asked_us = world.now_us;
    session.sent_now++;
    if (session.will_be_cut)
        after(skewed(50, 2 * MS), cut_in_flight, NULL, session.run);
    session.will_be_cut = false;
}

static void send_more(void *arg, int64_t run)
{
    (void)arg;
    if (session.run != run || !is_connected())
        return;
    uint64_t *before = draw_from(&stream);
    for (; session.sent_now < session.queue->len && session.sent_now < RECEIVE_MAX;) {
        struct message *m = session.queue->pdata[session.sent_now];
        if (session.sent_now == session.in_flight) {
            session.next_id = session.next_id % PACKET_IDS + 1;
            m->msgid = session.next_id;
            session.in_flight++;
        }
        send_one(m);
    }
    draw_from(before);
}

static void send_soon(void)
{
    uint64_t *before = draw_from(&stream);
    after(skewed(500, 20 * MS), send_more, NULL, session.run);
    draw_from(before);
}

void session_append(struct job_seen *job)
{
    struct message *m = mem_alloc(sizeof(*m));
    m->job = job;
    g_ptr_array_add(session.queue, m);
    tell("message %lld, due %lld", (long long)job->record.number,
         (long long)job->record.due_ms);
    send_soon();
}

/* --------------------------------------------------------------------- connections */

static void choose(void *arg, int64_t number);

static void choose_soon(void)
{
    if (session.chooses)
        return;
    session.chooses = true;
    uint64_t *before = draw_from(&stream);
    after(skewed(MS, 3 * SECOND), choose, NULL, 0);
    draw_from(before);
}

/* The core's acknowledgement of the first messages is lost. The core has forgotten them,
 * so when they are sent again, it stores them again. */
static void lose_acks(const struct sim_core *core, unsigned count)
{
    for (unsigned i = 0; i < count && i < session.queue->len; i++) {
        struct message *m = session.queue->pdata[i];
        if (m->job->core == core)
            m->job->excused = true;
    }
}

static void end_run(void)
{
    lose_acks(session.core, session.acking);
    session.acking = 0;
    session.core = NULL;
    session.run++;
    session.sent_now = 0;
    choose_soon();
}

/* The broker, or its disk, has lost the session. */
static void lose(void)
{
    for (guint i = 0; i < session.queue->len; i++) {
        struct message *m = session.queue->pdata[i];
        if (!m->job->accepted)
            m->job->lost = true;
        free(m);
    }
    g_ptr_array_set_size(session.queue, 0);
    session.in_flight = 0;
    session.next_id = 0;
}

static void connect_to(struct sim_core *core)
{
    wants[core->index] = false;
    session.core = core;
    session.life = core->life;
    session.sent_now = 0;
    session.run++;
    tell("the session is connected to core%u", core->index);
    add_event(core, SESSION_CONNECTED)->present = !session.is_lost;
    session.is_lost = false;
    send_soon();
}

static void choose(void *arg, int64_t number)
{
    unsigned first = (unsigned)between(0, world.plan.cores - 1);
    (void)arg, (void)number;
    session.chooses = false;
    for (unsigned i = 0; i < world.plan.cores && !is_connected(); i++) {
        struct sim_core *core = &cores[(first + i) % world.plan.cores];
        if (core->alive && wants[core->index])
            connect_to(core);
    }
}

void session_core_changed(struct sim_core *core)
{
    wants[core->index] = false;
    in_run[core->index] = 0;
    g_ptr_array_set_size(events[core->index], 0);
    if (session.core == core)
        end_run();
}

struct ack {
    unsigned count, run;
};

static void on_ack(void *arg, int64_t number)
{
    struct ack *ack = arg;
    (void)number;
    if (ack->run == session.run && is_connected()) {
        tell("%u messages are acknowledged", ack->count);
        session.acking -= ack->count;
        must(ack->count <= session.sent_now);
        for (unsigned i = 0; i < ack->count; i++) {
            struct message *m = session.queue->pdata[i];
            if (!m->job->accepted && !m->job->lost)
                broken("message %lld is acknowledged, and was not stored",
                       (long long)m->job->record.number);
            free(m);
        }
        g_ptr_array_remove_range(session.queue, 0, ack->count);
        session.in_flight -= ack->count;
        session.sent_now -= ack->count;
        send_soon();
    }
    free(ack);
}

void session_call(struct sim_core *core, enum session_call call, unsigned count)
{
    uint64_t *before = draw_from(&stream);
    if (call == SESSION_CONNECT) {
        wants[core->index] = true;
        choose_soon();
    } else if (call == SESSION_ACK && has_lost(core)) {
        lose_acks(core, count);
    } else if (call == SESSION_ACK) {
        static int64_t arrives_us; /* in order */
        struct ack *ack = mem_alloc(sizeof(*ack));
        *ack = (struct ack){count, session.run};
        session.acking += count;
        int64_t us = world.now_us + skewed(100, 20 * MS);
        arrives_us = us > arrives_us ? us : arrives_us;
        at(arrives_us, on_ack, ack, 0);
    } else if (call == SESSION_DISCONNECT) {
        wants[core->index] = false;
        in_run[core->index] = 0;
        g_ptr_array_set_size(events[core->index], 0); /* of the connection that it left */
        if (session.core == core)
            end_run();
    }
    draw_from(before);
}

bool session_event(struct sim_core *core, struct session_event *event)
{
    GPtrArray *list = events[core->index];
    if (list->len == 0)
        return false;
    struct session_event *first = list->pdata[0];
    *event = *first;
    free(first);
    if (event->kind != SESSION_MESSAGE)
        in_run[core->index] = event->kind == SESSION_CONNECTED ? session.run : 0;
    g_ptr_array_remove_index(list, 0);
    return true;
}

/* ------------------------------------------------------------------------- faults */

bool session_exists(void)
{
    return world.plan.sessions;
}

/* Messages and acknowledgements that are under way are lost. */
static void cut(void)
{
    if (!is_connected())
        return;
    struct sim_core *was = session.core;
    fault_of(was, world.now_us, "the session of core%u is cut", was->index);
    g_ptr_array_set_size(events[was->index], 0);
    add_event(was, SESSION_CLOSED);
    end_run();
}

static void cut_in_flight(void *arg, int64_t run)
{
    (void)arg;
    if (session.run == run && !world.healed)
        cut();
}

void session_cut(struct sim_core *core)
{
    (void)core;
    session.will_be_cut = one_in(2);
    if (!session.will_be_cut)
        cut();
}

void session_take_over(struct sim_core *core)
{
    if (session.core == core || !core->alive || !wants[core->index])
        return;
    cut();
    connect_to(core);
}

void session_lose(struct sim_core *core)
{
    (void)core;
    fault("the broker loses the session");
    cut();
    lose();
    session.is_lost = true;
}

void session_init(void)
{
    stream = stream_new('s', 0);
    session.queue = g_ptr_array_new();
    for (int i = 0; i < CORES_MAX; i++)
        events[i] = g_ptr_array_new();
}

bool session_is_stored(void)
{
    return session.queue->len == 0;
}
