/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job_list.h - for operators: the jobs of a route, a page at a time, and another due time
 * for one of them. Loop thread.
 *
 * A page asks each bucket of the route a few times, for a bounded number of jobs, and
 * merges what they say: so it costs the same with ten jobs as with ten million. What
 * comes, leaves or moves between two pages may be listed twice, or not at all.
 */
#ifndef BRIDGE_JOB_LIST_H
#define BRIDGE_JOB_LIST_H

#include "bridge/job/job.h"
#include "bridge/job/tries.h"

struct bridge;

enum job_list_what {
    JOB_LIST_WAITING,   /* by due time; far ones by slots, of a minute at most */
    JOB_LIST_IN_FLIGHT, /* by the end of the lease */
    JOB_LIST_HELD       /* behind others of their key, key by key */
};
enum job_list_code {
    JOB_LIST_OK,
    JOB_LIST_NO_ROUTE,
    JOB_LIST_IS_QUEUE, /* the route ends at queues, and none is named */
    JOB_LIST_NO_QUEUE, /* one is named, and it can't be */
    JOB_LIST_BAD_CURSOR,
    JOB_LIST_AWAY /* Redis did not answer */
};

struct job_list_query {
    enum job_list_what what;
    struct slice queue;     /* where the route ends at queues: which one; else empty */
    struct slice id_prefix; /* empty: any */
    int64_t from_ms, to_ms; /* due, or end of the lease, both included; to_ms 0: no end */
    unsigned max;           /* at most JOB_LIST_MAX */
    struct slice cursor;    /* where the page before left off; empty: the beginning */
};
enum { JOB_LIST_MAX = 500 };

struct job_listed {
    struct slice id;
    const struct job *job; /* NULL: its record can't be read */
    size_t bytes;          /* of the record */
    struct tries tries;
    int64_t at_ms; /* due, or end of the lease */
    bool far;      /* in the second tier */
    bool named; /* false: a far Kafka record, which nobody can name before it is moved */
};
struct job_list_reply {
    enum job_list_code code;
    const struct job_listed *jobs; /* may be fewer than max with more behind them */
    unsigned count;
    unsigned looked;     /* at so many in all */
    struct slice cursor; /* empty: that was all */
    const char *why;     /* in words, where the code is not JOB_LIST_OK; else "" */
};
/* What it is handed is borrowed until it returns. */
typedef void job_list_cb(void *arg, const struct job_list_reply *reply);
/* q is copied. Calls cb once, never before it has returned. */
void job_list(struct bridge *bridge, struct slice route, const struct job_list_query *q,
              job_list_cb *cb, void *arg);

enum job_move_code {
    JOB_MOVE_OK,
    JOB_MOVE_HELD, /* done, and it waits behind others of its key */
    JOB_MOVE_NO_ROUTE,
    JOB_MOVE_IS_QUEUE,
    JOB_MOVE_NO_QUEUE,
    JOB_MOVE_NONE,
    JOB_MOVE_IN_FLIGHT,
    JOB_MOVE_DEAD,
    JOB_MOVE_EXPIRES, /* its own word ends it before that; nothing was done */
    JOB_MOVE_AWAY     /* Redis did not answer: not known whether it was done */
};
struct job_move {
    struct slice queue, id;
    int64_t at_ms, after_ms; /* at_ms 0: so long from now on */
};
typedef void job_move_cb(void *arg, enum job_move_code code, int64_t due_ms);
/* As job_list(). due_ms of the callback: also where it would expire, when that is. */
void job_move(struct bridge *bridge, struct slice route, const struct job_move *how,
              job_move_cb *cb, void *arg);

#endif
