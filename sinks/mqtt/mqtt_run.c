/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/mqtt/mqtt_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS = 65535,         /* paho assigns 1 to 65535 in order and skips those in use */
    RETRY_AFTER_MS = 1000,  /* if paho refuses a message */
    RETIRED_MS = 10 * 1000, /* callbacks that have begun end within this time */
};

/* -------------------------------------------------------------------- the end of runs */

void mqtt_target_drop(struct mqtt_target *target)
{
    if (atomic_fetch_sub(&target->users, 1) > 1)
        return;
    mqtt_peer_free(&target->peer);
    free(target);
}

/* Ended runs. When a broker disconnects, paho (1.3.12 to 1.4) starts a thread for the
 * callback and uses the client afterwards, so an ended client cannot be destroyed at
 * once. A later run destroys it. */
static TAILQ_HEAD(, mqtt_run) retired = TAILQ_HEAD_INITIALIZER(retired);
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;

static void retire(struct mqtt_run *run)
{
    pthread_mutex_lock(&retired_lock);
    run->retired_ms = loop_mono_ms();
    TAILQ_INSERT_TAIL(&retired, run, retired);
    pthread_mutex_unlock(&retired_lock);
}

static bool is_notified(struct mqtt_run *run)
{
    pthread_mutex_lock(&run->lock);
    bool notified = run->notified;
    pthread_mutex_unlock(&run->lock);
    return notified;
}

static struct mqtt_run *take_retired(void)
{
    pthread_mutex_lock(&retired_lock);
    struct mqtt_run *run = TAILQ_FIRST(&retired);
    if (run && (run->retired_ms + RETIRED_MS > loop_mono_ms() || is_notified(run)))
        run = NULL;
    if (run)
        TAILQ_REMOVE(&retired, run, retired);
    pthread_mutex_unlock(&retired_lock);
    return run;
}

/* Not on the loop thread: waits while another run connects. */
static void destroy_retired(void)
{
    for (struct mqtt_run *run = take_retired(); run; run = take_retired()) {
        mqtt_client_destroy(&run->client);
        free(run->props.v);
        pthread_cond_destroy(&run->changed);
        pthread_mutex_destroy(&run->lock);
        mqtt_target_drop(run->target);
        free(run);
    }
}

/* -------------------------------------------------------------------- lock held */

static void on_posted(void *arg)
{
    struct mqtt_run *run = arg;

    pthread_mutex_lock(&run->lock);
    run->notified = false;
    pthread_mutex_unlock(&run->lock);
    if (run->owner)
        run->on_news(run);
}

static void notify(struct mqtt_run *run)
{
    if (run->notified || run->forgotten)
        return;
    run->notified = true;
    loop_post(on_posted, run);
}

static void set_state(struct mqtt_run *run, enum mqtt_run_state state, const char *why)
{
    if (run->state == RUN_ENDED)
        return;
    run->state = state;
    if (why)
        snprintf(run->why, sizeof(run->why), "%s", why);
    pthread_cond_signal(&run->changed);
    notify(run);
}

static void finish(struct mqtt_run *run, struct mqtt_parcel *p)
{
    if (run->forgotten) {
        free(p);
        return;
    }
    TAILQ_INSERT_TAIL(&run->answered, p, link);
    notify(run);
}

/* ------------------------------------------------------------------ on paho's thread */

/* Reason codes about the message itself. All other failures are retried. */
static const enum MQTTReasonCodes hopeless[] = {MQTTREASONCODE_TOPIC_NAME_INVALID,
                                                MQTTREASONCODE_PAYLOAD_FORMAT_INVALID,
                                                MQTTREASONCODE_PACKET_TOO_LARGE};

/* "No matching subscribers", a reason below the errors, counts as delivered. */
static void set_answer(struct mqtt_parcel *p, enum MQTTReasonCodes reason)
{
    const struct mqtt_failure failure = {.reason = reason};
    enum outcome outcome = TRY_AGAIN;
    char why[MQTT_WHY_MAX];

    if (reason < MQTTREASONCODE_UNSPECIFIED_ERROR) {
        mqtt_parcel_result(p, DELIVERED, "");
        return;
    }
    for (size_t i = 0; i < sizeof(hopeless) / sizeof(hopeless[0]); i++)
        if (reason == hopeless[i])
            outcome = REJECTED;
    mqtt_why(why, sizeof(why), &failure);
    mqtt_parcel_result(p, outcome, why);
    p->status = (int)reason;
}

static struct mqtt_parcel *find_sent(struct mqtt_run *run, int token)
{
    struct mqtt_parcel *p;

    TAILQ_FOREACH (p, &run->sent, link)
        if (p->token == token)
            break;
    return p;
}

/* Is it the token of the message that paho is publishing? An old token is a repeated
 * answer. */
static bool is_of_current(const struct mqtt_run *run, int token)
{
    const unsigned ahead = (unsigned)(token - run->last_token + TOKENS) % TOKENS;

    return run->current && run->current_token == 0 && ahead > 0 &&
           ahead <= run->target->max_in_flight + 1;
}

static void on_answered(void *context, int token, enum MQTTReasonCodes reason)
{
    struct mqtt_run *run = context;

    pthread_mutex_lock(&run->lock);
    struct mqtt_parcel *p = run->deaf ? NULL : find_sent(run, token);
    if (p) {
        TAILQ_REMOVE(&run->sent, p, link);
        set_answer(p, reason);
        finish(run, p);
    } else if (!run->deaf && is_of_current(run, token)) {
        run->current_token = token;
        set_answer(run->current, reason);
    }
    pthread_mutex_unlock(&run->lock);
}

static void on_lost(void *context, enum MQTTReasonCodes reason, const char *why)
{
    struct mqtt_run *run = context;

    (void)reason;
    pthread_mutex_lock(&run->lock);
    if (!run->deaf)
        set_state(run, RUN_ENDED, why ? why : "connection lost");
    pthread_mutex_unlock(&run->lock);
}

/* ------------------------------------------------------------------ the run's thread */

static const char *unfit(const struct mqtt_target *target,
                         const struct mqtt_limits *limits)
{
    if (target->qos > limits->qos_max)
        return limits->qos_max == 0
                   ? "the broker accepts only QoS 0; set qos = 0 if messages may be lost"
                   : "the broker accepts at most QoS 1; set qos = 1";
    if (target->retain && !limits->retain)
        return "the broker does not accept retained messages; set retain and "
               "retain_as_published to false";
    return NULL;
}

/* With a clean session: one that outlives the connection could deliver cancelled
 * messages. */
static void connect_run(struct mqtt_run *run)
{
    static const struct mqtt_client_events events = {.answered = on_answered,
                                                     .lost = on_lost};
    struct mqtt_target *target = run->target;

    run->client = (struct mqtt_client){.peer = &target->peer,
                                       .events = &events,
                                       .context = run,
                                       .timeout_s = MQTT_CONNECT_TIMEOUT_S,
                                       .in_flight_max = target->max_in_flight + 1,
                                       .keepalive_s = atomic_load(&target->keepalive_s)};
    int rc = mqtt_client_connect(&run->client);
    atomic_store(&target->keepalive_s, run->client.keepalive_s);
    const char *problem = rc == 0 ? unfit(target, &run->client.limits) : run->client.why;
    pthread_mutex_lock(&run->lock);
    set_state(run, problem ? RUN_ENDED : RUN_CONNECTED, problem);
    pthread_mutex_unlock(&run->lock);
}

/* paho did not accept p. */
static void refused(struct mqtt_run *run, struct mqtt_parcel *p, int rc)
{
    if (rc == MQTTCLIENT_FAILURE || rc == MQTTCLIENT_DISCONNECTED) {
        mqtt_parcel_result(p, TRY_AGAIN, "connection lost before the broker answered");
        set_state(run, RUN_ENDED, "connection lost");
    } else {
        mqtt_parcel_result(p, rc == MQTTCLIENT_BAD_UTF8_STRING ? REJECTED : TRY_AGAIN,
                           MQTTClient_strerror(rc));
        p->retry_after_ms = RETRY_AFTER_MS;
    }
    finish(run, p);
}

/* Publishes the first unsent parcel. Lock held, except while paho has the parcel. */
static void send_first(struct mqtt_run *run)
{
    struct mqtt_parcel *p = TAILQ_FIRST(&run->unsent);
    const unsigned qos = run->target->qos;
    int token = 0;

    TAILQ_REMOVE(&run->unsent, p, link);
    run->current = p;
    run->current_token = 0;
    pthread_mutex_unlock(&run->lock);
    int rc = mqtt_publish(&run->client, &run->props, p, qos, &token);
    pthread_mutex_lock(&run->lock);
    run->current = NULL;
    if (run->current_token) {
        run->last_token = run->current_token;
        finish(run, p);
    } else if (rc != MQTTCLIENT_SUCCESS) {
        refused(run, p, rc);
    } else if (qos == 0) {
        mqtt_parcel_result(p, DELIVERED, "");
        finish(run, p);
    } else if (run->leaving) {
        mqtt_parcel_result(p, TRY_AGAIN, "connection lost before the broker answered");
        finish(run, p);
    } else {
        p->token = run->last_token = token;
        TAILQ_INSERT_TAIL(&run->sent, p, link);
    }
}

static void *thread_main(void *arg)
{
    struct mqtt_run *run = arg;

    destroy_retired();
    connect_run(run);
    pthread_mutex_lock(&run->lock);
    while (run->state == RUN_CONNECTED && !run->leaving) {
        if (TAILQ_EMPTY(&run->unsent))
            pthread_cond_wait(&run->changed, &run->lock);
        else
            send_first(run);
    }
    run->deaf = true;
    pthread_mutex_unlock(&run->lock);
    mqtt_client_disconnect(&run->client);
    pthread_mutex_lock(&run->lock);
    run->finished = true;
    bool forgotten = run->forgotten;
    notify(run);
    pthread_mutex_unlock(&run->lock);
    if (forgotten)
        retire(run);
    return NULL;
}

/* ------------------------------------------------------------ from the loop thread */

struct mqtt_run *mqtt_run_start(struct mqtt_target *target, void *owner, loop_cb *on_news,
                                struct err *err)
{
    struct mqtt_run *run = mem_alloc(sizeof(*run));

    atomic_fetch_add(&target->users, 1);
    run->target = target;
    run->owner = owner;
    run->on_news = on_news;
    run->started_ms = loop_mono_ms();
    TAILQ_INIT(&run->unsent);
    TAILQ_INIT(&run->sent);
    TAILQ_INIT(&run->answered);
    pthread_mutex_init(&run->lock, NULL);
    pthread_cond_init(&run->changed, NULL);
    int rc = mqtt_client_thread(thread_main, run);
    if (rc == 0)
        return run;
    err_set(err, "cannot start a thread for the MQTT client: %s", strerror(rc));
    retire(run);
    return NULL;
}

void mqtt_run_send(struct mqtt_run *run, struct mqtt_parcel *p)
{
    run->held++;
    pthread_mutex_lock(&run->lock);
    TAILQ_INSERT_TAIL(&run->unsent, p, link);
    pthread_cond_signal(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

void mqtt_run_leave(struct mqtt_run *run, struct mqtt_parcels *unsent,
                    struct mqtt_parcels *sent)
{
    pthread_mutex_lock(&run->lock);
    run->leaving = true;
    TAILQ_CONCAT(unsent, &run->unsent, link);
    TAILQ_CONCAT(sent, &run->sent, link);
    pthread_cond_signal(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void free_parcels(struct mqtt_parcels *parcels)
{
    for (struct mqtt_parcel *p; (p = TAILQ_FIRST(parcels));) {
        TAILQ_REMOVE(parcels, p, link);
        free(p);
    }
}

void mqtt_run_free(struct mqtt_run *run)
{
    run->owner = NULL;
    pthread_mutex_lock(&run->lock);
    run->leaving = run->forgotten = true;
    free_parcels(&run->unsent);
    free_parcels(&run->sent);
    free_parcels(&run->answered);
    bool finished = run->finished;
    pthread_cond_signal(&run->changed);
    pthread_mutex_unlock(&run->lock);
    if (finished)
        retire(run);
}
