/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_queue.h - what may be asked of the bucket of a queue. Ended leases and jobs that
 * have expired are settled by each of these calls.
 *
 * Changes (finish, release) leave in batches and are repeated until Redis has answered;
 * all else is one call each, never repeated: reply NULL, Redis did not answer.
 */
#ifndef BRIDGE_STORE_QUEUE_H
#define BRIDGE_STORE_QUEUE_H

#include "bridge/store/store.h"

/* lease 0: whoever has it. how: the letter of lua/finish.lua, 0: none. deadline_ms: 0 is
 * answered if it has not left by then. */
void store_finish(struct bucket *b, struct slice id, int64_t lease, const char *reason,
                  char how, int64_t deadline_ms, change_cb *cb, void *arg);
/* due_us 0: now. counts: as a delivery. Without a lease it is not sent again when its
 * answer was lost: it could take the job from the next consumer. */
void store_release(struct bucket *b, struct slice id, int64_t lease, int64_t due_us,
                   bool counts, int64_t deadline_ms, change_cb *cb, void *arg);

struct pull_want {
    int64_t lease_ms; /* 0: the job's own, else the rules' */
    unsigned max;
};
struct pulled {
    struct slice id, record, tries; /* record empty: its body is missing in Redis */
    int64_t lease, expires_ms;      /* expires -1: never */
    int64_t due_us;
    unsigned consumer; /* index in wants */
};
struct pull_reply {
    int64_t now_ms, head_ms, lease_ms; /* first due, first end of a lease; -1: none */
    const struct pulled *jobs;         /* in the order of consumers */
    unsigned count;
};
typedef void pull_reply_cb(void *arg, const struct pull_reply *reply);
/* At most QUEUE_PULL_MAX jobs and wants in all; none only settles. */
void store_pull(struct bucket *b, const struct pull_want *wants, unsigned n,
                pull_reply_cb *cb, void *arg);

/* code: a letter of lua/touch.lua; 0: no answer */
typedef void touch_cb(void *arg, char code, int64_t lease);
void store_touch(struct bucket *b, struct slice id, int64_t lease, int64_t lease_ms,
                 touch_cb *cb, void *arg);

struct looked {
    char state; /* n, w, r, f, d, e as in lua/look.lua; 0: no answer */
    struct slice id, record, tries;
    int64_t at_ms, expires_ms, now_ms; /* expires -1: never */
};
typedef void look_cb(void *arg, const struct looked *looked);
/* which: 'i' the job id, 'r' the next ready one, 'd' the oldest dead one. */
void store_look(struct bucket *b, char which, struct slice id, look_cb *cb, void *arg);

typedef void measure_cb(void *arg, const struct queue_counts *counts); /* NULL: none */
void store_measure(struct bucket *b, const int64_t *limits_ms, unsigned limits,
                   measure_cb *cb, void *arg);

/* Takes a name off the list of queues at key, if its score is still used_ms. */
void store_unlist(struct store *st, struct slice key, struct slice name, int64_t used_ms);

typedef void number_cb(void *arg, int64_t n); /* -1: no answer */
enum { STORE_STEP_MAX = 1000 };               /* of the most below */
void store_respawn(struct bucket *b, unsigned most, int64_t ttl_ms, number_cb *cb,
                   void *arg);
/* which: a letter of lua/drop.lua */
/* lived: those of them that were still jobs, and not only noted as ended. */
typedef void drop_cb(void *arg, int64_t n, int64_t lived); /* -1: no answer */
void store_drop(struct bucket *b, char which, unsigned most, drop_cb *cb, void *arg);

#endif
