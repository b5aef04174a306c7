/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_thread.c - the thread that connects, sends the parcels of the mailbox, and
 * reconnects. paho may block this thread. It does all waiting and backoff of the MQTT
 * sink.
 */
#include "sinks/mqtt/mqtt_thread.h"

#include "bridge/base/retry.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONNECT_MAX_MS =
        PAHO_CONNECT_TIMEOUT_S * 1000 + 10000, /* paho checks only every 3 s */
    STEADY_MS = 10000,                         /* a run of this length does not count as a
                                                * failure */
    RETRY_AFTER_MS = 1000,                     /* without a connection */
    LOOK_MS = 1000                             /* while connecting */
};

struct mqtt_thread {
    struct mqtt_thread_spec spec;
    pthread_t id;
    pthread_mutex_t lock; /* guards all below, the parcels' lists and the run */
    pthread_cond_t changed;
    struct mqtt_parcels waiting; /* to be sent, in order */
    struct mqtt_run *run;        /* NULL: wait until connect_at_ms */
    int64_t connect_at_ms;
    unsigned failures; /* consecutive runs shorter than STEADY_MS */
    bool reconnect, stop;
    struct log_limit away_limit;
};

/* ------------------------------------------------------ parcels: lock held */

static void append(struct mqtt_parcels *parcels, struct mqtt_parcel *p)
{
    p->list = parcels;
    TAILQ_INSERT_TAIL(&parcels->list, p, link);
    parcels->count++;
}

static void unlink_parcel(struct mqtt_parcel *p)
{
    TAILQ_REMOVE(&p->list->list, p, link);
    p->list->count--;
}

static void on_returned(void *arg)
{
    struct mqtt_parcel *p = arg;
    p->returned(p);
}

void mqtt_parcel_finish(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    unlink_parcel(p);
    p->outcome = outcome;
    snprintf(p->why, sizeof(p->why), "%s", why);
    loop_post(on_returned, p);
}

static void finish_all(struct mqtt_parcels *parcels, const char *why)
{
    while (!TAILQ_EMPTY(&parcels->list))
        mqtt_parcel_finish(TAILQ_FIRST(&parcels->list), TRY_AGAIN, why);
}

/* ------------------------------------------------------ the thread: lock held */

static void send_first(struct mqtt_thread *t)
{
    struct mqtt_parcel *p = TAILQ_FIRST(&t->waiting.list);
    struct mqtt_run *run = t->run;

    if (atomic_load(&p->cancelled)) {
        mqtt_parcel_finish(p, TRY_AGAIN,
                           "the delivery timed out before the message was sent");
        return;
    }
    if (p->expires_ms > 0 && p->expires_ms <= loop_mono_ms()) {
        mqtt_parcel_finish(p, TRY_AGAIN, "the message expired before it was sent");
        return;
    }
    if (mqtt_run_packet_bytes(run, p) > run->packet_max) {
        mqtt_parcel_finish(p, REJECTED,
                           "the message is larger than the broker's maximum packet size");
        return;
    }
    unlink_parcel(p);
    append(&run->sent, p);
    p->run = run;
    pthread_mutex_unlock(&t->lock);
    int rc = mqtt_run_publish(run, p);
    pthread_mutex_lock(&t->lock);
    if (rc == MQTTASYNC_SUCCESS)
        return;
    p->retry_after_ms = RETRY_AFTER_MS;
    mqtt_parcel_finish(p, rc == MQTTASYNC_BAD_UTF8_STRING ? REJECTED : TRY_AGAIN,
                       MQTTAsync_strerror(rc));
}

static void open_run(struct mqtt_thread *t)
{
    struct mqtt_run *run = mem_alloc(sizeof(*run));

    run->spec = &t->spec;
    run->lock = &t->lock;
    run->changed = &t->changed;
    run->packet_max = UINT32_MAX;
    run->window = t->spec.max_in_flight;
    TAILQ_INIT(&run->sent.list);
    run->started_ms = loop_mono_ms();
    t->run = run;
    t->reconnect = false;
    pthread_mutex_unlock(&t->lock);
    mqtt_run_connect(run);
    pthread_mutex_lock(&t->lock);
}

static void close_run(struct mqtt_thread *t)
{
    struct mqtt_run *run = t->run;

    t->run = NULL;
    pthread_mutex_unlock(&t->lock);
    mqtt_run_end(run);
    pthread_mutex_lock(&t->lock);
    finish_all(&run->sent, "connection lost before the broker answered");
    free(run);
}

static const char *end_of_run(const struct mqtt_thread *t)
{
    const struct mqtt_run *run = t->run;

    if (run->state == RUN_ENDED)
        return run->why;
    if (run->state == RUN_CONNECTING && loop_mono_ms() - run->started_ms > CONNECT_MAX_MS)
        return "the broker does not answer";
    if (t->reconnect)
        return "the broker did not acknowledge a message in time";
    return NULL;
}

static void end_run(struct mqtt_thread *t, const char *why)
{
    if (t->run->connected_ms > 0 && loop_mono_ms() - t->run->connected_ms >= STEADY_MS)
        t->failures = 0;
    t->failures++;
    t->connect_at_ms = loop_mono_ms() + retry_broker_ms(t->failures);
    /* Log every lost connection, but failed attempts at a limited rate. */
    if (t->run->connected_ms > 0)
        t->away_limit = (struct log_limit){0};
    log_limited(&t->away_limit, LOG_WARN, t->spec.name, "client %s: %s; trying again",
                t->spec.peer.client_id, why);
    close_run(t);
}

/* Returns expired parcels to the sink. Returns the time of the next expiry, or far_ms. */
static int64_t expire(struct mqtt_thread *t, int64_t far_ms)
{
    int64_t now = loop_mono_ms(), next = far_ms;

    for (struct mqtt_parcel *p = TAILQ_FIRST(&t->waiting.list), *after; p; p = after) {
        after = TAILQ_NEXT(p, link);
        int64_t end = p->posted_ms + p->wait_max_ms;
        if (end <= now) {
            p->retry_after_ms = RETRY_AFTER_MS;
            mqtt_parcel_finish(p, TRY_AGAIN,
                               "the broker did not accept the message in time");
        } else if (end < next) {
            next = end;
        }
    }
    return next;
}

static bool can_send(const struct mqtt_thread *t)
{
    return t->run && t->run->state == RUN_CONNECTED && t->waiting.count > 0 &&
           t->run->sent.count < t->run->window;
}

static void one_step(struct mqtt_thread *t)
{
    const int64_t far_ms = 60000;
    const char *why = t->run ? end_of_run(t) : NULL;

    if (why) {
        end_run(t, why);
    } else if (t->run == NULL && loop_mono_ms() >= t->connect_at_ms) {
        open_run(t);
    } else if (can_send(t)) {
        send_first(t);
    } else {
        int64_t until = expire(t, loop_mono_ms() + far_ms);
        if (t->run == NULL && t->connect_at_ms < until)
            until = t->connect_at_ms;
        if (t->run && t->run->state == RUN_CONNECTING && loop_mono_ms() + LOOK_MS < until)
            until = loop_mono_ms() + LOOK_MS;
        paho_wait(&t->lock, &t->changed, until);
    }
}

static void *thread_main(void *arg)
{
    struct mqtt_thread *t = arg;
    bool up = false;

    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        bool now_up = t->run && t->run->state == RUN_CONNECTED;
        if (now_up && !up)
            log_info(t->spec.name, "connected as %s", t->spec.peer.client_id);
        up = now_up;
        one_step(t);
    }
    if (t->run)
        close_run(t);
    finish_all(&t->waiting, "stopping");
    pthread_mutex_unlock(&t->lock);
    loop_post(t->spec.ended, t->spec.ended_arg);
    return NULL;
}

/* --------------------------------------------------------- from the loop thread */

/* Keeps a client that never connects: paho shuts down with its last client, which is not
 * safe while another thread creates a new client. */
static void keep_paho(void)
{
    MQTTAsync anchor;

    MQTTAsync_create(&anchor, "tcp://127.0.0.1:1883", "tarry",
                     MQTTCLIENT_PERSISTENCE_NONE, NULL);
}

/* Blocks signals, which the loop thread handles. paho's threads inherit the mask. */
static int start_thread(struct mqtt_thread *t)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&t->id, NULL, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct mqtt_thread *mqtt_thread_start(struct mqtt_thread_spec *spec, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct mqtt_thread *t = mem_alloc(sizeof(*t));

    pthread_once(&once, keep_paho);
    t->spec = *spec;
    memset(spec, 0, sizeof(*spec));
    TAILQ_INIT(&t->waiting.list);
    paho_lock_init(&t->lock, &t->changed);
    int rc = start_thread(t);
    if (rc == 0)
        return t;
    err_set(err, "cannot start a thread for the MQTT client: %s", strerror(rc));
    mqtt_peer_free(&t->spec.peer);
    free(t);
    return NULL;
}

bool mqtt_thread_is_connected(struct mqtt_thread *t)
{
    pthread_mutex_lock(&t->lock);
    bool up = t->run && t->run->state == RUN_CONNECTED;
    pthread_mutex_unlock(&t->lock);
    return up;
}

void mqtt_thread_post(struct mqtt_thread *t, struct mqtt_parcel *parcel)
{
    parcel->posted_ms = loop_mono_ms();
    pthread_mutex_lock(&t->lock);
    append(&t->waiting, parcel);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void raise_flag(struct mqtt_thread *t, bool *flag)
{
    pthread_mutex_lock(&t->lock);
    *flag = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void mqtt_thread_reconnect(struct mqtt_thread *t)
{
    raise_flag(t, &t->reconnect);
}

void mqtt_thread_stop(struct mqtt_thread *t)
{
    raise_flag(t, &t->stop);
}

void mqtt_thread_free(struct mqtt_thread *t)
{
    if (t == NULL)
        return;
    pthread_join(t->id, NULL); /* the thread is exiting already */
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mqtt_peer_free(&t->spec.peer);
    free(t);
}
