/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_place.h - the queues that are in use by this process, and the way from a source's
 * topic to one of them; for the core's queue_*.c files and submit.c.
 *
 * A queue object is created for the first call that names the queue. Of queues that have
 * no job, as far as is known, and that no call and no consumer uses, some hundred objects
 * are kept at most, so that names from outside cost no memory. Any other is freed when
 * nobody has used it for a while. What lasts is in Redis.
 */
#ifndef BRIDGE_QUEUE_PLACE_H
#define BRIDGE_QUEUE_PLACE_H

#include "bridge/base/hash.h"
#include "bridge/engine/bridge.h"
#include "bridge/store/store.h"

enum { QUEUE_NAME_MAX = JOB_TARGET_MAX };
#define QUEUE_NOT_LISTED (INT64_MIN / 2) /* of listed_ms */

struct pull;

/* A consumer's place at one queue. */
struct waiter {
    TAILQ_ENTRY(waiter) link;
    struct pull *pull;
    struct queue *queue; /* NULL: that topic leads to no queue */
    struct route *route;
    unsigned topic;
    /* held: it waits until its route goes on */
    enum { WAITER_AWAY, WAITER_FRESH, WAITER_PARKED, WAITER_HELD } where;
};
TAILQ_HEAD(waiter_list, waiter);

struct queue {
    UT_hash_handle hh;            /* in its sink, by name */
    TAILQ_ENTRY(queue) link;      /* of those with something to do */
    TAILQ_ENTRY(queue) idle_link; /* of those that may be unused */
    struct sink *sink;
    struct bucket *bucket;
    struct timer *timer;
    struct waiter_list fresh;  /* to be asked for once, whatever is known */
    struct waiter_list parked; /* asked for before: they wait for a job */
    struct waiter **asked;     /* in the call that is on its way */
    unsigned asked_count, asked_cap;
    unsigned waiters;            /* fresh, parked and held */
    unsigned guess;              /* of the parked, how many to ask for at once */
    int64_t head_ms;             /* first due time; -1: none known */
    int64_t lease_ms;            /* first end of a lease that is known; -1: none */
    int64_t looked_us, again_us; /* monotonic: last reply; not before, after an error */
    int64_t used_ms;             /* monotonic: by anybody */
    int64_t listed_ms;           /* monotonic: when its name was last noted in Redis */
    unsigned refs;               /* waiters, taken or not */
    bool pulling, stale, due_listed, idle_listed;
    bool known;       /* jobs were stored or seen there: the object is kept for a while */
    bool note_lost;   /* the ZADD of its name failed, and is to be repeated */
    bool passed_over; /* the fresh ones, by the last call */
    bool settles_more; /* a call settled as much as one may */
    size_t name_n;
    char name[];
};

/* What a topic (and an id) of a source leads to. */
struct place {
    enum queue_code code; /* QUEUE_OK, QUEUE_NO_ROUTE */
    struct route *route;
    struct queue *queue;   /* NULL: the route ends elsewhere */
    struct bucket *bucket; /* NULL: not without an id */
};
/* id may be none where only a queue is wanted. */
void place_find(struct source *src, struct slice topic, struct slice id,
                struct place *place);
/* Which Redis keeps the route's jobs. */
struct store *route_store(const struct route *route);
/* Where a job of this route with that target goes. */
struct queue *queue_of(struct sink *sink, struct slice name);
/* The same for a moment: it does not count as being used. */
struct queue *queue_borrow(struct sink *sink, struct slice name);
/* May a queue be called so? */
bool queue_name_is_good(struct slice name);
/* The bucket of a job: of its queue, where the route ends at one. target: rendered.
 * stores: the job creates the queue; a cancel does not. */
struct bucket *route_bucket_of(struct route *route, struct slice id, struct slice target,
                               bool stores);
/* The same for one who knows the route and the id only: NULL where the queue depends on
 * the topic. */
struct bucket *route_bucket_of_id(struct route *route, struct slice id);
/* Appends the name of a key that is the sink's, not a queue's: "PREFIX:{SINK}:what". */
void queue_sink_key(const struct sink *sink, const char *what, struct buf *key);

/* It has something to do at the end of this turn. */
void queue_list_due(struct queue *q);
/* A consumer or a call has left it: if it was the last, and the queue is not known to
 * have jobs, the object may be freed at the end of a turn. */
void queue_leave(struct queue *q);
/* Reads a job as Redis keeps it. state, at_ms, expires (-1: never), lease and now as
 * given; the job is the caller's to free. */
struct job *queue_read(const struct queue_rules *rules, const struct job_names *names,
                       struct slice id, struct slice record, struct slice tries,
                       struct queue_job *out);

/* --- for daemon.c and drain.c --- */
void queue_sink_init(struct sink *sink);
/* After the store, which frees the buckets. */
void queue_sink_fini(struct sink *sink);
/* Asks Redis for all who wait. Once per turn. */
void queue_turn(struct bridge *bridge);
/* Once a second. */
void queue_tick(struct bridge *bridge);
/* Those who wait at the queues of a sink. */
unsigned queue_consumers(const struct sink *sink);
/* Redis is back, or wakes may have been missed. */
void queue_look_all(struct bridge *bridge);
/* Everyone who waits is answered: the daemon stops, or (src not NULL) that source does.
 */
void queue_end_waits(struct bridge *bridge, const struct source *src);
/* So is everyone who waits at a queue of that route: its topics may lead elsewhere now.
 */
void queue_end_waits_at(struct route *route);
/* Nothing of the queues of this sink is under way, or could be (a reload takes it out).
 */
bool queue_sink_is_idle(const struct sink *sink);
/* Of such a sink: lets go of what is idle. */
void queue_old_tick(struct sink *sink);
/* queue_call.c */
void queue_pump(struct queue *q);
/* queue_pull.c: those who could be asked for, so not the held ones */
bool queue_has_waiters(const struct queue *q);
/* The route hands out again: so do its queues to those who have waited. */
void queue_release_held(struct route *route);
/* queue_list.c: may a job go to a queue of that name? Not if it would be one queue more
 * than names_max allows, as far as this instance knows. */
bool queue_has_room(struct sink *sink, struct slice name);
/* A job is about to create it, or has lately. */
void queue_name_noted(struct sink *sink, struct slice name);
/* queue_list.c: what its queues hold together, as of the last look at each. */
void queue_sweep_tick(struct sink *sink);
void queue_sweep_fini(struct sink *sink);
bool queue_sweep_is_open(const struct sink *sink); /* an answer is awaited */

/* --- queue_pull.c, who waits, and queue_call.c, how Redis is asked for them --- */

/* A consumer that pulls. */
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
    unsigned turn;          /* which waiter is fresh */
    unsigned waiter_count;
    struct waiter waiters[];
};

void pull_leave_waiter(struct waiter *waiter);
/* It sits at the next queue that it has not asked, or waits at all of them; or its
 * callback is called. */
void pull_ask_next(struct pull *p);
/* Redis is away: another queue may be elsewhere; else, who does not wait hears it at
 * once, and who does sits on. */
void pull_unanswered(struct waiter *waiter);
/* The route of the waiter hands out nothing: this is an answer at once, but not within.
 */
void pull_hold(struct waiter *waiter);
/* Answered with the jobs that it has got. */
void pull_answer(struct pull *p);
/* Its time is over, or there is nothing to wait for. */
void pull_give_up(struct pull *p);
void pull_free(struct pull *p);

#endif
