/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tap.h - what happens to the jobs of a route right now, for an operator who looks on.
 *
 * A route has a tap only while somebody asks for it; until then an event costs one look
 * at a pointer. It keeps the last TAP_EVENTS events, of this instance. Payloads are kept
 * only while somebody asks for them. Loop thread.
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
    TAP_PAYLOAD_MAX = 1024, /* bytes shown of one */
    TAP_IDLE_MS = 10000,    /* nobody asked for so long: the tap goes */
    TAP_WAIT_MAX_MS = 30000
};

struct tap_event {
    const char *what; /* one word: "received", "stored", "delivered" ... */
    struct slice id;
    const struct job *job; /* its source, target, key, payload; NULL: as told before */
    const char *reason;    /* a word, or what the other end said; NULL or "": none */
    int64_t due_ms;        /* -1: not known */
    unsigned attempt;      /* from 1; 0: none */
};
/* For whoever has an event: if (route->tap) tap_note(route->tap, &(struct tap_event){}).
 */
void tap_note(struct tap *tap, const struct tap_event *event);

/* What one asks for. */
struct tap_want {
    int64_t cursor;  /* the number of the first event; -1: from now on */
    int64_t wait_ms; /* for the first of them */
    int64_t sample;  /* one of so many jobs, with all their events; at least 1 */
    bool payload;
};
/* json: {"cursor":...,"missed":...,"events":[...]}; borrowed. Called once, never within,
 * at the latest when the route or the daemon goes. */
typedef void tap_cb(void *arg, struct slice json);
struct tap_reader;
struct tap_reader *tap_read(struct route *route, const struct tap_want *want, tap_cb *cb,
                            void *arg);
/* Whoever asked is gone: it is answered at once. */
void tap_give_up(struct tap_reader *reader);

/* Answers all readers. NULL is fine. */
void tap_free(struct tap *tap);
#endif
