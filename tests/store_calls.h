/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_calls.h - every kind of call of the store, for tests that run the same check on
 * each. The callbacks read all of their arguments.
 */
#ifndef TESTS_STORE_CALLS_H
#define TESTS_STORE_CALLS_H

#include "bridge/store/store.h"

#include <stdbool.h>

/* The parameters of the calls; the test sets them. */
extern struct store_calls {
    struct store *store;
    struct bucket *route, *queue;
    void (*done)(void *arg); /* called when the outcome of a call is known */
} store_calls;

/* Each kind occurs once. */
enum { STORE_CALLS = 26 };
extern const struct store_call {
    void (*call)(void *arg);
    bool of_producers; /* its errors pause the sources */
    bool no_script;
} store_call_rows[STORE_CALLS];
/* Two of these rows, by name. */
void store_call_ack(void *arg);
void store_call_enqueue(void *arg);
void store_call_cancel(void *arg);

/* Create the two buckets of store. Their events are ignored. */
void store_calls_init(struct store *store);
/* An event callback of the store that does nothing. */
void store_calls_on_name(void *arg, struct slice name);

#endif
