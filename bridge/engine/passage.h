/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * passage.h - the way of a change that names an id through the generations of its route's
 * buckets, the oldest first.
 *
 * Only the bucket that knows an id can say whether it exists, was read before, or is to
 * be replaced. What an older generation does not know goes on to the next; what goes on
 * keeps the order in which it came, whatever the buckets asked are: records of one Kafka
 * partition may come from several buckets into one (lua/lib/ingest.lua), and a cancel
 * must not overtake the job it means. With one generation, as always but for the time
 * after buckets = n was changed, it is one question. Loop thread.
 */
#ifndef BRIDGE_PASSAGE_H
#define BRIDGE_PASSAGE_H

#include "bridge/store/store.h"

#include <sys/queue.h>

struct generation;
struct route;
struct source;

/* Stands in whatever waits for the answer; ends with cb, which may free it. */
struct passage {
    /* Set by the caller: */
    struct route *route;
    struct source *src; /* whose Kafka records are carried out once; NULL: none */
    struct enqueue how; /* but for origin and passed; of a cancel only deadline_ms */
    struct slice id;    /* stays until cb */
    change_cb *cb;
    void *arg;
    /* Its own: */
    struct bucket *bucket; /* asked last; of a queue the caller may set it */
    struct generation *at;
    TAILQ_ENTRY(passage) link;
    struct job *held; /* goes on when those before it have */
    char answer;      /* of a cancel: an older generation's; 0: none that counts */
    uint64_t begun;   /* bridge->reread_at then */
    bool cancels, waits;
};

/* The job stays the caller's. named: somebody else may know its id. */
void passage_enqueue(struct passage *p, struct job *job, bool named);
/* job: that of the record, or none's: only its target and where it comes from count. */
void passage_cancel(struct passage *p, const struct job *job);
/* The generation has a next one by now: what waited for it goes on. */
void passage_go_on(struct generation *g);

#endif
