/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_paho.c - connection options and error texts of paho, in one place. Any thread.
 */
#include "sources/mqtt/mqtt_paho.h"
#include "bridge/plugin.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 1024 };

/* A user name and password with 3.1.1; MQTT 5 has reason codes for the same. */
static const char *const refusals[] = {"accepted",
                                       "the broker does not speak this version of MQTT",
                                       "the broker refuses the client_id",
                                       "the broker is not available",
                                       "bad user name or password",
                                       "not authorized"};

int paho_create(MQTTAsync *client, const struct mqtt_peer *peer, int buffered_max,
                struct err *err)
{
    MQTTAsync_createOptions opts = MQTTAsync_createOptions_initializer;

    opts.MQTTVersion = peer->v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    opts.maxBufferedMessages = buffered_max;
    int rc = MQTTAsync_createWithOptions(client, peer->uri, peer->client_id,
                                         MQTTCLIENT_PERSISTENCE_NONE, NULL, &opts);
    if (rc != MQTTASYNC_SUCCESS)
        return err_set(err, "the MQTT library: %s", MQTTAsync_strerror(rc));
    return 0;
}

/* OpenSSL's lines look like 139:error:0A000086:SSL routines:func:certificate verify
 * failed:file.c:1889: - the reason is the sixth field from the left. */
static int on_tls_error(const char *str, size_t len, void *u)
{
    struct paho_tls_why *why = u;
    const char *from = str, *end = str + len;

    for (int skipped = 0; skipped < 5; skipped++) {
        const char *colon = memchr(from, ':', (size_t)(end - from));
        if (colon == NULL)
            break;
        from = colon + 1;
    }
    const char *colon = from < end ? memchr(from, ':', (size_t)(end - from)) : NULL;
    if (colon)
        end = colon;
    snprintf(why->text, sizeof(why->text), "TLS: %.*s", (int)(end - from), from);
    return 1;
}

void paho_connect_options(MQTTAsync_connectOptions *opts, MQTTAsync_SSLOptions *tls,
                          const struct mqtt_peer *peer, struct paho_tls_why *why)
{
    const MQTTAsync_connectOptions v3 = MQTTAsync_connectOptions_initializer;
    const MQTTAsync_connectOptions v5 = MQTTAsync_connectOptions_initializer5;
    const MQTTAsync_SSLOptions fresh = MQTTAsync_SSLOptions_initializer;

    *opts = peer->v5 ? v5 : v3;
    opts->MQTTVersion = peer->v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    opts->keepAliveInterval = (int)peer->keepalive_s;
    opts->connectTimeout = PAHO_CONNECT_TIMEOUT_S;
    opts->automaticReconnect = 0;
    opts->username = peer->user;
    opts->password = peer->password;
    if (strncmp(peer->uri, "ssl://", 6) != 0)
        return;
    why->used = true;
    *tls = fresh;
    tls->enableServerCertAuth = 1;
    tls->verify = 1; /* 0, paho's default, takes the certificate of any host */
    tls->trustStore = peer->ca_file;
    tls->keyStore = peer->cert_file;
    tls->privateKey = peer->key_file;
    tls->privateKeyPassword = peer->key_password;
    tls->protos = (const unsigned char *)peer->alpn; /* not copied: the peer's */
    tls->protos_len = peer->alpn ? (unsigned)strlen(peer->alpn) : 0;
    tls->ssl_error_cb = on_tls_error;
    tls->ssl_error_context = why;
    opts->ssl = tls;
}

/* What to do about it, where it holds a word. */
static const char *hint_of(const char *text)
{
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"ertificate verify failed",
         "; does ca_file hold the authority of the broker's certificate, and has "
         "that not ended?"},
        {"user name or password", "; are user and password right?"},
        {"ot authorized", "; are user and password right, and may they do this?"}};

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strstr(text, hints[i].word))
            return hints[i].hint;
    return "";
}

void paho_why(char *out, size_t size, enum MQTTReasonCodes reason, int code,
              const char *message, const struct paho_tls_why *tls)
{
    const char *text = NULL;

    /* CONNACK of MQTT 5: 1.3.12 has the reason in code, later versions in reason. */
    if (code >= MQTTREASONCODE_UNSPECIFIED_ERROR)
        reason = (enum MQTTReasonCodes)code;
    if (reason >= MQTTREASONCODE_UNSPECIFIED_ERROR)
        text = MQTTReasonCode_toString(reason);
    else if (code > 0 && code < (int)(sizeof(refusals) / sizeof(refusals[0])))
        text = refusals[code];
    else if (tls && tls->text[0])
        text = tls->text;
    else if (tls && tls->used)
        text = "no connection by TLS; is the broker there, does its certificate name "
               "this host, does it want one of ours?";
    else if (message)
        text = message;
    else if (code < -1)
        text = MQTTAsync_strerror(code);
    if (text == NULL)
        text = "no connection; is the host name right?";
    snprintf(out, size, "%s%s", text, hint_of(text));
}

bool paho_disconnect(MQTTAsync client, bool v5, MQTTAsync_onSuccess *done,
                     MQTTAsync_onSuccess5 *done5, void *context)
{
    MQTTAsync_disconnectOptions opts = MQTTAsync_disconnectOptions_initializer;
    MQTTAsync_disconnectOptions opts5 = MQTTAsync_disconnectOptions_initializer5;

    opts.context = opts5.context = context;
    opts.onSuccess = done;
    opts5.onSuccess5 = done5;
    return MQTTAsync_disconnect(client, v5 ? &opts5 : &opts) == MQTTASYNC_SUCCESS;
}

/* paho keeps it to itself; of this process it is the only one to another host. */
static int broker_socket(void)
{
    struct sockaddr_storage peer = {0};
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        socklen_t n = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &n) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
            return fd;
    }
    return -1;
}

int paho_hold(void)
{
    int fd = broker_socket();
    return fd < 0 ? -1 : dup(fd);
}

_Noreturn void paho_leave(int held, int limit_ms)
{
    char unread[4096];
    struct pollfd broker = {.fd = held, .events = POLLIN};
    const int64_t until_ms = loop_mono_ms() + limit_ms;
    int64_t left_ms = limit_ms;

    shutdown(held, SHUT_WR);
    while (held >= 0 && left_ms > 0 && poll(&broker, 1, (int)left_ms) >= 0) {
        ssize_t n = recv(held, unread, sizeof(unread), MSG_DONTWAIT);
        /* EAGAIN: nothing came in time, or a thread of paho was quicker. */
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        left_ms = until_ms - loop_mono_ms();
    }
    _exit(0);
}
