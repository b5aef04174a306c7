/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_list.h - for operators: the jobs of one bucket, a page at a time (lua/list.lua),
 * and another due time for one of them (lua/move_due.lua).
 */
#ifndef BRIDGE_STORE_LIST_H
#define BRIDGE_STORE_LIST_H

#include "bridge/store/store.h"

enum {
    STORE_LIST_LOOK = 500, /* jobs to look at in one call */
    STORE_LIST_MEMBER_MAX =
        JOB_ID_MAX + 64 /* bytes: of :held it holds more than the id */
};

/* Where a job stands among all of a route: by score; far ones before others of it; by
 * bucket; by ordinal, or member. */
struct list_place {
    int64_t score, ordinal; /* ordinal -1: it is not far */
    int64_t bucket;         /* the caller's number for it */
    struct slice member;
};

struct list_ask {
    char what;              /* w waiting, h held, f in flight */
    struct slice id_prefix; /* empty: any */
    int64_t from_ms, to_ms; /* due, or end of the lease, both included; to_ms 0: no end */
    const struct list_place *behind; /* NULL: at the beginning */
    int64_t bucket;                  /* the number of the one that is asked */
    unsigned max;
    int64_t bytes_max; /* of records; one job comes whatever its size */
};
struct list_found {
    int64_t score, ordinal;
    struct slice member, id, record, tries; /* record empty: missing in Redis */
    int64_t at_ms;                          /* due, or end of the lease */
    bool named;                             /* it can be found by its id */
};
struct list_told {
    bool more; /* behind last */
    unsigned looked, count;
    struct list_place last;
    const struct list_found *found;
};
typedef void list_told_cb(void *arg, const struct list_told *told); /* NULL: no answer */
void store_list(struct bucket *b, const struct list_ask *ask, list_told_cb *cb,
                void *arg);

/* at_ms 0: so many ms from now on. code: of lua/move_due.lua; 0: no answer, so that it is
 * not known whether it was done. */
typedef void move_due_cb(void *arg, char code, int64_t due_ms);
void store_move_due(struct bucket *b, struct slice id, int64_t at_ms, int64_t after_ms,
                    move_due_cb *cb, void *arg);

#endif
