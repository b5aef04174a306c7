/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue.h - what the files of the delay-queue source share.
 *
 * delayqueue.c serves the calls, delayqueue_args.c has the parameters of each,
 * delayqueue_import.c moves over from the original.
 */
#ifndef SOURCES_DELAYQUEUE_DELAYQUEUE_H
#define SOURCES_DELAYQUEUE_DELAYQUEUE_H

#include "bridge/http/http_api.h"

#include <sys/queue.h>

struct delayqueue {
    struct http_api api;
    int64_t pop_timeout_ms; /* an option */
    LIST_HEAD(, pop) pops;  /* that wait for their answer */
};

extern const struct http_dialect delayqueue_dialect;

/* --- delayqueue_args.c --- */
enum {
    DELAYQUEUE_ID_MAX = 512,     /* bytes, as JOB_ID_MAX */
    DELAYQUEUE_TOPIC_MAX = 1000, /* bytes, below JOB_TOPIC_MAX */
    DELAYQUEUE_TOPICS_MAX = 1000 /* of one /pop */
};
struct delayqueue_ask {
    struct slice id, topic, body; /* trimmed; never none */
    int64_t delay_s, ttr_s;
};
/* The arguments of /push, of /pop, and of all others. */
extern const struct http_args delayqueue_push_args, delayqueue_pop_args,
    delayqueue_id_args;
/* Keeps a text trimmed. */
http_set delayqueue_set_text;
/* The topics of a /pop, cut at commas, each trimmed; empty ones are left out. Gives their
 * number, at most DELAYQUEUE_TOPICS_MAX. Borrows. */
unsigned delayqueue_split(struct slice topic, struct slice *topics);
/* Without white space as Unicode has it at both ends. s is UTF-8. */
struct slice delayqueue_trim(struct slice s);

/* --- delayqueue_import.c: delay-queue (ouqiang/delay-queue), its Redis layout --- */
struct import;
/* For source_ops.import. */
int delayqueue_import(struct source *src, void *self, struct import *im, struct err *err);
/* A job's value. Texts are borrowed from bytes. -1: it is none. Pure. */
struct delayqueue_value {
    struct slice topic, id, body;
    int64_t due_s, ttr_s;
};
int delayqueue_value_read(struct slice bytes, struct delayqueue_value *out);

#endif
