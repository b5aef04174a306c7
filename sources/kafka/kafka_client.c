/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_client.c - polls librdkafka's event queue through an eventfd; destroys handles in
 * a thread.
 */
#include "sources/kafka/kafka_client.h"

#include "bridge/base/log.h"
#include "bridge/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    TICK_MS = 1000,
    CLOCK_BACK_MS = 500,
    EVENTS_PER_TURN = 500,
    END_WAIT_MS = 5000,      /* from the leave, if any, to the destruction */
    END_LEAST_WAIT_MS = 500, /* minimum after a slow leave */
    UNREACHABLE_LOG_MS = 2000,
    TROUBLE_LOG_MS = 60000,
    TROUBLE_KINDS = 5,
    WHY_BYTES = 400,
    SYSLOG_WARNING = 4,
    ASSIGNOR_MENDED = 0x02030000 /* librdkafka version with the fix */
};

struct kafka_client {
    const char *who;
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    int wake_fd;
    struct watch *watch;
    struct timer *tick, *again; /* again: more events than one turn of the loop handles */
    const struct kafka_events *events;
    void *arg;
    int64_t behind_ms;       /* monotonic minus wall clock, at the last tick */
    bool away;               /* no broker can be reached */
    bool unreachable_logged; /*   and this was logged */
    int64_t away_ms;         /*   since this time, monotonic */
    bool reached;            /* a broker was reached at least once */
    bool failed, fatal_reported;
    bool paused;
    bool assigned;           /* consumer: was assigned partitions at least once */
    bool leaving, keep_open; /* keep_open: the handle cannot be destroyed */
    int64_t leave_ms;        /* monotonic start of the leave */
    char why[WHY_BYTES];
    struct buf stalled;        /* see kafka_stall_lasts() */
    unsigned connected;        /* connections to brokers, at the last statistics */
    struct kafka_login *login; /* NULL: no tokens required */
    struct log_limit troubles[TROUBLE_KINDS];
    struct log_limit errors, lines;
};

/* State of a closing client, shared by the loop and the thread. Either may be the last to
 * use it. */
struct closing {
    pthread_mutex_t lock;
    rd_kafka_t *rk;
    int wake_fd;
    bool keep_open;      /* do not destroy rk */
    bool abandoned;      /* guarded by lock: the loop no longer waits */
    struct timer *limit; /* from here on: loop thread only */
    loop_cb *done;
    void *arg;
    const char *who;
};

static void on_wake(void *arg, unsigned events)
{
    struct kafka_client *c = arg;
    uint64_t count;

    (void)events;
    if (read(c->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        log_limited(&c->errors, LOG_WARN, c->who, "eventfd: %s", strerror(errno));
    kafka_client_poll(c);
}

static void on_timer(void *arg)
{
    kafka_client_poll(arg);
}

/* librdkafka's main thread, which sends the heartbeats, sleeps until a wall-clock time.
 * If the clock is set back by an hour, it sleeps an hour longer. Any query wakes it. */
static void wake_if_clock_went_back(struct kafka_client *c)
{
    const int64_t behind_ms = loop_mono_ms() - loop_wall_ms();
    rd_kafka_topic_partition_list_t *list;

    if (behind_ms - c->behind_ms > CLOCK_BACK_MS &&
        rd_kafka_type(c->rk) == RD_KAFKA_CONSUMER &&
        rd_kafka_subscription(c->rk, &list) == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_topic_partition_list_destroy(list);
    c->behind_ms = behind_ms;
}

/* Logs an unreachable broker after a delay: after a closed connection, for example on an
 * expired token, librdkafka usually reconnects at once. */
static void log_unreachable(struct kafka_client *c)
{
    if (!c->away || c->unreachable_logged ||
        loop_mono_ms() - c->away_ms < UNREACHABLE_LOG_MS)
        return;
    c->unreachable_logged = true;
    log_warn(c->who, "no broker can be reached%s; trying again",
             c->reached ? "" : "; check the options brokers, tls and sasl");
}

static void on_tick(void *arg)
{
    wake_if_clock_went_back(arg);
    log_unreachable(arg);
    kafka_client_poll(arg);
}

/* Undoes a partial kafka_client_open(), except for the handle and the descriptor. */
static void release(struct kafka_client *c)
{
    watch_del(c->watch);
    timer_del(c->tick);
    timer_del(c->again);
    kafka_login_free(c->login);
    buf_free(&c->stalled);
    if (c->queue) {
        rd_kafka_queue_io_event_enable(c->queue, -1, NULL, 0);
        rd_kafka_queue_destroy(c->queue);
    }
    loop_defer_free(c);
}

static void listen_to(struct kafka_client *c, rd_kafka_type_t type)
{
    static const uint64_t one = 1; /* the value to write to the eventfd */

    if (type == RD_KAFKA_CONSUMER) {
        /* Otherwise errors and log lines would arrive on a second queue. */
        rd_kafka_poll_set_consumer(c->rk);
        c->queue = rd_kafka_queue_get_consumer(c->rk);
    } else {
        c->queue = rd_kafka_queue_get_main(c->rk);
    }
    rd_kafka_set_log_queue(c->rk, c->queue);
    rd_kafka_queue_io_event_enable(c->queue, c->wake_fd, &one, sizeof(one));
    c->watch = watch_add(c->wake_fd, WATCH_READ, on_wake, c);
    c->again = timer_new(on_timer, c);
    /* An idle queue never wakes the loop, but a consumer that does not poll is removed
     * from its group. */
    c->behind_ms = loop_mono_ms() - loop_wall_ms();
    c->tick = timer_every(TICK_MS, on_tick, c);
}

struct kafka_client *kafka_client_open(const char *who, rd_kafka_type_t type,
                                       const struct kafka_link *link,
                                       rd_kafka_conf_t *conf,
                                       const struct kafka_events *events, void *arg,
                                       struct err *err)
{
    char why[WHY_BYTES];
    struct kafka_client *c = mem_alloc(sizeof(*c));

    c->who = who;
    c->events = events;
    c->arg = arg;
    c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake_fd < 0) {
        rd_kafka_conf_destroy(conf);
        err_set(err, "eventfd: %s", strerror(errno));
        goto fail;
    }
    rd_kafka_conf_set_events(conf, events->mask | RD_KAFKA_EVENT_LOG |
                                       RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_STATS |
                                       RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH);
    c->rk = rd_kafka_new(type, conf, why, sizeof(why));
    if (c->rk == NULL) {
        rd_kafka_conf_destroy(conf); /* rd_kafka_new() owns conf only when it succeeds */
        err_set(err, "librdkafka: %s", why);
        goto fail;
    }
    c->login = kafka_login_new(link, c->rk);
    listen_to(c, type);
    return c;
fail:
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    release(c);
    return NULL;
}

rd_kafka_t *kafka_client_rk(const struct kafka_client *c)
{
    return c->rk;
}

unsigned kafka_client_connections(const struct kafka_client *c)
{
    return c ? c->connected : 0;
}

rd_kafka_queue_t *kafka_client_queue(const struct kafka_client *c)
{
    return c->queue;
}

void kafka_client_reached(struct kafka_client *c)
{
    c->reached = true;
    c->away = false;
    if (!c->unreachable_logged)
        return;
    c->unreachable_logged = false;
    log_info(c->who, "connected to a broker again");
}

void kafka_client_fail(struct kafka_client *c, const char *why)
{
    if (c->failed)
        return;
    c->failed = true;
    snprintf(c->why, sizeof(c->why), "%s", why);
    timer_set(c->again, 0);
}

/* Advice for an error whose text contains a given word. */
static const struct hint {
    rd_kafka_resp_err_t code;
    const char *word, *text;
} hints[] = {
    {RD_KAFKA_RESP_ERR__SSL, "certificate",
     "; check that ca_file contains the CA of the broker's certificate, and that the "
     "certificate has not expired and contains the host name in the option brokers"},
    {RD_KAFKA_RESP_ERR__SSL, "",
     "; check whether the broker uses TLS on that port, and whether it requires a client "
     "certificate (cert_file)"},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, "transport failure", ""}, /* connection closed
                                                                   * meanwhile */
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, "token",
     "; tarry requests a token again in 10 s"},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, "",
     "; check the options user, password and sasl"},
    {RD_KAFKA_RESP_ERR__TRANSPORT, "certificate",
     "; check whether the broker requires a client certificate (cert_file) from a CA "
     "that it trusts"},
};

static const char *hint_of(rd_kafka_resp_err_t code, const char *text)
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (hints[i].code == code && strstr(text, hints[i].word))
            return hints[i].text;
    return "";
}

/* Logs connection errors, which repeat with every attempt. Brokers may fail for different
 * reasons: the first error of each kind is logged at once, repetitions at a limited
 * rate. */
static void log_trouble(struct kafka_client *c, rd_kafka_resp_err_t code,
                        const char *text)
{
    static const rd_kafka_resp_err_t kinds[TROUBLE_KINDS - 1] = {
        RD_KAFKA_RESP_ERR__SSL, RD_KAFKA_RESP_ERR__AUTHENTICATION,
        RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__RESOLVE};
    size_t kind = 0;

    while (kind < TROUBLE_KINDS - 1 && kinds[kind] != code)
        kind++;
    c->troubles[kind].period_ms = TROUBLE_LOG_MS;
    log_limited(&c->troubles[kind], LOG_WARN, c->who, "%s: %s%s; trying again",
                rd_kafka_err2name(code), text, hint_of(code, text));
}

static void on_error(struct kafka_client *c, rd_kafka_event_t *ev)
{
    const rd_kafka_resp_err_t code = rd_kafka_event_error(ev);
    const char *text = rd_kafka_event_error_string(ev);

    if (code == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_event_error_is_fatal(ev)) {
        char why[WHY_BYTES] = "";
        rd_kafka_fatal_error(c->rk, why, sizeof(why));
        kafka_client_fail(c, why[0] ? why : text);
    } else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        if (!c->away)
            c->away_ms = loop_mono_ms();
        c->away = true;
    } else if (code != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        log_trouble(c, code, text ? text : "");
    }
}

/* True for log lines that also arrive as error events; those are logged there. */
static bool is_also_error_event(const char *fac)
{
    static const char *const facs[] = {"FAIL", "ERROR", "FATAL"};
    for (size_t i = 0; i < sizeof(facs) / sizeof(facs[0]); i++)
        if (strcmp(facs[i], fac) == 0)
            return true;
    return false;
}

static void on_log(struct kafka_client *c, rd_kafka_event_t *ev)
{
    const char *fac, *line;
    int level;

    if (rd_kafka_event_log(ev, &fac, &line, &level) < 0)
        return;
    if (level > SYSLOG_WARNING || is_also_error_event(fac))
        log_debug(c->who, "librdkafka %s: %s", fac, line);
    else
        log_limited(&c->lines, LOG_WARN, c->who, "librdkafka %s: %s", fac, line);
}

static void serve(struct kafka_client *c, rd_kafka_event_t *ev)
{
    switch (rd_kafka_event_type(ev)) {
    case RD_KAFKA_EVENT_LOG:
        on_log(c, ev);
        break;
    case RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH:
        kafka_login_refresh(c->login);
        break;
    case RD_KAFKA_EVENT_STATS:
        if (kafka_stall_lasts(&c->stalled, c->rk, rd_kafka_event_stats(ev),
                              &c->connected))
            kafka_client_fail(c, buf_str(&c->stalled));
        break;
    case RD_KAFKA_EVENT_ERROR:
        if (c->events->error)
            c->events->error(c->arg, ev);
        on_error(c, ev);
        break;
    default:
        c->assigned |= rd_kafka_event_type(ev) == RD_KAFKA_EVENT_REBALANCE;
        c->events->event(c->arg, ev);
        return;
    }
    rd_kafka_event_destroy(ev);
}

void kafka_client_poll(struct kafka_client *c)
{
    /* The descriptor is signalled only when an empty queue gets its first event. */
    for (unsigned n = 0; !c->paused; n++) {
        if (n == EVENTS_PER_TURN) {
            timer_set(c->again, 0);
            break;
        }
        rd_kafka_event_t *ev = rd_kafka_queue_poll(c->queue, 0);
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
        timer_set(c->again, 0); /* the descriptor was signalled already */
}

/* ------------------------------------------------------------------ the end */

static void closing_free(struct closing *cl)
{
    pthread_mutex_destroy(&cl->lock);
    free(cl);
}

static void on_destroyed(void *arg)
{
    struct closing *cl = arg;

    pthread_mutex_lock(&cl->lock); /* the thread may still hold it */
    const bool abandoned = cl->abandoned;
    pthread_mutex_unlock(&cl->lock);
    if (!abandoned) {
        if (cl->keep_open)
            log_info(cl->who,
                     "the client stays open until the daemon stops: librdkafka %s cannot "
                     "close a client that is joining its group",
                     rd_kafka_version_str());
        timer_del(cl->limit);
        cl->done(cl->arg);
    }
    closing_free(cl);
}

/* rd_kafka_destroy() joins librdkafka's threads, and a DNS query may block one of
 * them. */
static void *destroy(void *arg)
{
    struct closing *cl = arg;

    if (!cl->keep_open) {
        rd_kafka_destroy_flags(cl->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
        close(cl->wake_fd);
    }
    pthread_mutex_lock(&cl->lock);
    const bool abandoned = cl->abandoned;
    if (!abandoned)
        loop_post(on_destroyed, cl); /* under lock: once abandoned, the loop may no longer
                                      * exist */
    pthread_mutex_unlock(&cl->lock);
    if (abandoned)
        closing_free(cl);
    return NULL;
}

static void on_limit(void *arg)
{
    struct closing *cl = arg;
    loop_cb *done = cl->done;
    void *done_arg = cl->arg;

    log_warn(cl->who,
             "librdkafka did not stop in time; continuing without waiting for it");
    timer_del(cl->limit);
    pthread_mutex_lock(&cl->lock);
    cl->abandoned = true;
    pthread_mutex_unlock(&cl->lock); /* the thread owns cl from here on */
    done(done_arg);
}

/* True for a consumer that has joined its group but has no assignment yet, because the
 * leader is slow or dead: librdkafka before 2.3 aborts when it destroys it (issue 4312).
 * Check before the leave; later the state is no longer visible. */
static bool must_keep_open(const struct kafka_client *c)
{
    if (rd_kafka_version() >= ASSIGNOR_MENDED || c->assigned)
        return false;
    const char *protocol = rd_kafka_rebalance_protocol(c->rk);
    return protocol && strcmp(protocol, "COOPERATIVE") == 0;
}

int kafka_client_leave(struct kafka_client *c, struct err *err)
{
    c->leaving = true;
    c->leave_ms = loop_mono_ms();
    c->keep_open = must_keep_open(c);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(c->rk, c->queue);
    if (error == NULL)
        return 0;
    err_set(err, "%s", rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return -1;
}

/* An unanswered request that delays the leave also delays the destruction. */
static int64_t end_wait_ms(const struct kafka_client *c)
{
    const int64_t spent_ms = c->leaving ? loop_mono_ms() - c->leave_ms : 0;
    const int64_t left_ms = END_WAIT_MS - spent_ms;

    return left_ms > END_LEAST_WAIT_MS ? left_ms : END_LEAST_WAIT_MS;
}

void kafka_client_close(struct kafka_client *c, loop_cb *done, void *arg)
{
    pthread_t thread;
    const int64_t wait_ms = end_wait_ms(c);
    struct closing *cl = mem_alloc(sizeof(*cl));

    pthread_mutex_init(&cl->lock, NULL);
    cl->rk = c->rk;
    cl->wake_fd = c->wake_fd;
    cl->keep_open = c->leaving ? c->keep_open : must_keep_open(c);
    cl->done = done;
    cl->arg = arg;
    cl->who = c->who;
    release(c);
    if (done == NULL) {
        cl->abandoned = true;
        destroy(cl);
        return;
    }
    cl->limit = timer_new(on_limit, cl);
    timer_set(cl->limit, wait_ms);
    if (pthread_create(&thread, NULL, destroy, cl) == 0)
        pthread_detach(thread);
    else
        destroy(cl); /* blocks, but frees everything */
}
