/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_calls.h - every kind of call of the store, for tests that need no matter which.
 * The callbacks look at all that they are given.
 */
#ifndef TESTS_STORE_CALLS_H
#define TESTS_STORE_CALLS_H

#include "bridge/store/store.h"

#include <stdbool.h>

/* What the calls are about; the test fills it in. */
extern struct store_calls {
    struct store *store;
    struct bucket *route, *queue;
    void (*told)(void *arg); /* the outcome of a call is known */
} store_calls;

/* Each kind once. */
enum { STORE_CALLS = 26 };
extern const struct store_call {
    void (*ask)(void *arg);
    bool of_producers; /* its errors pause the sources */
    bool no_script;
} store_call_rows[STORE_CALLS];
/* Of these rows. */
void store_call_ack(void *arg);
void store_call_enqueue(void *arg);
void store_call_cancel(void *arg);

/* Makes the two buckets of store, with events that nobody listens to. */
void store_calls_begin(struct store *store);
/* An event of a store that nobody listens to. */
void store_calls_on_name(void *arg, struct slice name);

#endif
