/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_probe.h"
#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_paho.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

enum { NAME_BYTES = 32 };

struct probe {
    struct paho_tls_why tls_why;
    pthread_mutex_t lock; /* of all below: paho calls back on its threads */
    pthread_cond_t changed;
    bool ended, connected;
    char why[PAHO_WHY_MAX];
};

static void end(struct probe *p, bool connected, enum MQTTReasonCodes reason, int code,
                const char *message)
{
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    p->connected = connected;
    if (!connected)
        paho_why(p->why, sizeof(p->why), reason, code, message, &p->tls_why);
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_connected(void *context, MQTTAsync_successData *data)
{
    (void)data;
    end(context, true, MQTTREASONCODE_SUCCESS, 0, NULL);
}

static void on_connected5(void *context, MQTTAsync_successData5 *data)
{
    (void)data;
    end(context, true, MQTTREASONCODE_SUCCESS, 0, NULL);
}

static void on_failure(void *context, MQTTAsync_failureData *data)
{
    end(context, false, MQTTREASONCODE_SUCCESS, data ? data->code : 0,
        data ? data->message : NULL);
}

static void on_failure5(void *context, MQTTAsync_failureData5 *data)
{
    end(context, false, data ? data->reasonCode : MQTTREASONCODE_SUCCESS,
        data ? data->code : 0, data ? data->message : NULL);
}

static bool wait_for_end(struct probe *p)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PROBE_WAIT_MS / 1000;
    pthread_mutex_lock(&p->lock);
    while (!p->ended && pthread_cond_timedwait(&p->changed, &p->lock, &until) == 0)
        ;
    bool connected = p->ended && p->connected;
    pthread_mutex_unlock(&p->lock);
    return connected;
}

static int dial(struct probe *p, MQTTAsync client, const struct mqtt_peer *peer,
                const char *url, struct err *err)
{
    MQTTAsync_connectOptions opts;
    MQTTAsync_SSLOptions tls;
    const MQTTAsync_disconnectOptions leave = MQTTAsync_disconnectOptions_initializer;
    paho_connect_options(&opts, &tls, peer, &p->tls_why);
    opts.context = p;
    if (peer->v5) {
        opts.cleanstart = 1;
        opts.onSuccess5 = on_connected5;
        opts.onFailure5 = on_failure5;
    } else {
        opts.cleansession = 1;
        opts.onSuccess = on_connected;
        opts.onFailure = on_failure;
    }
    int rc = MQTTAsync_connect(client, &opts);
    if (rc != MQTTASYNC_SUCCESS)
        return err_set(err, "%s: %s", url, MQTTAsync_strerror(rc));
    if (!wait_for_end(p))
        return err_set(err, "%s: %s", url,
                       *p->why ? p->why : "the broker does not answer in time");
    MQTTAsync_disconnect(client, &leave);
    return 0;
}

/* The name of a daemon that runs would end its session. */
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
    struct probe p = {.lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    struct mqtt_peer peer;
    MQTTAsync client = NULL;
    mqtt_peer_init(&peer, link, new_name());
    int bad = paho_create(&client, &peer, 1, err);
    if (bad == 0)
        bad = dial(&p, client, &peer, link->url, err);
    if (client)
        MQTTAsync_destroy(&client);
    if (bad == 0)
        buf_add_str(said, "the broker accepts us");
    mqtt_peer_free(&peer);
    return bad;
}
