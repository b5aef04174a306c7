/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_ask.h - what a request of the delay-queue API says, and whether it may.
 * Pure.
 */
#ifndef SOURCES_DELAYQUEUE_DELAYQUEUE_ASK_H
#define SOURCES_DELAYQUEUE_DELAYQUEUE_ASK_H

#include "bridge/base/buf.h"

#include <stdint.h>

enum {
    DELAYQUEUE_ID_MAX = 512,     /* bytes, as JOB_ID_MAX */
    DELAYQUEUE_TOPIC_MAX = 1000, /* bytes, below JOB_TOPIC_MAX */
    DELAYQUEUE_TOPICS_MAX = 1000 /* of one /pop */
};

/* Which members of the body count, and how they are checked. */
enum delayqueue_form { DELAYQUEUE_PUSH, DELAYQUEUE_POP, DELAYQUEUE_ID };

struct delayqueue_ask {
    struct slice id, topic, body; /* trimmed; never none */
    int64_t delay_s, ttr_s;
};

/* Reads the body of a request. NULL, or the message of the error to answer with. What ask
 * holds lives in room. */
const char *delayqueue_read(enum delayqueue_form form, struct slice text,
                            struct delayqueue_ask *ask, struct buf *room);

/* The topics of a /pop, cut at commas, each trimmed; empty ones are left out. Gives their
 * number, at most DELAYQUEUE_TOPICS_MAX. Borrows. */
unsigned delayqueue_split(struct slice topic, struct slice *topics);

/* Without white space as Unicode has it at both ends. s is UTF-8. */
struct slice delayqueue_trim(struct slice s);

#endif
