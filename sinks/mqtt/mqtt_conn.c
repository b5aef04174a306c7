/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/mqtt/mqtt_conn.h"

#include "bridge/base/retry.h"

#include <stdlib.h>
#include <string.h>

enum {
    CONNECT_MAX_MS = 20000, /* more than paho's own limit */
    STEADY_MS = 10000,      /* a run of this length does not count as a failure */
    RETRY_AFTER_MS = 1000,  /* without a connection */
    STOP_MAX_MS = 2000,     /* for DISCONNECT */
    PACKET_EXTRA = 64       /* upper bound for headers and lengths of a PUBLISH */
};

struct mqtt_conn {
    struct mqtt_conn_spec spec;
    struct mqtt_target *target;
    struct mqtt_parcels waiting;    /* to be sent, in order */
    struct mqtt_run *run;           /* NULL: wait until connect_at_ms */
    LIST_HEAD(, mqtt_run) leaving;  /* runs that still disconnect */
    struct timer *timer;            /* the next thing to do at a time */
    int64_t connect_at_ms, stop_ms; /* monotonic; stop_ms 0: not stopping */
    unsigned failures;              /* consecutive runs shorter than STEADY_MS */
    bool ended;
    struct log_limit away_limit;
};

/* -------------------------------------------------------------------- parcels */

static void give_back(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    mqtt_parcel_result(p, outcome, why);
    p->returned(p);
}

static void give_back_all(struct mqtt_parcels *parcels, const char *why)
{
    for (struct mqtt_parcel *p; (p = TAILQ_FIRST(parcels));) {
        TAILQ_REMOVE(parcels, p, link);
        give_back(p, TRY_AGAIN, why);
    }
}

/* Returns the maximum size of the packet of p. */
static uint64_t packet_bytes(const struct mqtt_conn *conn, const struct mqtt_parcel *p)
{
    const bool v5 = conn->target->peer.v5;
    uint64_t n = PACKET_EXTRA + strlen(p->topic) + p->payload.n;

    for (unsigned i = 0; v5 && i < p->header_count; i++)
        n += 5 + p->headers[i].name.n + p->headers[i].value.n;
    return n;
}

static void send_first(struct mqtt_conn *conn)
{
    struct mqtt_parcel *p = TAILQ_FIRST(&conn->waiting);

    TAILQ_REMOVE(&conn->waiting, p, link);
    if (p->d == NULL)
        p->returned(p);
    else if (p->expires_ms > 0 && p->expires_ms <= loop_mono_ms())
        give_back(p, TRY_AGAIN, "the message expired before it was sent");
    else if (packet_bytes(conn, p) > conn->run->client.limits.packet_max_bytes)
        give_back(p, REJECTED,
                  "the message is larger than the broker's maximum packet size");
    else
        mqtt_run_send(conn->run, p);
}

/* The lower of our and the broker's limit. */
static unsigned window(const struct mqtt_conn *conn)
{
    const unsigned theirs = conn->run->client.limits.receive_max,
                   ours = conn->spec.max_in_flight;

    return conn->spec.qos > 0 && theirs < ours ? theirs : ours;
}

static void feed(struct mqtt_conn *conn)
{
    while (mqtt_conn_is_up(conn) && !TAILQ_EMPTY(&conn->waiting) &&
           conn->run->held < window(conn))
        send_first(conn);
}

/* Returns parcels that were not sent in time. Returns the time of the next, or far_ms. */
static int64_t expire(struct mqtt_conn *conn, int64_t now, int64_t far_ms)
{
    struct mqtt_parcels late = TAILQ_HEAD_INITIALIZER(late);
    int64_t next_ms = far_ms;

    for (struct mqtt_parcel *p = TAILQ_FIRST(&conn->waiting), *after; p; p = after) {
        after = TAILQ_NEXT(p, link);
        if (p->unsent_ms > now) {
            next_ms = p->unsent_ms < next_ms ? p->unsent_ms : next_ms;
            continue;
        }
        TAILQ_REMOVE(&conn->waiting, p, link);
        TAILQ_INSERT_TAIL(&late, p, link);
        p->retry_after_ms = RETRY_AFTER_MS;
    }
    give_back_all(&late, "the broker did not accept the message in time");
    return next_ms;
}

/* -------------------------------------------------------------------- runs */

static void arm(struct mqtt_conn *conn)
{
    timer_set(conn->timer, 0);
}

/* Ends the run. Its thread may need longer, and keeps the parcel that paho has. */
static void leave(struct mqtt_conn *conn)
{
    struct mqtt_parcels unsent = TAILQ_HEAD_INITIALIZER(unsent);
    struct mqtt_parcels sent = TAILQ_HEAD_INITIALIZER(sent);
    struct mqtt_run *run = conn->run;

    conn->run = NULL;
    LIST_INSERT_HEAD(&conn->leaving, run, link);
    mqtt_run_leave(run, &unsent, &sent);
    TAILQ_CONCAT(&unsent, &conn->waiting, link);
    TAILQ_CONCAT(&conn->waiting, &unsent, link);
    give_back_all(&sent, "connection lost before the broker answered");
}

static void end_run(struct mqtt_conn *conn, const char *why)
{
    const struct mqtt_run *run = conn->run;

    if (run->was_connected && loop_mono_ms() - run->connected_ms >= STEADY_MS)
        conn->failures = 0;
    conn->failures++;
    conn->connect_at_ms = loop_mono_ms() + retry_broker_ms(conn->failures);
    /* Log every lost connection, but failed attempts at a limited rate. */
    if (run->was_connected)
        conn->away_limit = (struct log_limit){0};
    log_limited(&conn->away_limit, LOG_WARN, conn->spec.name,
                "client %s: %s; trying again", conn->target->peer.client_id, why);
    leave(conn);
    arm(conn);
}

static void end_if_stopped(struct mqtt_conn *conn)
{
    if (conn->stop_ms == 0 || conn->ended || !LIST_EMPTY(&conn->leaving))
        return;
    conn->ended = true;
    loop_defer(conn->spec.ended, conn->spec.ended_arg);
}

static void on_state(struct mqtt_conn *conn, enum mqtt_run_state state, const char *why)
{
    struct mqtt_run *run = conn->run;

    if (state == RUN_CONNECTED && !run->was_connected) {
        run->was_connected = true;
        run->connected_ms = loop_mono_ms();
        log_info(conn->spec.name, "connected as %s", conn->target->peer.client_id);
    }
    if (state == RUN_ENDED)
        end_run(conn, why);
    feed(conn);
}

static void on_news(void *arg)
{
    struct mqtt_run *run = arg;
    struct mqtt_conn *conn = run->owner;
    struct mqtt_parcels answered = TAILQ_HEAD_INITIALIZER(answered);
    char why[MQTT_WHY_MAX];

    pthread_mutex_lock(&run->lock);
    TAILQ_CONCAT(&answered, &run->answered, link);
    enum mqtt_run_state state = run->state;
    bool finished = run->finished;
    memcpy(why, run->why, sizeof(why));
    pthread_mutex_unlock(&run->lock);
    for (struct mqtt_parcel *p; (p = TAILQ_FIRST(&answered));) {
        TAILQ_REMOVE(&answered, p, link);
        run->held--;
        p->returned(p);
    }
    if (run == conn->run)
        on_state(conn, state, why);
    if (!finished || run == conn->run)
        return;
    LIST_REMOVE(run, link);
    mqtt_run_free(run);
    end_if_stopped(conn);
}

static void open_run(struct mqtt_conn *conn)
{
    struct err err;

    conn->run = mqtt_run_start(conn->target, conn, on_news, &err);
    if (conn->run)
        return;
    conn->connect_at_ms = loop_mono_ms() + retry_broker_ms(++conn->failures);
    log_limited(&conn->away_limit, LOG_WARN, conn->spec.name, "%s; trying again",
                err.text);
}

/* -------------------------------------------------------------------- time */

static void forget_runs(struct mqtt_conn *conn)
{
    for (struct mqtt_run *run; (run = LIST_FIRST(&conn->leaving));) {
        LIST_REMOVE(run, link);
        mqtt_run_free(run);
    }
    end_if_stopped(conn);
}

static void on_time(void *arg)
{
    struct mqtt_conn *conn = arg;
    const int64_t now = loop_mono_ms(), far_ms = INT64_MAX;
    int64_t next_ms = expire(conn, now, far_ms);

    if (conn->stop_ms > 0) {
        if (now >= conn->stop_ms)
            forget_runs(conn);
        next_ms = conn->stop_ms;
    } else if (conn->run == NULL && now >= conn->connect_at_ms) {
        open_run(conn);
    } else if (conn->run && !conn->run->was_connected &&
               now - conn->run->started_ms > CONNECT_MAX_MS) {
        end_run(conn, "the broker does not answer");
    }
    if (conn->run == NULL && conn->stop_ms == 0 && conn->connect_at_ms < next_ms)
        next_ms = conn->connect_at_ms;
    if (conn->run && !conn->run->was_connected &&
        conn->run->started_ms + CONNECT_MAX_MS + 1 < next_ms)
        next_ms = conn->run->started_ms + CONNECT_MAX_MS + 1;
    if (next_ms < far_ms && !conn->ended)
        timer_set(conn->timer, next_ms > now ? next_ms - now : 0);
}

/* -------------------------------------------------------------------- the sink's calls
 */

struct mqtt_conn *mqtt_conn_new(struct mqtt_conn_spec *spec, struct err *err)
{
    struct mqtt_conn *conn = mem_alloc(sizeof(*conn));
    struct mqtt_target *target = mem_alloc(sizeof(*target));

    *target = (struct mqtt_target){.users = 1,
                                   .peer = spec->peer,
                                   .qos = spec->qos,
                                   .retain = spec->retain,
                                   .max_in_flight = spec->max_in_flight};
    memset(&spec->peer, 0, sizeof(spec->peer));
    conn->spec = *spec;
    conn->target = target;
    TAILQ_INIT(&conn->waiting);
    conn->run = mqtt_run_start(target, conn, on_news, err);
    if (conn->run) {
        conn->timer = timer_new(on_time, conn);
        arm(conn);
        return conn;
    }
    mqtt_target_drop(target);
    free(conn);
    return NULL;
}

bool mqtt_conn_is_up(const struct mqtt_conn *conn)
{
    return conn->run && conn->run->was_connected;
}

void mqtt_conn_post(struct mqtt_conn *conn, struct mqtt_parcel *p)
{
    TAILQ_INSERT_TAIL(&conn->waiting, p, link);
    feed(conn);
    if (!TAILQ_EMPTY(&conn->waiting))
        arm(conn);
}

void mqtt_conn_reconnect(struct mqtt_conn *conn)
{
    if (mqtt_conn_is_up(conn))
        end_run(conn, "the broker did not acknowledge a message in time");
}

void mqtt_conn_stop(struct mqtt_conn *conn)
{
    /* paho cannot interrupt a connect. */
    const bool connecting = conn->run && !conn->run->was_connected;

    conn->stop_ms = loop_mono_ms() + (connecting ? 0 : STOP_MAX_MS);
    if (conn->run)
        leave(conn);
    give_back_all(&conn->waiting, "stopping");
    arm(conn);
    end_if_stopped(conn);
}

void mqtt_conn_free(struct mqtt_conn *conn)
{
    timer_del(conn->timer);
    mqtt_target_drop(conn->target);
    free(conn);
}
