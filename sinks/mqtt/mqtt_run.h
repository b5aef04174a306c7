/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_run.h - one client of paho, from its creation to its destruction; for
 * mqtt_thread.c.
 *
 * It is never used again after its connection broke, so that nothing it still held can be
 * sent later. paho holds its mutex in callbacks, which take the thread's lock: so that
 * lock is never held in a call here, but for mqtt_run_packet_bytes().
 */
#ifndef SINKS_MQTT_MQTT_RUN_H
#define SINKS_MQTT_MQTT_RUN_H

#include "sinks/mqtt/mqtt_thread.h"
#include "sources/mqtt/mqtt_paho.h"

#include <pthread.h>

struct mqtt_run {
    const struct mqtt_thread_spec *spec;
    pthread_mutex_t *lock;   /* the thread's, of all below */
    pthread_cond_t *changed; /* the thread's: look at the state again */
    enum mqtt_run_state { RUN_CONNECTING, RUN_UP, RUN_OVER } state;
    int64_t begun_ms, up_ms;  /* created; connected, 0: never */
    uint32_t packet_max;      /* bytes; the broker's limit */
    unsigned window;          /* parcels in sent at most: ours, and the broker's limit */
    struct mqtt_parcels sent; /* and not answered */
    char why[PAHO_WHY_MAX];   /* it is over */
    bool disconnected;        /* as asked */

    MQTTAsync client;
    struct paho_tls_why tls_why;
};

/* Starts connecting; how it went is told by state. */
void mqtt_run_connect(struct mqtt_run *run);
/* Hands over p, which stands in sent. 0: paho answers it, and it may be gone by now. Else
 * paho's error: it is the caller's to finish. */
int mqtt_run_publish(struct mqtt_run *run, struct mqtt_parcel *p);
/* Disconnects, bounded, and destroys. No callback comes after it returned. */
void mqtt_run_end(struct mqtt_run *run);

/* At most so large is the packet of p. */
uint64_t mqtt_run_packet_bytes(const struct mqtt_run *run, const struct mqtt_parcel *p);

#endif
