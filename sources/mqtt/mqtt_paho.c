/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_paho.h"

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_why.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { NAME_BYTES = 32, PROBE_LEAVE_MS = 1000 };

/* -------------------------------------------------------------------- errors in words */

static int on_tls_error(const char *str, size_t len, void *u)
{
    struct paho *p = u;

    mqtt_why_tls(p->tls_why, sizeof(p->tls_why), str, len);
    return 1;
}

void paho_why(char *out, size_t size, enum MQTTReasonCodes reason, int code,
              const char *message, const struct paho *p)
{
    const struct mqtt_failure failure = {
        .reason = reason,
        .code = code,
        .message = message == NULL && code < -1 ? MQTTAsync_strerror(code) : message,
        .tls = p && p->tls,
        .tls_why = p ? p->tls_why : NULL};

    mqtt_why(out, size, &failure);
}

/* -------------------------------------------------------------------- one client */

static void on_connected(void *context, MQTTAsync_successData *d)
{
    const struct paho *p = context;
    p->events->connected(p->context, d && d->alt.connect.sessionPresent, NULL);
}

static void on_connected5(void *context, MQTTAsync_successData5 *d)
{
    const struct paho *p = context;
    p->events->connected(p->context, d && d->alt.connect.sessionPresent,
                         d ? &d->properties : NULL);
}

static void connect_failed(struct paho *p, enum MQTTReasonCodes reason, int code,
                           const char *message)
{
    char text[PAHO_WHY_MAX];

    p->refused = reason >= MQTTREASONCODE_UNSPECIFIED_ERROR || code > 0;
    paho_why(text, sizeof(text), reason, code, message, p);
    p->events->failed(p->context, text);
}

static void on_failure(void *context, MQTTAsync_failureData *d)
{
    connect_failed(context, MQTTREASONCODE_SUCCESS, d ? d->code : 0,
                   d ? d->message : NULL);
}

static void on_failure5(void *context, MQTTAsync_failureData5 *d)
{
    connect_failed(context, d ? d->reasonCode : MQTTREASONCODE_SUCCESS, d ? d->code : 0,
                   d ? d->message : NULL);
}

void paho_lock_init(pthread_mutex_t *lock, pthread_cond_t *changed)
{
    pthread_condattr_t attr;

    pthread_mutex_init(lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* same clock as loop_mono_ms() */
    pthread_cond_init(changed, &attr);
    pthread_condattr_destroy(&attr);
}

void paho_wait(pthread_mutex_t *lock, pthread_cond_t *changed, int64_t until_ms)
{
    const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};

    pthread_cond_timedwait(changed, lock, &until);
}

int paho_open(struct paho *p, const struct mqtt_peer *peer, int buffered_max,
              const struct paho_events *events, void *context, struct err *err)
{
    MQTTAsync_createOptions opts = MQTTAsync_createOptions_initializer;

    *p = (struct paho){.peer = peer, .events = events, .context = context};
    opts.MQTTVersion = peer->v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    opts.maxBufferedMessages = buffered_max;
    int rc = MQTTAsync_createWithOptions(&p->client, peer->uri, peer->client_id,
                                         MQTTCLIENT_PERSISTENCE_NONE, NULL, &opts);
    if (rc != MQTTASYNC_SUCCESS) {
        p->client = NULL;
        return err_set(err, "cannot create an MQTT client: %s", MQTTAsync_strerror(rc));
    }
    paho_lock_init(&p->lock, &p->changed);
    return 0;
}

static void set_tls(MQTTAsync_SSLOptions *tls, struct paho *p)
{
    const MQTTAsync_SSLOptions fresh = MQTTAsync_SSLOptions_initializer;
    const struct mqtt_peer *peer = p->peer;

    p->tls = true;
    *tls = fresh;
    tls->enableServerCertAuth = 1;
    tls->verify = 1; /* 0, paho's default, accepts a certificate for any host */
    tls->trustStore = peer->ca_file;
    tls->keyStore = peer->cert_file;
    tls->privateKey = peer->key_file;
    tls->privateKeyPassword = peer->key_password;
    tls->protos = (const unsigned char *)peer->alpn; /* borrowed from peer */
    tls->protos_len = peer->alpn ? (unsigned)strlen(peer->alpn) : 0;
    tls->ssl_error_cb = on_tls_error;
    tls->ssl_error_context = p;
}

void paho_connect(struct paho *p, bool clean, int in_flight_max, MQTTProperties *props)
{
    const MQTTAsync_connectOptions v3 = MQTTAsync_connectOptions_initializer;
    const MQTTAsync_connectOptions v5 = MQTTAsync_connectOptions_initializer5;
    const struct mqtt_peer *peer = p->peer;
    MQTTAsync_connectOptions opts = peer->v5 ? v5 : v3;
    MQTTAsync_SSLOptions tls;

    opts.MQTTVersion = peer->v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    opts.keepAliveInterval = (int)peer->keepalive_s;
    opts.connectTimeout = PAHO_CONNECT_TIMEOUT_S;
    opts.automaticReconnect = 0;
    opts.username = peer->user;
    opts.password = peer->password;
    opts.context = p;
    if (in_flight_max > 0)
        opts.maxInflight = in_flight_max;
    if (peer->v5) {
        opts.cleanstart = clean;
        opts.onSuccess5 = on_connected5;
        opts.onFailure5 = on_failure5;
        opts.connectProperties = props;
    } else {
        opts.cleansession = clean;
        opts.onSuccess = on_connected;
        opts.onFailure = on_failure;
    }
    if (strncmp(peer->uri, "ssl://", 6) == 0) {
        set_tls(&tls, p);
        opts.ssl = &tls;
    }
    int rc = MQTTAsync_connect(p->client, &opts);
    if (rc != MQTTASYNC_SUCCESS)
        connect_failed(p, MQTTREASONCODE_SUCCESS, rc, NULL);
}

static void disconnected(struct paho *p)
{
    pthread_mutex_lock(&p->lock);
    p->disconnected = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_disconnected(void *context, MQTTAsync_successData *d)
{
    (void)d;
    disconnected(context);
}

static void on_disconnected5(void *context, MQTTAsync_successData5 *d)
{
    (void)d;
    disconnected(context);
}

void paho_disconnect(struct paho *p, int limit_ms)
{
    const MQTTAsync_disconnectOptions v3 = MQTTAsync_disconnectOptions_initializer;
    const MQTTAsync_disconnectOptions v5 = MQTTAsync_disconnectOptions_initializer5;
    MQTTAsync_disconnectOptions opts = p->peer->v5 ? v5 : v3;
    const int64_t until_ms = loop_mono_ms() + limit_ms;

    opts.context = p;
    if (p->peer->v5)
        opts.onSuccess5 = on_disconnected5;
    else
        opts.onSuccess = on_disconnected;
    if (MQTTAsync_disconnect(p->client, &opts) != MQTTASYNC_SUCCESS)
        return; /* not connected */
    pthread_mutex_lock(&p->lock);
    while (!p->disconnected && loop_mono_ms() < until_ms)
        paho_wait(&p->lock, &p->changed, until_ms);
    pthread_mutex_unlock(&p->lock);
}

void paho_close(struct paho *p)
{
    if (p->client == NULL)
        return;
    MQTTAsync_destroy(&p->client);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

/* -------------------------------------------------------------------- messages */

static const struct prop_row {
    enum MQTTPropertyCodes code;
    enum mqtt_prop_kind kind;
} prop_rows[] = {{MQTTPROPERTY_CODE_CONTENT_TYPE, PROP_CONTENT_TYPE},
                 {MQTTPROPERTY_CODE_RESPONSE_TOPIC, PROP_RESPONSE_TOPIC},
                 {MQTTPROPERTY_CODE_CORRELATION_DATA, PROP_CORRELATION},
                 {MQTTPROPERTY_CODE_USER_PROPERTY, PROP_USER}};

static struct slice slice_from(MQTTLenString s)
{
    return (struct slice){s.data ? s.data : "", s.len > 0 ? (size_t)s.len : 0};
}

/* Adds the number as text. The bytes of other properties belong to paho. */
static void add_format(struct buf *out, const MQTTProperty *p)
{
    const struct mqtt_prop prop = {.kind = PROP_PAYLOAD_FORMAT,
                                   .value = slice_of(p->value.byte == 1 ? "1" : "0")};
    frame_put_prop(out, &prop);
}

static void add_one(struct buf *out, const MQTTProperty *p, enum mqtt_prop_kind kind)
{
    const bool pair = kind == PROP_USER;
    const struct mqtt_prop prop = {
        .kind = kind,
        .name = pair ? slice_from(p->value.data) : (struct slice){NULL, 0},
        .value = slice_from(pair ? p->value.value : p->value.data)};
    frame_put_prop(out, &prop);
}

static void add_props(struct buf *out, const MQTTProperties *props)
{
    for (int i = 0; i < props->count; i++) {
        const MQTTProperty *p = &props->array[i];
        if (p->identifier == MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR)
            add_format(out, p);
        for (size_t k = 0; k < sizeof(prop_rows) / sizeof(prop_rows[0]); k++)
            if (p->identifier == prop_rows[k].code)
                add_one(out, p, prop_rows[k].kind);
    }
}

/* Returns the seconds left of the message expiry interval; -1: none. */
static int64_t expiry_s(const MQTTProperties *props)
{
    for (int i = 0; i < props->count; i++)
        if (props->array[i].identifier == MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL)
            return props->array[i].value.integer4;
    return -1;
}

void paho_put_message(struct buf *frame, struct slice topic,
                      const MQTTAsync_message *message, uint64_t message_max)
{
    struct buf props = {0};
    struct mqtt_message m = {.dup = message->dup,
                             .retained = message->retained,
                             .msgid = (unsigned)message->msgid & 0xffff,
                             .expiry_s = expiry_s(&message->properties),
                             .topic = topic,
                             .payload = {message->payload, (size_t)message->payloadlen}};
    size_t whole = topic.n + m.payload.n + (size_t)message->properties.length;

    if (m.payload.p == NULL)
        m.payload.p = "";
    if (whole > message_max) {
        m.whole_bytes = whole;
        if (m.payload.n > FRAME_CUT_BYTES)
            m.payload.n = FRAME_CUT_BYTES;
    } else {
        add_props(&props, &message->properties);
    }
    m.props = buf_slice(&props);
    frame_put_message(frame, &m);
    buf_free(&props);
}

/* ------------------------------------------------------------ tarry check --connect */

struct probe {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool ended, connected;
    char why[PAHO_WHY_MAX];
};

/* why NULL: connected. */
static void end_probe(struct probe *probe, const char *why)
{
    pthread_mutex_lock(&probe->lock);
    probe->ended = true;
    probe->connected = why == NULL;
    snprintf(probe->why, sizeof(probe->why), "%s", why ? why : "");
    pthread_cond_signal(&probe->changed);
    pthread_mutex_unlock(&probe->lock);
}

static void on_probed(void *context, bool session_present, MQTTProperties *props)
{
    (void)session_present;
    (void)props;
    end_probe(context, NULL);
}

static void on_not_probed(void *context, const char *why)
{
    end_probe(context, why);
}

static bool wait_for_end(struct probe *probe)
{
    const int64_t until_ms = loop_mono_ms() + PROBE_WAIT_MS;

    pthread_mutex_lock(&probe->lock);
    while (!probe->ended && loop_mono_ms() < until_ms)
        paho_wait(&probe->lock, &probe->changed, until_ms);
    bool connected = probe->connected;
    pthread_mutex_unlock(&probe->lock);
    return connected;
}

/* Makes a unique client id: that of a running daemon would end the daemon's
 * connection. */
static char *new_name(void)
{
    unsigned random = 0;
    char name[NAME_BYTES];
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = (unsigned)time(NULL);
    snprintf(name, sizeof(name), "tarry-probe-%08x", random);
    return mem_strdup(name);
}

int mqtt_probe(const struct mqtt_link *link, struct buf *said, struct err *err)
{
    static const struct paho_events events = {on_probed, on_not_probed};
    struct probe probe = {.ended = false};
    struct mqtt_peer peer;
    struct paho paho;

    paho_lock_init(&probe.lock, &probe.changed);
    mqtt_peer_init(&peer, link, new_name());
    int bad = paho_open(&paho, &peer, 1, &events, &probe, err);
    if (bad == 0) {
        paho_connect(&paho, true, 0, NULL);
        if (wait_for_end(&probe)) {
            paho_disconnect(&paho, PROBE_LEAVE_MS);
            buf_add_str(said, "the broker accepts the connection");
        } else {
            bad = err_set(err, "%s: %s", link->url,
                          *probe.why ? probe.why : "the broker does not answer in time");
        }
        paho_close(&paho);
    }
    mqtt_peer_free(&peer);
    return bad;
}
