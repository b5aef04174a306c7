/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_place.h - consumers that wait at queues, and the mapping from a source's topic to
 * a queue. For the queue_*.c files and the daemon.
 */
#ifndef BRIDGE_QUEUE_PLACE_H
#define BRIDGE_QUEUE_PLACE_H

#include "bridge/engine/queue_object.h"

/* --- for the daemon --- */

/* Send the calls of all queues that need one; call it once per turn. */
void queue_turn(struct bridge *bridge);
/* Call it once a second. */
void queue_tick(struct bridge *bridge);
/* End all waits: the daemon stops, or (src not NULL) that source does. */
void queue_end_waits(struct bridge *bridge, const struct source *src);
/* End all waits at queues of that route: a reload may have changed its topics. */
void queue_end_waits_at(struct route *route);

/* --- from a topic to its queue --- */

/* The destination of a topic (and an id) of a source. */
struct place {
    enum queue_code code; /* QUEUE_OK, QUEUE_NO_ROUTE */
    struct route *route;
    struct queue *queue;   /* NULL: the route does not end at a queue */
    struct bucket *bucket; /* NULL: unknown without an id */
};
/* Find the destination. id: p NULL if only a queue is needed. */
void place_find(struct source *src, struct slice topic, struct slice id,
                struct place *place);
/* The reason in :tries of a job that has ended; index: enum queue_end. */
extern const char *const queue_end_reasons[];
/* Decode a job from Redis into out. The caller sets state, at_ms, expires_ms (-1: never),
 * lease and now_ms before. Returns the job, which the caller must free; NULL: it cannot
 * be read. */
struct job *queue_read(const struct queue_rules *rules, const struct job_names *names,
                       struct slice id, struct slice record, struct slice tries,
                       struct queue_job *out);

/* --- queue_pull.c (waiting consumers), and queue_call.c (calls of lua/pull.lua) --- */

struct pull;

/* A consumer's entry at one queue. */
struct waiter {
    TAILQ_ENTRY(waiter) link;
    struct pull *pull;
    struct queue *queue; /* NULL: that topic leads to no queue */
    struct route *route;
    unsigned topic;
    /* HELD: the route is paused; the waiter waits until it is resumed */
    enum { WAITER_AWAY, WAITER_FRESH, WAITER_PARKED, WAITER_HELD } where;
};

/* A consumer that pulls. */
struct pull {
    TAILQ_ENTRY(pull) link;
    struct source *src;
    queue_pull_cb *cb;
    void *arg;
    struct timer *timer;    /* NULL: it does not wait, or not any more */
    struct queue *asked_at; /* the queue whose call in flight includes it; NULL: none */
    unsigned max;
    int64_t lease_ms;
    bool gone, deferred;
    bool gather;            /* as asked */
    bool queueless;         /* none of its topics leads to a queue: it can never get a
                             * job */
    bool answered;          /* Redis has answered for it, without jobs */
    struct queue_job *jobs; /* claimed for it so far; owned */
    unsigned got;           /* number of jobs */
    unsigned turn;          /* index of the fresh waiter */
    unsigned waiter_count;
    struct waiter waiters[];
};

/* This queue has no further job for the consumer: it becomes a fresh waiter of its next
 * queue. After the last queue, park it at all queues, or call its callback. */
void pull_ask_elsewhere(struct waiter *waiter);
/* Redis is unreachable. Tries the next queue, which may be in another Redis. After the
 * last queue a consumer that does not wait is answered at once; others continue to
 * wait. */
void pull_unanswered(struct waiter *waiter);
/* The waiter's route is paused: take the waiter out of its list. A fresh one tries its
 * next queue later, from the loop. */
void pull_hold(struct waiter *waiter);
/* Answer the consumer with its jobs and free it. */
void pull_answer(struct pull *p);
/* Answer the consumer with what it has: its time is over, or it does not wait. */
void pull_give_up(struct pull *p);
void pull_free(struct pull *p);
/* Park the held waiters whose routes run again. */
void pull_resume_held(struct bridge *bridge);
/* Send the call of this queue if it needs one. */
void queue_pump(struct queue *q);
/* queue_list.c: compute the sums of all queues, of the last sweep. */
void queue_sweep_tick(struct sink *sink);

#endif
