/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/retry.h"
#include "sources/amqp/amqp_link_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CONNECT_MS = 10 * 1000,
    LOGIN_MS =
        20 * 1000, /* from the start of the connect; the broker's own limit is 10 s */
    STEADY_MS = 10 * 1000, /* a connection of this length does not count as a failure */
    STOP_MS = 2000,
    POOL_BYTES = 8192
};

/* -------------------------------------------------------------------- the end */

static void drop_channel(struct amqp_link *l, unsigned number)
{
    struct amqp_channel *c = l->channels[number];

    if (c == NULL)
        return;
    amqp_content_drop(&c->content);
    free(c);
    l->channels[number] = NULL;
}

static void drop_connection(struct amqp_link *l)
{
    net_close(l->net);
    l->net = NULL;
    buf_free(&l->in);
    for (unsigned i = 0; i <= AMQP_CHANNELS_MAX; i++)
        drop_channel(l, i);
    timer_del(l->beat);
    l->beat = NULL;
    l->blocked = l->deaf = false;
}

static void finish_stop(void *arg)
{
    struct amqp_link *l = arg;

    if (l->state != STOPPING)
        return;
    l->state = STOPPED;
    drop_connection(l);
    l->stopped(l->arg);
}

static void fail(struct amqp_link *l, const char *why)
{
    const bool was_open = l->state == OPEN;

    if (l->state == STOPPING) {
        finish_stop(l);
        return;
    }
    if (why != l->why)
        snprintf(l->why, sizeof(l->why), "%s%s", why, amqp_hint(why));
    drop_connection(l);
    l->state = DOWN;
    if (was_open && loop_mono_ms() - l->opened_ms >= STEADY_MS)
        l->failures = 0;
    timer_set(l->timer, retry_broker_ms(++l->failures));
    /* Log every lost connection, but failed attempts at a limited rate. */
    if (was_open)
        l->away_limit = (struct log_limit){0};
    log_limited(&l->away_limit, LOG_WARN, l->peer->name, "%s:%s: %s; trying again",
                l->peer->host, l->peer->port, l->why);
    l->cbs->on_closed(l->arg, l->why);
}

/* -------------------------------------------------------------------- the login */

static void on_beat(void *arg)
{
    struct amqp_link *l = arg;

    if (l->state != OPEN)
        return;
    if (!l->deaf && loop_mono_ms() - l->received_ms > 2 * l->beat_ms) {
        fail(l, "the broker has sent no heartbeat");
        return;
    }
    if (!l->sent)
        amqp_link_put_beat(l);
    l->sent = false;
}

/* 0 means no limit of the broker's. */
static unsigned least(unsigned ours, unsigned theirs)
{
    return theirs > 0 && theirs < ours ? theirs : ours;
}

static void on_tune(struct amqp_link *l, const amqp_connection_tune_t *tune)
{
    const unsigned beat_s = least(l->peer->heartbeat_s, tune->heartbeat);

    l->channel_max = least(AMQP_CHANNELS_MAX, tune->channel_max);
    l->frame_max = least(AMQP_FRAME_MAX_BYTES, tune->frame_max);
    if (l->frame_max < AMQP_FRAME_MIN_BYTES)
        l->frame_max = AMQP_FRAME_MIN_BYTES;
    l->beat_ms = beat_s * INT64_C(1000);
    amqp_connection_tune_ok_t ok = {.channel_max = (uint16_t)l->channel_max,
                                    .frame_max = (uint32_t)l->frame_max,
                                    .heartbeat = (uint16_t)beat_s};
    amqp_connection_open_t open = {.virtual_host =
                                       amqp_bytes_of(slice_of(l->peer->vhost)),
                                   .capabilities = amqp_empty_bytes};
    amqp_link_put(l, 0, AMQP_CONNECTION_TUNE_OK_METHOD, &ok);
    amqp_link_put(l, 0, AMQP_CONNECTION_OPEN_METHOD, &open);
    l->state = OPENING;
}

static void on_open_ok(struct amqp_link *l)
{
    const int64_t period_ms = l->beat_ms / 2000 * 1000;

    l->state = OPEN;
    l->opened_ms = loop_mono_ms();
    l->why[0] = '\0';
    l->beat = timer_every(period_ms > 0 ? period_ms : 1000, on_beat, l);
    timer_stop(l->timer);
    log_info(l->peer->name, "connected to %s:%s, virtual host %s", l->peer->host,
             l->peer->port, l->peer->vhost);
    l->cbs->on_open(l->arg);
}

static void set_blocked(struct amqp_link *l, bool blocked, amqp_bytes_t reason)
{
    if (l->blocked == blocked)
        return;
    l->blocked = blocked;
    if (blocked) {
        snprintf(l->why, sizeof(l->why),
                 "the broker accepts no messages: %.*s (connection.blocked); check its "
                 "memory and its disk",
                 (int)reason.len, (const char *)reason.bytes);
        log_warn(l->peer->name, "%s", l->why);
    } else {
        l->why[0] = '\0';
        log_info(l->peer->name, "the broker accepts messages again");
    }
    if (l->cbs->on_blocked)
        l->cbs->on_blocked(l->arg);
}

static void on_connection_close(struct amqp_link *l, const amqp_connection_close_t *m)
{
    amqp_link_put_close_ok(l, 0);
    net_push(l->net);
    amqp_close_why(l->why, m->reply_code, m->reply_text);
    fail(l, l->why);
}

/* A method of the connection itself. */
static void on_own_method(struct amqp_link *l, amqp_method_number_t id, const void *m)
{
    if (id == AMQP_CONNECTION_CLOSE_METHOD) {
        on_connection_close(l, m);
    } else if (id == AMQP_CONNECTION_CLOSE_OK_METHOD && l->state == STOPPING) {
        finish_stop(l);
    } else if (id == AMQP_CONNECTION_TUNE_METHOD && l->state == STARTING) {
        on_tune(l, m);
    } else if (id == AMQP_CONNECTION_OPEN_OK_METHOD && l->state == OPENING) {
        on_open_ok(l);
    } else if (id == AMQP_CONNECTION_BLOCKED_METHOD && l->state == OPEN) {
        set_blocked(l, true, ((const amqp_connection_blocked_t *)m)->reason);
    } else if (id == AMQP_CONNECTION_UNBLOCKED_METHOD && l->state == OPEN) {
        set_blocked(l, false, amqp_empty_bytes);
    }
}

/* -------------------------------------------------------------------- receiving */

static int on_channel_method(struct amqp_link *l, unsigned number,
                             amqp_method_number_t id, const void *method)
{
    struct amqp_channel *c = l->channels[number];

    if (id == AMQP_CHANNEL_CLOSE_METHOD)
        amqp_link_put_close_ok(l, number);
    if (c->closing && id != AMQP_CHANNEL_CLOSE_OK_METHOD)
        return 0;
    if (id == AMQP_BASIC_DELIVER_METHOD || id == AMQP_BASIC_RETURN_METHOD)
        return amqp_content_begin(&c->content, number, id, method);
    if (id == AMQP_CHANNEL_CLOSE_METHOD || id == AMQP_CHANNEL_CLOSE_OK_METHOD)
        drop_channel(l, number);
    l->cbs->on_method(l->arg, number, id, method);
    return 0;
}

static void send_own(void *arg, amqp_method_number_t id, void *method)
{
    amqp_link_put(arg, 0, id, method);
}

/* connection.start: version, server properties, mechanisms. Not decoded by librabbitmq,
 * because of the nested tables. */
static int on_start(struct amqp_link *l, struct slice args)
{
    const struct slice wanted =
        l->peer->user ? SLICE_LIT("PLAIN") : SLICE_LIT("EXTERNAL");

    if (l->state != CONNECTING || args.n < 6)
        return -1;
    const uint64_t table = amqp_number(args.p + 2, 4);
    if (args.n < 6 + table + 4)
        return -1;
    const struct slice mechanisms = {args.p + 6 + table + 4, args.n - 6 - table - 4};
    if (memmem(mechanisms.p, mechanisms.n, wanted.p, wanted.n) == NULL) {
        snprintf(l->why, sizeof(l->why),
                 "the broker does not offer the login mechanism %s; %s", wanted.p,
                 l->peer->user ? "enable it there" : "set user and password");
        fail(l, l->why);
        return 0;
    }
    l->state = STARTING;
    amqp_link_login(l->peer, send_own, l);
    return 0;
}

/* The methods that a broker sends to a client, without connection.start. None of them
 * contains a table, which librabbitmq would decode recursively. */
static bool is_expected(amqp_method_number_t id)
{
    static const amqp_method_number_t ids[] = {
        AMQP_BASIC_DELIVER_METHOD,        AMQP_BASIC_ACK_METHOD,
        AMQP_BASIC_NACK_METHOD,           AMQP_BASIC_RETURN_METHOD,
        AMQP_BASIC_CANCEL_METHOD,         AMQP_BASIC_QOS_OK_METHOD,
        AMQP_BASIC_CONSUME_OK_METHOD,     AMQP_CONFIRM_SELECT_OK_METHOD,
        AMQP_EXCHANGE_DECLARE_OK_METHOD,  AMQP_QUEUE_DECLARE_OK_METHOD,
        AMQP_CHANNEL_OPEN_OK_METHOD,      AMQP_CHANNEL_CLOSE_METHOD,
        AMQP_CHANNEL_CLOSE_OK_METHOD,     AMQP_CONNECTION_TUNE_METHOD,
        AMQP_CONNECTION_OPEN_OK_METHOD,   AMQP_CONNECTION_BLOCKED_METHOD,
        AMQP_CONNECTION_UNBLOCKED_METHOD, AMQP_CONNECTION_CLOSE_METHOD,
        AMQP_CONNECTION_CLOSE_OK_METHOD};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i] == id)
            return true;
    return false;
}

static int on_method_frame(struct amqp_link *l, unsigned number, struct slice payload)
{
    void *method;
    int rc = 0;

    if (payload.n < 4)
        return -1;
    const amqp_method_number_t id = (amqp_method_number_t)amqp_number(payload.p, 4);
    const struct slice args = {payload.p + 4, payload.n - 4};
    if (id == AMQP_CONNECTION_START_METHOD)
        return on_start(l, args);
    if (!is_expected(id) ||
        amqp_decode_method(id, &l->pool, amqp_bytes_of(args), &method) < 0)
        return -1;
    if (number == 0)
        on_own_method(l, id, method);
    else if (l->state == OPEN && l->channels[number])
        rc = on_channel_method(l, number, id, method);
    recycle_amqp_pool(&l->pool);
    return rc;
}

static int on_frame(struct amqp_link *l, const struct amqp_frame *f)
{
    if (f->channel > AMQP_CHANNELS_MAX)
        return -1;
    if (f->type == AMQP_METHOD)
        return on_method_frame(l, f->channel, f->payload);
    if (f->type == AMQP_BEAT)
        return 0;
    if (f->type != AMQP_HEADER && f->type != AMQP_BODY)
        return -1;
    struct amqp_channel *c = l->channels[f->channel];
    if (c == NULL || c->closing || l->state != OPEN)
        return 0;
    const int rc = f->type == AMQP_HEADER
                       ? amqp_content_header(&c->content, f->payload, l->body_max)
                       : amqp_content_body(&c->content, f->payload);
    struct amqp_message *m = amqp_content_take(&c->content);
    if (m && l->cbs->on_message)
        l->cbs->on_message(l->arg, m);
    else
        free(m);
    return rc;
}

/* Returns whether the connection still exists. */
static bool on_frames(struct amqp_link *l, struct slice *in)
{
    const struct net *net = l->net;
    struct amqp_frame f;
    struct err err;
    int rc;

    while ((rc = amqp_frame_take(in, l->frame_max, &f, &err)) > 0) {
        if (on_frame(l, &f) != 0)
            rc = err_set(&err, "the broker sent an invalid frame");
        if (rc < 0 || l->net != net)
            break;
    }
    if (rc < 0 && l->net == net)
        fail(l, err.text);
    return l->net == net && net != NULL;
}

static void on_data(void *arg, struct slice bytes)
{
    struct amqp_link *l = arg;
    struct slice rest = bytes;

    l->received_ms = loop_mono_ms();
    if (l->in.n == 0) {
        if (on_frames(l, &rest))
            buf_add_slice(&l->in, rest);
        return;
    }
    buf_add_slice(&l->in, bytes);
    struct buf in = l->in; /* ours, since a callback may drop the connection */
    l->in = (struct buf){0};
    rest = buf_slice(&in);
    if (!on_frames(l, &rest)) {
        buf_free(&in);
        return;
    }
    buf_drop(&in, in.n - rest.n);
    l->in = in;
}

/* -------------------------------------------------------------------- the stream */

static void on_connected(void *arg)
{
    struct amqp_link *l = arg;

    net_write(l->net, "AMQP\0\0\x09\x01", 8);
}

static void on_net_closed(void *arg, const char *why)
{
    struct amqp_link *l = arg;

    if (l->state == STARTING)
        fail(l, "the broker closed the connection during the login; check user and "
                "password");
    else
        fail(l, why);
}

static void connect_now(struct amqp_link *l)
{
    static const struct net_cbs cbs = {on_connected, on_data, on_net_closed};
    const struct amqp_peer *peer = l->peer;
    const struct net_conf conf = {.host = peer->host,
                                  .port = peer->port,
                                  .tls = peer->tls,
                                  .ca_file = peer->ca_file,
                                  .cert_file = peer->cert_file,
                                  .key_file = peer->key_file,
                                  .key_password = peer->key_password,
                                  .connect_timeout_ms = CONNECT_MS,
                                  .unacknowledged_timeout_ms =
                                      2000 * (int64_t)peer->heartbeat_s};

    l->state = CONNECTING;
    l->frame_max = AMQP_FRAME_MAX_BYTES;
    l->net = net_open(&conf, &cbs, l);
    timer_set(l->timer, LOGIN_MS);
}

static void on_time(void *arg)
{
    struct amqp_link *l = arg;

    if (l->state == DOWN)
        connect_now(l);
    else if (l->state == STOPPING)
        finish_stop(l);
    else if (l->state != OPEN)
        fail(l, "the broker does not answer in time");
}

struct amqp_link *amqp_link_new(const struct amqp_peer *peer, uint64_t body_max,
                                const struct amqp_link_cbs *cbs, void *arg)
{
    struct amqp_link *l = mem_alloc(sizeof(*l));

    *l = (struct amqp_link){.peer = peer, .cbs = cbs, .arg = arg, .body_max = body_max};
    snprintf(l->why, sizeof(l->why), "not connected yet");
    init_amqp_pool(&l->pool, POOL_BYTES);
    l->timer = timer_new(on_time, l);
    timer_set(l->timer, 0);
    return l;
}

void amqp_link_stop(struct amqp_link *l, loop_cb *stopped)
{
    amqp_connection_close_t close = {.reply_code = AMQP_REPLY_SUCCESS,
                                     .reply_text = amqp_empty_bytes};
    const bool open = l->state == OPEN;

    l->stopped = stopped;
    amqp_link_set_reading(l, true);
    if (open)
        amqp_link_put(l, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
    l->state = STOPPING;
    timer_set(l->timer, open ? STOP_MS : 0);
}

void amqp_link_free(struct amqp_link *l)
{
    if (l == NULL)
        return;
    drop_connection(l);
    timer_del(l->timer);
    empty_amqp_pool(&l->pool);
    loop_defer_free(l);
}

bool amqp_link_is_open(const struct amqp_link *l)
{
    return l->state == OPEN;
}

bool amqp_link_is_blocked(const struct amqp_link *l)
{
    return l->blocked;
}

const char *amqp_link_why(const struct amqp_link *l)
{
    return l->why;
}

unsigned amqp_link_channels(const struct amqp_link *l)
{
    return l->channel_max;
}

void amqp_link_set_reading(struct amqp_link *l, bool reading)
{
    if (l->state != OPEN || l->deaf != reading)
        return;
    l->deaf = !reading;
    l->received_ms = loop_mono_ms();
    net_set_reading(l->net, reading);
}
