/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue.h - what tests and the import use of the delay-queue source.
 */
#ifndef SOURCES_DELAYQUEUE_DELAYQUEUE_H
#define SOURCES_DELAYQUEUE_DELAYQUEUE_H

#include "bridge/http/http_api.h"

enum {
    DELAYQUEUE_ID_MAX = 512,     /* bytes, as JOB_ID_MAX */
    DELAYQUEUE_TOPIC_MAX = 1000, /* bytes, below JOB_TOPIC_MAX */
    DELAYQUEUE_TOPICS_MAX = 1000 /* of one /pop */
};
struct delayqueue_ask {
    struct slice id, topic, body; /* trimmed; p is never NULL */
    int64_t delay_s, ttr_s;
    struct http_poll poll; /* of a /pop */
};
extern const struct http_dialect delayqueue_dialect;
/* The arguments of /push, of /pop, and of all other calls. */
extern const struct http_args delayqueue_push_args, delayqueue_pop_args,
    delayqueue_id_args;
/* Splits the topics of a /pop at commas, trims each and drops empty names. Returns their
 * number, at most DELAYQUEUE_TOPICS_MAX. The results point into topic. */
unsigned delayqueue_split(struct slice topic, struct slice *topics);
/* Returns s without Unicode white space at both ends. s must be UTF-8. */
struct slice delayqueue_trim(struct slice s);

/* --- delayqueue_import.c: imports from the Redis layout of ouqiang/delay-queue --- */
struct import;
/* For source_ops.import. */
int delayqueue_import(struct source *src, void *self, struct import *im, struct err *err);
/* Parses the value of a job. The texts point into bytes. -1: invalid. Pure. */
struct delayqueue_value {
    struct slice topic, id, body;
    int64_t due_s, ttr_s;
};
int delayqueue_value_read(struct slice bytes, struct delayqueue_value *out);

#endif
