/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_pull.h - a consumer that pulls, and where it sits; for queue_pull.c, who waits,
 * and queue_call.c, how Redis is asked for them.
 */
#ifndef BRIDGE_QUEUE_PULL_H
#define BRIDGE_QUEUE_PULL_H

#include "bridge/queue/queue_place.h"

struct pull {
    TAILQ_ENTRY(pull) link;
    struct source *src;
    queue_pull_cb *cb;
    void *arg;
    struct timer *timer;    /* NULL: it does not wait, or no more */
    struct queue *asked_at; /* a call for it is on its way there */
    unsigned max;
    int64_t lease_ms;
    bool gone, deferred;
    bool gather;            /* as asked */
    bool queueless;         /* its topics lead elsewhere: nothing will ever come */
    bool answered;          /* Redis has answered for it, with nothing */
    struct queue_job *jobs; /* claimed for it so far; its own */
    unsigned got;           /* of them */
    unsigned turn;          /* which seat is fresh */
    unsigned seat_count;
    struct seat seats[];
};

void pull_leave_seat(struct seat *seat);
/* It sits at the next queue that it has not asked, or waits at all of them; or its
 * callback is called. */
void pull_ask_next(struct pull *p);
/* Redis is away: another queue may be elsewhere; else, who does not wait hears it at
 * once, and who does sits on. */
void pull_unanswered(struct seat *seat);
/* The route of the seat hands out nothing: this is an answer at once, but not within. */
void pull_hold(struct seat *seat);
/* Answered with the jobs that it has got. */
void pull_answer(struct pull *p);
/* Its time is over, or there is nothing to wait for. */
void pull_give_up(struct pull *p);
void pull_free(struct pull *p);

#endif
