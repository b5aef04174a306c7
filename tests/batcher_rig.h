/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batcher_rig.h - a store on the fake Redis for tests of its batchers. Records as texts
 * what the batchers sent, in which order, and which results the callers received.
 */
#ifndef TESTS_BATCHER_RIG_H
#define TESTS_BATCHER_RIG_H

#include "bridge/base/buf.h"
#include "bridge/store/batcher.h"

struct batcher_rig {
    struct store *store;
    struct bucket *route, *queue;
    struct buf sent;    /* one line for each call of a batcher: "ack a b\n" */
    struct buf marks;   /* the letter of each change, "-" for none: "A -\n" */
    struct buf sizes;   /* changes, and partitions if there are any: "64/64 1 " */
    struct buf results; /* id and letter of each result, '0' for 0: "a=s b=0 " */
    unsigned calls, waits, times; /* number of batcher calls, WAIT and TIME so far */
    unsigned answers, ups, downs;
    const char *pause_at; /* a command; its reply and all later replies are paused */
    struct timer *limit;
    const char *const *plan;
};
extern struct batcher_rig rig;

/* The replies to the next batcher calls, in order. The list ends with NULL:
 *   ""      for each change the letter of a successful first run
 *   "=abc"  these letters
 *   "-ERR"  this error
 *   "!"     no reply: the connection is lost
 * After the end of the list: "". */
#define RIG_PLAN(...)                                                                    \
    do {                                                                                 \
        static const char *const plan[] = {__VA_ARGS__, NULL};                           \
        rig.plan = plan;                                                                 \
    } while (0)

/* Group setup for cmocka: call once. */
int rig_setup(void **state);
/* Start a store that is up, with two buckets. replicas: the number of replicas that WAIT
 * must confirm; 0: WAIT is not sent. */
void rig_start(unsigned batch_max, unsigned replicas);
void rig_stop(void);
/* Run the loop until *n >= at_least. Returns false after 10 s. */
bool rig_wait_for(const unsigned *n, unsigned at_least);
/* Close all connections, and reject new ones until rig_reconnect(). Returns when the
 * store has noticed. */
void rig_disconnect(void);
void rig_reconnect(void);

/* Send one change of this kind, in the bucket that fits it. id must stay valid. */
void rig_send(enum batcher_kind kind, const char *id);
/* Send several changes; each letter of ids is the id of one. */
void rig_send_each(enum batcher_kind kind, const char *ids);
/* Like rig_send(), for an enqueue or a cancel with the parameters of how. body_n: bytes
 * of the body. */
void rig_enqueue(struct bucket *b, const char *id, const struct change *how,
                 size_t body_n);
void rig_cancel(struct bucket *b, const char *id, const struct change *how);
/* Callback for calls of the store: adds id and code to rig.results. */
void rig_on_result(void *id, char code);

#endif
