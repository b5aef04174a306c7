/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_server.h - what the files of the delay-queue source share.
 *
 * delayqueue.c starts, stops and serves /push, /delete, /finish and /get;
 * delayqueue_pop.c serves /pop; delayqueue_answer.c writes; delayqueue_ask.c reads.
 */
#ifndef SOURCES_DELAYQUEUE_DELAYQUEUE_SERVER_H
#define SOURCES_DELAYQUEUE_DELAYQUEUE_SERVER_H

#include "bridge/http/httpd.h"
#include "bridge/plugin.h"
#include "sources/delayqueue/delayqueue_ask.h"

#include <sys/queue.h>

struct delayqueue {
    struct source *src;
    /* options */
    struct httpd_opts http;
    int64_t pop_timeout_ms;

    struct httpd *httpd;
    LIST_HEAD(, delayqueue_pop) pops; /* that wait for their answer */
    unsigned calls;                   /* questions to the core without an answer yet */
    bool paused, stopping;
    struct timer *last; /* the last step of a stop */
    struct buf room;    /* of the request being read */
};

/* --- delayqueue_pop.c --- */
/* Answers req, at once or later. ask is borrowed. */
void delayqueue_pop(struct delayqueue *dq, struct httpd_req *req,
                    const struct delayqueue_ask *ask);
/* Whoever waits is answered. */
void delayqueue_pop_stop(struct delayqueue *dq);

/* --- delayqueue_answer.c: each answers req, which is gone then --- */
/* {"code":0,"message":message,"data":data}; data is JSON, p NULL: null. */
void delayqueue_ok(struct httpd_req *req, const char *message, struct slice data);
void delayqueue_error(struct httpd_req *req, const char *message);
/* What the core could not do: AWAY, NO_ROUTE. */
void delayqueue_trouble(struct httpd_req *req, enum queue_code code);
/* 404, as for every path that is none of the API's. */
void delayqueue_not_found(void *arg, struct httpd_req *req);
/* What the server refuses by itself; for httpd_shape(). */
void delayqueue_refuse(void *arg, struct httpd_req *req, unsigned status,
                       const char *word, const char *why);

extern const char delayqueue_done[]; /* the message of all that went well, but a push */

#endif
