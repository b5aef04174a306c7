/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batcher_rig.h - a store on the fake Redis, whose batchers a test looks at: what was
 * sent, in which order, and what the callers were told, as texts.
 */
#ifndef TESTS_BATCHER_RIG_H
#define TESTS_BATCHER_RIG_H

#include "bridge/base/buf.h"
#include "bridge/store/batcher.h"

struct batcher_rig {
    struct store *store;
    struct bucket *route, *queue;
    struct buf sent;  /* a line for each call of a batcher: "ack a b\n" */
    struct buf marks; /* the letter of each change, "-" for none: "A -\n" */
    struct buf sizes; /* changes, and partitions where there are some: "64/64 1 " */
    struct buf told;  /* id and letter of each answer, '0' for 0: "a=s b=0 " */
    unsigned calls, waits, times; /* calls of batchers, WAIT, TIME seen so far */
    unsigned answers, ups, downs;
    const char *hold_at; /* a command; its answer and all behind it are held */
    struct timer *limit;
    const char *const *plan;
};
extern struct batcher_rig rig;

/* The answers to the next calls of batchers, in their order; ends with NULL:
 *   ""      the letter that a good first run gives, for each change
 *   "=abc"  these letters
 *   "-ERR"  this error
 *   "!"     none: the connection is lost
 * From there on: "". */
#define RIG_PLAN(...)                                                                    \
    do {                                                                                 \
        static const char *const plan[] = {__VA_ARGS__, NULL};                           \
        rig.plan = plan;                                                                 \
    } while (0)

/* For cmocka: of a group, once. */
int rig_setup(void **state);
/* A store that is up, with two buckets. replicas: that WAIT has to tell of; 0: it is not
 * asked. */
void rig_begin(unsigned batch_max, unsigned replicas);
void rig_end(void);
/* Runs until *n >= at_least; false after 10 s. */
bool rig_reaches(const unsigned *n, unsigned at_least);
/* The connections are lost, and none comes up until rig_come_back(). Returns when the
 * store knows. */
void rig_go_away(void);
void rig_come_back(void);

/* One change of that kind in the bucket that is fit for it. id must stay. */
void rig_ask(enum batcher_kind kind, const char *id);
/* Several, one letter each. */
void rig_ask_each(enum batcher_kind kind, const char *ids);
/* As rig_ask(), of an enqueue or a cancel, as how says; body_n: bytes of the body. */
void rig_enqueue(struct bucket *b, const char *id, const struct change *how,
                 size_t body_n);
void rig_cancel(struct bucket *b, const char *id, const struct change *how);
/* For calls of the store: notes id and code in rig.told. */
void rig_told(void *id, char code);

#endif
