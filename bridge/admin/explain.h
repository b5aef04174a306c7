/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h - what tarry would make of a message: it goes the way of a submission and of
 * a delivery, but nothing is stored, counted or sent.
 */
#ifndef BRIDGE_EXPLAIN_H
#define BRIDGE_EXPLAIN_H

#include "bridge/plugin.h"

struct explanation {
    bool accepted;
    const char *reason, *why;     /* why not, a name of enum reason and words; else "" */
    const char *outcome;          /* "stored", "refused", "dead", "cancel" */
    const char *source;           /* by whose rules */
    const char *route;            /* that takes it; NULL: none does */
    bool named;                   /* the id is not one that tarry makes up */
    int64_t due_ms;               /* with its place in the route's spread */
    const struct delivery *first; /* its first hand-over: job, target, headers; NULL where
                                   * it is not accepted, or cancels */
};
typedef void explain_cb(void *arg, const struct explanation *e);

/* Takes the job, as its source would submit it: with its topic, or with the name of the
 * route. source: by whose rules; p NULL: the first that feeds the route. Calls cb once,
 * within. -1: err says that there is no such route, or that the source does not feed it.
 */
int source_explain(struct source *asks, struct slice route, struct slice source,
                   struct job *job, explain_cb *cb, void *arg, struct err *err);

#endif
