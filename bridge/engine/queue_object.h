/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_object.h - the queue objects of this process: bucket, state, and the name in
 * Redis. What consumers do with a queue is in bridge/queue/. Loop thread.
 *
 * The first call that names a queue creates its object. If the queue has no known job,
 * and no call and no consumer uses it, its object is soon freed; about a hundred of them
 * are kept. So queue names from clients cannot exhaust the memory. Other objects are
 * freed when they were unused for a while. Redis contains all lasting data.
 */
#ifndef BRIDGE_ENGINE_QUEUE_OBJECT_H
#define BRIDGE_ENGINE_QUEUE_OBJECT_H

#include "bridge/base/hash.h"
#include "bridge/engine/bridge.h"
#include "bridge/store/store.h"

enum { QUEUE_NAME_MAX = JOB_TARGET_MAX };
#define QUEUE_NOT_LISTED (INT64_MIN / 2) /* of listed_ms: not in Redis */

struct waiter;
TAILQ_HEAD(waiter_list, waiter);

struct queue {
    UT_hash_handle hh;            /* in its sink, by name */
    TAILQ_ENTRY(queue) link;      /* in bridge->queues_due */
    TAILQ_ENTRY(queue) idle_link; /* in bridge->queues_idle */
    struct sink *sink;
    struct bucket *bucket;
    struct timer *timer;
    struct waiter_list fresh;  /* to be asked for once, whatever is known of the queue */
    struct waiter_list parked; /* asked for before: they wait for a job */
    struct waiter **asked;     /* waiters of the call in flight */
    unsigned asked_count, asked_cap;
    unsigned waiters;            /* number of fresh, parked and held waiters */
    unsigned guess;              /* number of parked waiters to ask for at once */
    int64_t head_ms;             /* first due time; -1: unknown or none */
    int64_t lease_ms;            /* expiry of the first known lease; -1: none */
    int64_t looked_us, again_us; /* monotonic: last reply; no call before again_us, after
                                  * an error */
    int64_t used_ms;             /* monotonic: last use */
    int64_t listed_ms;           /* monotonic: when its name was last written to Redis */
    unsigned refs;               /* waiters that point here, in any state */
    bool pulling, stale, due_listed, idle_listed;
    bool known;        /* jobs were stored or seen: do not free the object soon */
    bool note_lost;    /* the ZADD of its name failed and must be repeated */
    bool passed_over;  /* the last call did not include the fresh waiters */
    bool settles_more; /* a call settled as many jobs as one call can */
    size_t name_n;
    char name[];
};

/* Return the queue of that name and mark it as used; creates the object. */
struct queue *queue_of(struct sink *sink, struct slice name);
/* The same without marking it as used. */
struct queue *queue_borrow(struct sink *sink, struct slice name);
/* Handle the queue in queue_turn() at the end of this turn. */
void queue_list_due(struct queue *q);
/* Return whether it has fresh or parked waiters; held ones do not count. */
bool queue_has_waiters(const struct queue *q);
/* Call it when a consumer or a call has finished: if it was the last, and the queue has
 * no known job, the object may be freed at the end of a turn. */
void queue_leave(struct queue *q);

/* --- the bucket of a job --- */

/* Return the bucket of a job; of its queue if the route ends at one. target: rendered.
 * stores: the job creates the queue; false for a cancel. */
struct bucket *route_bucket_of(struct route *route, struct slice id, struct slice target,
                               bool stores);
/* Return the queue that the route's target names for that topic (p NULL: none); NULL: the
 * target cannot be rendered, or is not a valid name. captures: see route_captures(). */
struct queue *route_queue(const struct route *route, struct slice topic,
                          const struct slice *captures, unsigned n);
/* The bucket without a target; NULL: the queue depends on the topic. */
struct bucket *route_bucket_of_id(struct route *route, struct slice id);

/* --- names --- */

/* A name that Redis lists, as far as this instance knows. */
struct queue_listed {
    UT_hash_handle hh; /* in sink->sweep.names, in the order of insertion */
    int64_t used_ms;
    size_t name_n;
    char name[];
};
/* Return whether name is valid for a queue. */
bool queue_name_is_good(struct slice name);
/* Return whether a job may be stored in that queue: it exists, or is within names_max, as
 * far as this instance knows. */
bool queue_has_room(const struct sink *sink, struct slice name);
/* Change what this instance knows of the list; Redis is not called. used_ms: time of the
 * last job, ms since 1970. */
void queue_name_add(struct sink *sink, struct slice name, int64_t used_ms);
void queue_name_drop(struct sink *sink, struct slice name);
void queue_names_forget(struct sink *sink);
/* Append the name of a key of the sink: "PREFIX:{SINK}:what". */
void queue_sink_key(const struct sink *sink, const char *what, struct buf *key);

/* --- all queues --- */

/* Return the number of waiters at the queues of a sink. */
unsigned queue_consumers(const struct sink *sink);
/* Ask for all queues again: Redis is usable again, or wake-ups may have been missed. */
void queue_look_all(struct bridge *bridge);
/* Free unused objects, and repeat writes of names that failed; call it once a second, and
 * for a sink that a reload has taken out until it is idle. */
void queue_objects_tick(struct sink *sink);
/* Free the oldest unused objects above the number that is kept; call it once per turn. */
void queue_free_idle(struct bridge *bridge);
/* Return whether no queue of this sink has an object or a call in flight, so a reload can
 * free it. */
bool queue_sink_is_idle(const struct sink *sink);
/* Call it after the store was freed, which frees the buckets. */
void queue_sink_fini(struct sink *sink);

#endif
