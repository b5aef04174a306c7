/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_client.h"

#include "bridge/base/text.h"
#include "bridge/plugin.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { NAME_BYTES = 32, CLOCK_SLACK_MS = 100 };

/* ------------------------------------------------------------ reasons of failures */

/* CONNACK codes of MQTT 3.1.1; MQTT 5 uses reason codes instead. */
static const char *const refusals[] = {"accepted",
                                       "the broker does not support this version of MQTT",
                                       "the broker rejects the client_id",
                                       "the broker is not available",
                                       "bad user name or password",
                                       "not authorized"};

/* OpenSSL's lines look like 139:error:0A000086:SSL routines:func:certificate verify
 * failed:file.c:1889: - the reason is the sixth field. */
static int on_tls_error(const char *line, size_t len, void *context)
{
    struct mqtt_client *c = context;
    struct slice rest = {line, len}, field = text_cut(&rest, ':');

    for (int skipped = 0; skipped < 5 && rest.p; skipped++)
        field = text_cut(&rest, ':');
    snprintf(c->tls_why, sizeof(c->tls_why), "TLS: %.*s", SLICE_ARG(field));
    return 1;
}

/* Returns advice for an error text that contains a given word. */
static const char *hint_of(const char *text)
{
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"ertificate verify failed",
         "; check that ca_file contains the CA of the broker's certificate, and that the "
         "certificate has not expired"},
        {"mismatch", "; check that its certificate contains the host name of the url"},
        {"server's certificate",
         ": certificate verify failed; check that ca_file contains the CA of the "
         "broker's certificate, and that the certificate has not expired"},
        {"alert", "; check whether the broker requires a client certificate"},
        {"user name or password", "; check the options user and password"},
        {"ot authorized",
         "; check the options user and password, and the permissions of this user"}};

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strstr(text, hints[i].word))
            return hints[i].hint;
    return "";
}

void mqtt_why(char *out, size_t size, const struct mqtt_failure *f)
{
    enum MQTTReasonCodes reason = f->reason;
    const char *text = NULL;

    /* CONNACK of MQTT 5: paho 1.3.12 passes the reason in code, later versions in
     * reason. */
    if (f->code >= MQTTREASONCODE_UNSPECIFIED_ERROR)
        reason = (enum MQTTReasonCodes)f->code;
    if (reason >= MQTTREASONCODE_UNSPECIFIED_ERROR)
        text = MQTTReasonCode_toString(reason);
    else if (f->code > 0 && f->code < (int)(sizeof(refusals) / sizeof(refusals[0])))
        text = refusals[f->code];
    else if (f->tls_why && *f->tls_why)
        text = f->tls_why;
    else if (f->tls)
        text = "no TLS connection; check that the broker runs, that its certificate "
               "contains the host name of the url, and whether it requires a client "
               "certificate";
    else
        text = f->message;
    if (text == NULL)
        text = "no connection; check the host name and the port in the url";
    snprintf(out, size, "%s%s", text, hint_of(text));
}

/* -------------------------------------------------------------------- callbacks */

/* MQTT 5: PUBACK and PUBCOMP, and a PUBREC that rejects the message. */
static void on_published(void *context, int token, int packet_type, MQTTProperties *props,
                         enum MQTTReasonCodes reason)
{
    const struct mqtt_client *c = context;

    (void)packet_type;
    (void)props;
    c->events->answered(c->context, token, reason);
}

/* MQTT 3.1.1: PUBACK and PUBCOMP. */
static void on_complete(void *context, MQTTClient_deliveryToken token)
{
    const struct mqtt_client *c = context;

    c->events->answered(c->context, token, MQTTREASONCODE_SUCCESS);
}

static void on_lost(void *context, char *cause)
{
    const struct mqtt_client *c = context;

    (void)cause; /* always NULL */
    c->events->lost(c->context, MQTTREASONCODE_SUCCESS, NULL);
}

/* MQTT 5: paho calls this instead of on_lost(), or after it. */
static void on_disconnect_packet(void *context, MQTTProperties *props,
                                 enum MQTTReasonCodes reason)
{
    const struct mqtt_client *c = context;
    const struct mqtt_failure failure = {.reason = reason,
                                         .message = "the broker closed the connection"};
    char why[MQTT_WHY_MAX];

    (void)props;
    mqtt_why(why, sizeof(why), &failure);
    c->events->lost(c->context, reason, why);
}

/* The sink subscribes to nothing, and the relay of the source passes on no message. */
static int on_message(void *context, char *topic, int topic_len, MQTTClient_message *m)
{
    (void)context;
    (void)topic_len;
    MQTTClient_freeMessage(&m);
    MQTTClient_free(topic);
    return 1; /* with 0, paho would call back again */
}

/* -------------------------------------------------------------------- connecting */

/* Keeps a client that never connects: paho shuts down with its last client, which is not
 * safe while another thread creates a new client. */
static void keep_paho(void)
{
    static MQTTClient anchor;

    MQTTClient_create(&anchor, "tcp://127.0.0.1:1883", "tarry",
                      MQTTCLIENT_PERSISTENCE_NONE, NULL);
}

static int create(struct mqtt_client *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const bool v5 = c->peer->v5;
    MQTTClient_createOptions opts = MQTTClient_createOptions_initializer;

    pthread_once(&once, keep_paho);
    opts.MQTTVersion = v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    int rc = MQTTClient_createWithOptions(&c->handle, c->peer->uri, c->peer->client_id,
                                          MQTTCLIENT_PERSISTENCE_NONE, NULL, &opts);
    if (rc != MQTTCLIENT_SUCCESS) {
        c->handle = NULL;
        return rc;
    }
    const bool publishes = c->events->answered != NULL;
    MQTTClient_setCallbacks(c->handle, c, on_lost, on_message,
                            publishes && !v5 ? on_complete : NULL);
    if (v5) {
        MQTTClient_setPublished(c->handle, c, publishes ? on_published : NULL);
        MQTTClient_setDisconnected(c->handle, c, on_disconnect_packet);
    }
    return MQTTCLIENT_SUCCESS;
}

static bool uses_tls(const struct mqtt_client *c)
{
    return strncmp(c->peer->uri, "ssl://", 6) == 0;
}

static MQTTClient_SSLOptions tls_options(struct mqtt_client *c)
{
    const struct mqtt_peer *peer = c->peer;
    MQTTClient_SSLOptions tls = MQTTClient_SSLOptions_initializer;

    tls.enableServerCertAuth = 1;
    tls.verify = 1; /* 0, paho's default, accepts a certificate for any host */
    tls.trustStore = peer->ca_file;
    tls.keyStore = peer->cert_file;
    tls.privateKey = peer->key_file;
    tls.privateKeyPassword = peer->key_password;
    tls.protos = (const unsigned char *)peer->alpn; /* borrowed from peer */
    tls.protos_len = peer->alpn ? (unsigned)strlen(peer->alpn) : 0;
    tls.ssl_error_cb = on_tls_error;
    tls.ssl_error_context = c;
    return tls;
}

static unsigned number_or(MQTTProperties *props, enum MQTTPropertyCodes code,
                          unsigned otherwise)
{
    /* The value is read as an int and may exceed its range. */
    return props && MQTTProperties_hasProperty(props, code)
               ? (unsigned)MQTTProperties_getNumericValue(props, code)
               : otherwise;
}

/* The broker closes the connection if we exceed its limits. 0 means no limit. */
static struct mqtt_limits limits_of(MQTTProperties *props)
{
    unsigned packet_max = number_or(props, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE, 0);
    unsigned receive_max = number_or(props, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM, 0);

    return (struct mqtt_limits){
        .packet_max_bytes = packet_max ? packet_max : UINT32_MAX,
        .receive_max = receive_max ? receive_max : UINT16_MAX,
        .qos_max = number_or(props, MQTTPROPERTY_CODE_MAXIMUM_QOS, 2),
        .retain = number_or(props, MQTTPROPERTY_CODE_RETAIN_AVAILABLE, 1),
        .keepalive_s = number_or(props, MQTTPROPERTY_CODE_SERVER_KEEP_ALIVE, 0)};
}

static unsigned requested_keepalive_s(const struct mqtt_client *c)
{
    return c->keepalive_s ? c->keepalive_s : c->peer->keepalive_s;
}

static MQTTClient_connectOptions connect_options(const struct mqtt_client *c)
{
    const MQTTClient_connectOptions v3 = MQTTClient_connectOptions_initializer;
    const MQTTClient_connectOptions v5 = MQTTClient_connectOptions_initializer5;
    const struct mqtt_peer *peer = c->peer;
    MQTTClient_connectOptions opts = peer->v5 ? v5 : v3;

    opts.MQTTVersion = peer->v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    opts.cleanstart = peer->v5 && !c->resume;
    opts.cleansession = !peer->v5 && !c->resume;
    opts.keepAliveInterval = (int)requested_keepalive_s(c);
    opts.connectTimeout = c->timeout_s;
    opts.username = peer->user;
    opts.password = peer->password;
    opts.reliable = 0; /* 1, paho's default, allows one message in flight */
    opts.maxInflightMessages = (int)c->in_flight_max;
    return opts;
}

/* Returns 0, an error of paho, or the refusal of the broker. */
static int connect_now(struct mqtt_client *c)
{
    MQTTClient_connectOptions opts = connect_options(c);
    MQTTClient_SSLOptions tls = tls_options(c);
    MQTTResponse answer = MQTTResponse_initializer;
    int rc;

    if (uses_tls(c))
        opts.ssl = &tls;
    if (c->peer->v5) {
        answer = MQTTClient_connect5(c->handle, &opts, c->props, NULL);
        rc = (int)answer.reasonCode;
    } else {
        rc = MQTTClient_connect(c->handle, &opts);
    }
    c->limits = limits_of(rc == MQTTCLIENT_SUCCESS ? answer.properties : NULL);
    if (c->limits.keepalive_s >= requested_keepalive_s(c))
        c->limits.keepalive_s = 0; /* paho pings often enough */
    MQTTResponse_free(answer);
    return rc;
}

/* paho (1.3.12 to 1.4) ignores the keepalive that the broker sets, and the broker would
 * close an idle connection. So connects again with that keepalive. The relay of a source,
 * which resumes its session, sends the pings itself. */
static int connect_with_keepalive(struct mqtt_client *c)
{
    int rc = connect_now(c);
    const unsigned keepalive_s = c->limits.keepalive_s;

    if (rc != MQTTCLIENT_SUCCESS || c->resume || keepalive_s == 0)
        return rc;
    mqtt_client_disconnect(c);
    c->keepalive_s = keepalive_s;
    return connect_now(c);
}

/* paho (1.3.12 to 1.4) stops its thread when the last connection ends, also if a new one
 * begins in that moment. Then nothing would ever be answered. receive() fails at once
 * while the thread runs, before it sets topic. */
static bool has_thread(struct mqtt_client *c)
{
    char none, *topic = &none;
    int topic_len = 0;
    MQTTClient_message *m = NULL;

    MQTTClient_receive(c->handle, &topic, &topic_len, &m, 0);
    return topic == &none;
}

int mqtt_client_connect(struct mqtt_client *c)
{
    const int64_t late_ms =
        loop_mono_ms() + c->timeout_s * INT64_C(1000) - CLOCK_SLACK_MS;
    struct mqtt_failure failure = {.tls_why = c->tls_why};

    failure.code = create(c);
    if (failure.code == MQTTCLIENT_SUCCESS) {
        failure.code = connect_with_keepalive(c);
        failure.tls = uses_tls(c);
        if (failure.code == MQTTCLIENT_SUCCESS && has_thread(c))
            return 0;
    }
    c->refused = failure.code > 0;
    if (failure.code < -1)
        failure.message = MQTTClient_strerror(failure.code);
    else if (failure.code == MQTTCLIENT_SUCCESS)
        failure = (struct mqtt_failure){.message = "the MQTT client stopped"};
    else if (!c->refused && c->tls_why[0] == '\0' && loop_mono_ms() >= late_ms)
        failure = (struct mqtt_failure){.message = "the broker does not answer in time"};
    mqtt_why(c->why, sizeof(c->why), &failure);
    return -1;
}

void mqtt_client_disconnect(struct mqtt_client *c)
{
    if (c->handle == NULL)
        return;
    if (c->peer->v5)
        MQTTClient_disconnect5(c->handle, 0, MQTTREASONCODE_SUCCESS, NULL);
    else
        MQTTClient_disconnect(c->handle, 0);
}

void mqtt_client_destroy(struct mqtt_client *c)
{
    if (c->handle)
        MQTTClient_destroy(&c->handle);
}

int mqtt_client_thread(void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_t id;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&id, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_detach(id);
    return rc;
}

/* ------------------------------------------------------------ tarry check --connect */

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

static void on_probe_lost(void *context, enum MQTTReasonCodes reason, const char *why)
{
    (void)context;
    (void)reason;
    (void)why;
}

/* Leaves client and peer to the end of the process, since a callback may follow. */
int mqtt_probe(const struct mqtt_link *link, struct buf *said, struct err *err)
{
    static const struct mqtt_client_events events = {.lost = on_probe_lost};
    struct mqtt_client *c = mem_alloc(sizeof(*c));
    struct mqtt_peer *peer = mem_alloc(sizeof(*peer));

    mqtt_peer_init(peer, link, new_name());
    *c = (struct mqtt_client){
        .peer = peer, .events = &events, .timeout_s = PROBE_WAIT_MS / 1000};
    if (mqtt_client_connect(c) != 0)
        return err_set(err, "%s: %s", link->url, c->why);
    mqtt_client_disconnect(c);
    buf_add_str(said, "the broker accepts the connection");
    return 0;
}
