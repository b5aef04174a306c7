/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h - the interface of queues that consumers pull from, for the sources that serve
 * them.
 *
 * A job whose route ends at a sink of type "queue" is stored in the queue that its target
 * names. The first job creates the queue; an empty queue costs nothing. Consumers get due
 * jobs with a lease, in the order of their due times. They finish or release a job; if
 * its lease expires, the job becomes available again.
 *
 * Callers name a queue by a topic of the source: the route that accepts the topic
 * determines the queue. If that route ends at another sink, such as Kafka, a pull never
 * returns a job, but jobs can still be found and finished by id. If the route is paused
 * (route_state.h), a pull returns nothing until it is resumed.
 *
 * Every function copies its arguments, is called on the loop thread, returns at once, and
 * calls its callback exactly once, after it has returned. Arguments of a callback are
 * borrowed. Redis gets one call per queue and turn for all consumers.
 */
#ifndef BRIDGE_QUEUE_H
#define BRIDGE_QUEUE_H

#include "bridge/base/buf.h"
#include "bridge/job/job.h"

#include <stdbool.h>
#include <stdint.h>

struct source;

enum {
    QUEUE_PULL_MAX = 1000, /* jobs of one pull; a higher number counts as this */
    QUEUE_NO_LIMIT = 0x7fffffff
};

enum queue_code {
    QUEUE_OK,
    QUEUE_NONE,     /* no such job, or no due job */
    QUEUE_REFUSED,  /* the job is not in flight, or another consumer has it now */
    QUEUE_NO_ROUTE, /* no route of this source accepts that topic */
    QUEUE_AWAY      /* Redis did not answer: the outcome is unknown, ask again */
};

enum queue_state {
    QUEUE_WAITING,   /* not due */
    QUEUE_READY,     /* due, no consumer has it */
    QUEUE_IN_FLIGHT, /* a consumer has it */
    QUEUE_DEAD,      /* no tries left, stored until an operator or client acts */
    QUEUE_ENDED      /* finished, stored for keep_ms: see queue_job.end */
};

enum queue_end { /* why a job has ended */
                 QUEUE_END_NOT,
                 QUEUE_END_ACKED,
                 QUEUE_END_DELETED,
                 QUEUE_END_EXPIRED, /* its time to live has expired */
                 QUEUE_END_TRIES    /* no tries left, and dead letters are not stored */
};

struct queue_job {
    const struct job *job; /* NULL: its record cannot be read */
    struct slice id;
    enum queue_state state;
    enum queue_end end;
    unsigned attempts;   /* deliveries so far, including the one in flight */
    unsigned tries_left; /* further deliveries; QUEUE_NO_LIMIT: unlimited */
    int64_t at_ms;      /* waiting, ready: due time; in flight: expiry of the lease; dead:
                         * time of burial; ended: when it is deleted */
    int64_t expires_ms; /* 0: never; use this, not the field of job */
    int64_t lease;      /* in flight: the lease token; else 0 */
    int64_t ready_ms;   /* of a pull: when it became ready; else 0 */
    int64_t now_ms;     /* Redis' clock */
    unsigned topic;     /* of a pull: index of its queue's topic in the ask */
    int64_t due_us;     /* of a pull: due time in us, the sort order of the queue */
};

/* --- settings and counts --- */

/* Settings of a queue sink, filled in by its option rows. */
struct queue_rules {
    int64_t lease_ms;  /* default if neither the consumer nor the job sets it */
    int64_t tries;     /* default limit of deliveries; 0: no limit */
    int64_t ttl_ms;    /* default time to live after the due time; 0: no expiry */
    int64_t keep_ms;   /* how long an ended job can be looked up; 0: not at all */
    int64_t forget_ms; /* how long an empty queue is listed; 0: until deleted */
    int64_t names_max; /* limit of queues in the sink; 0: no limit */
    bool bury;         /* a job out of tries becomes a dead letter; else it ends */
    /* An id names one job in all queues of the sink. Calls by id may omit the topic, and
     * a new job of that id replaces the old one in any queue. */
    bool global_ids;
    char *pool; /* the pool (pools: { }) that stores the queue; NULL: redis: { } */
};

enum { QUEUE_SPANS = 10 };
struct queue_counts {
    int64_t ready, waiting, in_flight, dead, ended;
    int64_t far; /* part of waiting: jobs in the second tier */
    /* Waiting and ready jobs by the time until they are due. span[i]: at most limits[i]
     * of queue_count() and more than limits[i - 1]; the last span: above all limits. */
    int64_t span[QUEUE_SPANS + 1];
    int64_t oldest_ready_ms; /* due time of the oldest ready job; 0: none is ready */
    int64_t ready_age_ms;    /* mean time since the ready jobs were due, estimated from a
                                sample if there are many; needs three limits */
    int64_t now_ms;
};

/* Memory and clients of Redis; in a cluster the sum over all masters. */
struct queue_usage {
    int64_t used_bytes, max_bytes; /* max 0: no limit */
    int64_t clients, blocked_clients;
    int64_t keys, expiring_keys; /* in the selected database */
};

/* --- pulling --- */

struct queue_ask {
    const struct slice *topics; /* in the order of preference */
    unsigned topic_count;       /* at least 1 */
    unsigned max;               /* jobs, at least 1 */
    bool gather; /* collect due jobs from all queues in turn; else all jobs are of one
                  * queue */
    int64_t lease_ms; /* 0: the job's own, else that of the rules */
    int64_t wait_ms;  /* how long to wait for a first job; 0: do not wait */
};
/* code: QUEUE_OK with n jobs; QUEUE_NONE; QUEUE_AWAY (also after wait_ms);
 * QUEUE_NO_ROUTE: no route for any of the topics. If the daemon stops, or a reload
 * removes or changes the route of a topic, its waiting consumers get QUEUE_NONE at
 * once. */
typedef void queue_pull_cb(void *arg, enum queue_code code, const struct queue_job *jobs,
                           unsigned n);
struct pull;
/* Pull jobs. The result is valid until its callback is called. Waiting consumers are
 * served in the order of their calls. */
struct pull *queue_pull(struct source *src, const struct queue_ask *ask,
                        queue_pull_cb *cb, void *arg);
/* The consumer has disconnected: do not call the callback. Jobs that are being claimed
 * for it go to the next consumer or back to the queue, without counting as a delivery. */
void queue_pull_end(struct pull *p);
/* --- one job --- */

/* code: QUEUE_OK: the job was in state `was`; QUEUE_REFUSED: it is and stays in that
 * state. */
typedef void queue_cb(void *arg, enum queue_code code, enum queue_state was);

struct queue_finish {
    int64_t lease; /* the token of this delivery, also if it has expired: QUEUE_REFUSED
                    * only for a new job with the same id; 0: finish the job in any
                    * state */
    enum queue_end end; /* QUEUE_END_ACKED, QUEUE_END_DELETED */
    bool alive_only;    /* QUEUE_REFUSED for jobs that have ended */
    bool pending_only;  /* the same for jobs in flight and dead jobs */
    bool forget;        /* delete it at once, even if the rules keep it */
};
void queue_finish(struct source *src, struct slice topic, struct slice id,
                  const struct queue_finish *how, queue_cb *cb, void *arg);
/* Return the job to the queue, due in delay_ms; 0: now, behind the ready jobs. lease: as
 * above, but the job must be in flight. Counts as a delivery: without tries left the job
 * is buried or ends. */
void queue_release(struct source *src, struct slice topic, struct slice id, int64_t lease,
                   int64_t delay_ms, queue_cb *cb, void *arg);
/* Replace the lease by one of lease_ms from now. lease in the callback: its token; 0
 * unless QUEUE_OK. */
typedef void queue_touch_cb(void *arg, enum queue_code code, int64_t lease);
void queue_touch(struct source *src, struct slice topic, struct slice id, int64_t lease,
                 int64_t lease_ms, queue_touch_cb *cb, void *arg);
/* found: NULL unless QUEUE_OK */
typedef void queue_find_cb(void *arg, enum queue_code code,
                           const struct queue_job *found);
void queue_find(struct source *src, struct slice topic, struct slice id,
                queue_find_cb *cb, void *arg);
/* Find the next ready job (QUEUE_READY) or the oldest dead one (QUEUE_DEAD). */
void queue_peek(struct source *src, struct slice topic, enum queue_state part,
                queue_find_cb *cb, void *arg);

/* --- a whole queue --- */

/* counts: NULL unless QUEUE_OK. */
typedef void queue_count_cb(void *arg, enum queue_code code,
                            const struct queue_counts *counts);
/* Count the jobs of a queue. limits_ms: ascending, at most QUEUE_SPANS, or NULL; negative
 * values divide the ready jobs by the time since they were due. */
void queue_count(struct source *src, struct slice topic, const int64_t *limits_ms,
                 unsigned limits, queue_count_cb *cb, void *arg);

/* Read memory, clients and keys of the Redis of that topic's queues, as of the last
 * second. Returns false if they are unknown. */
bool queue_usage(struct source *src, struct slice topic, struct queue_usage *usage);

typedef void queue_number_cb(void *arg, enum queue_code code, int64_t n);
/* Make the oldest dead jobs ready again, with one try each. ttl_ms: time to live from
 * now; 0: unlimited. */
void queue_respawn(struct source *src, struct slice topic, int64_t limit, int64_t ttl_ms,
                   queue_number_cb *cb, void *arg);
/* Delete the oldest dead jobs. */
void queue_drop_dead(struct source *src, struct slice topic, int64_t limit,
                     queue_number_cb *cb, void *arg);
/* Delete the ready jobs, or all jobs, and remove the queue from the list. */
void queue_destroy(struct source *src, struct slice topic, bool all, queue_number_cb *cb,
                   void *arg);

/* List the queues of the sink that topic leads to, least recently used first. A name is
 * the target of the queue's jobs: the topic itself, unless the route has a template. */
struct queue_name {
    struct slice name;
    int64_t used_ms; /* about when a job was last added, ms */
};
typedef void queue_list_cb(void *arg, enum queue_code code,
                           const struct queue_name *names, unsigned n);
void queue_list(struct source *src, struct slice topic, queue_list_cb *cb, void *arg);

/* List the queues of the sink that topic leads to, and count each, a few at a time. */
struct queue_counted {
    struct slice name;
    bool known; /* counts was read from Redis; else zeroed */
    struct queue_counts counts;
};
/* queues: NULL if Redis did not answer; least recently used first */
typedef void queue_survey_cb(void *arg, const struct queue_counted *queues, size_t n);
struct queue_survey {
    size_t most; /* maximum of queues: the most recently used ones */
    /* Fill in the limits of queue_count() just before that queue is counted, and return
     * their number; -1: skip the queue. */
    int (*limits)(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS]);
    queue_survey_cb *cb; /* called once, after queue_survey() has returned */
    void *arg;
};
void queue_survey(struct source *src, struct slice topic, const struct queue_survey *how);

/* Report events of jobs that no client asked about, in this process, for statistics.
 * queue: its name. cb NULL: stop reporting. */
enum queue_event { QUEUE_EXPIRED, QUEUE_TIMED_OUT, QUEUE_EXHAUSTED };
typedef void queue_watch_cb(void *arg, struct slice queue, enum queue_event what,
                            unsigned count);
void queue_watch(struct source *src, queue_watch_cb *cb, void *arg);

#endif
