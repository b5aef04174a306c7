/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tap.h - shows an operator what happens to the jobs of a route right now.
 *
 * A route has a tap only while a client asks for it; else an event costs one pointer
 * comparison. A tap contains the last TAP_EVENTS events of this instance, and payloads
 * only if a client asks for them. Loop thread.
 */
#ifndef BRIDGE_TAP_H
#define BRIDGE_TAP_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct job;
struct route;
struct tap;

enum {
    TAP_EVENTS = 512,
    TAP_PAYLOAD_MAX = 1024, /* bytes of a payload shown */
    TAP_IDLE_MS = 10000,    /* after this time without a request the tap is freed */
    TAP_WAIT_MAX_MS = 30000
};

struct tap_event {
    const char *what; /* a single word: "received", "stored", "delivered" ... */
    struct slice id;
    const struct job *job; /* for source, target, key, payload; NULL: as in an earlier
                            * event */
    const char *reason;    /* a word, or the answer of the other end; NULL or "": none */
    int64_t due_ms;        /* -1: unknown */
    unsigned attempt;      /* from 1; 0: none */
};
/* Record an event. Usage: if (route->tap) tap_note(route->tap, &(struct tap_event){}). */
void tap_note(struct tap *tap, const struct tap_event *event);

/* A client's request. */
struct tap_want {
    int64_t cursor;  /* number of the first event; -1: only new ones */
    int64_t wait_ms; /* how long to wait for the first event */
    int64_t sample;  /* show one of this many jobs, with all its events; at least 1 */
    bool payload;
};
/* json: {"cursor":...,"missed":...,"events":[...]}; borrowed. Called once, after
 * tap_read() has returned, and at the latest when the route is freed or the daemon
 * stops. */
typedef void tap_cb(void *arg, struct slice json);
struct tap_reader;
struct tap_reader *tap_read(struct route *route, const struct tap_want *want, tap_cb *cb,
                            void *arg);
/* The client has disconnected: answer the reader at once. */
void tap_give_up(struct tap_reader *reader);

/* Answer all readers and free the tap. tap may be NULL. */
void tap_free(struct tap *tap);
#endif
