/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h - queues that consumers pull from, as a source that serves them sees them.
 *
 * A job whose route ends at a sink of type "queue" waits in the queue that its target
 * names. A queue comes into being with its first job and costs nothing when it is empty.
 * Its jobs are handed out when they are due, first due first, for a lease: then they are
 * finished, released, or come back when the lease ends.
 *
 * Here a queue is always named by a topic of the source, as its jobs are: the route that
 * takes the topic leads to it. Where that route ends at another sink (Kafka, say),
 * nothing is ever there to be pulled, but jobs can still be found and finished by id.
 * Where it is paused (route_state.h) it is the same to those who pull, until it goes on.
 *
 * Every function takes copies, is called on the loop thread, returns at once, and calls
 * its callback exactly once, never before it has returned. What a callback is handed is
 * borrowed until it returns. Redis is asked once per turn for all who ask of one queue.
 */
#ifndef BRIDGE_QUEUE_H
#define BRIDGE_QUEUE_H

#include "bridge/base/buf.h"
#include "bridge/job/job.h"
#include "bridge/store/queue_data.h"

#include <stdbool.h>
#include <stdint.h>

struct source;

enum {
    QUEUE_PULL_MAX = 1000, /* jobs of one pull; more is taken as so many */
    QUEUE_NO_LIMIT = 0x7fffffff
};

enum queue_code {
    QUEUE_OK,
    QUEUE_NONE,     /* no such job, or no job there */
    QUEUE_REFUSED,  /* it is not in flight, or another consumer's by now */
    QUEUE_NO_ROUTE, /* no route of this source takes that topic */
    QUEUE_AWAY      /* Redis did not answer: the outcome is unknown, ask again */
};

enum queue_state {
    QUEUE_WAITING,   /* not due */
    QUEUE_READY,     /* due, nobody has it */
    QUEUE_IN_FLIGHT, /* a consumer has it */
    QUEUE_DEAD,      /* out of tries, kept until someone acts */
    QUEUE_ENDED      /* over, kept for keep_ms: see struct queue_job.end */
};

enum queue_end { /* why a job has ended */
                 QUEUE_END_NOT,
                 QUEUE_END_ACKED,
                 QUEUE_END_DELETED,
                 QUEUE_END_EXPIRED, /* its time to live was over */
                 QUEUE_END_TRIES    /* out of tries, where dead letters are not kept */
};

struct queue_job {
    const struct job *job; /* NULL: its record can't be read */
    struct slice id;
    enum queue_state state;
    enum queue_end end;
    unsigned attempts;   /* deliveries so far, one under way included */
    unsigned tries_left; /* deliveries to come; QUEUE_NO_LIMIT */
    int64_t at_ms;      /* waiting, ready: due; in flight: end of the lease; dead: burial;
                           ended: when it is forgotten */
    int64_t expires_ms; /* 0: never; what counts here is this, not the job's own field */
    int64_t lease;      /* in flight: the token of the delivery; else 0 */
    int64_t ready_ms;   /* of a pull: since when it was ready; else 0 */
    int64_t now_ms;     /* Redis' clock */
    unsigned topic;     /* pulled: index in the ask of the queue that it came from */
    int64_t due_us;     /* pulled: due, by which the queue has its order */
};

/* --- pulling --- */

struct queue_ask {
    const struct slice *topics; /* in the order of preference */
    unsigned topic_count;       /* at least 1 */
    unsigned max;               /* jobs, at least 1 */
    bool gather; /* what is due at once comes of each queue in turn; else all is of one */
    int64_t lease_ms; /* 0: the job's own, else the rules' */
    int64_t wait_ms;  /* for a first job, never answered sooner without one; 0: not */
};
/* QUEUE_OK with n jobs, QUEUE_NONE, QUEUE_AWAY (after wait_ms, too), QUEUE_NO_ROUTE (none
 * of the topics). When the daemon stops, or a reload takes out or changes the route of a
 * topic, whoever waits there is answered QUEUE_NONE at once. */
typedef void queue_pull_cb(void *arg, enum queue_code code, const struct queue_job *jobs,
                           unsigned n);
struct pull;
/* Valid until its callback is called. Those who wait are served first come, first served.
 */
struct pull *queue_pull(struct source *src, const struct queue_ask *ask,
                        queue_pull_cb *cb, void *arg);
/* The consumer went away: no callback any more. What is being claimed for it goes to the
 * next, or back, and does not count as a delivery. */
void queue_pull_end(struct pull *p);
/* --- one job --- */

/* QUEUE_OK: it was in that state. QUEUE_REFUSED: in that state it stays. */
typedef void queue_cb(void *arg, enum queue_code code, enum queue_state was);

struct queue_finish {
    int64_t lease; /* of this delivery, even if it has ended meanwhile: REFUSED only for a
                      new job of the same id; 0: whoever has it, wherever it stands */
    enum queue_end end; /* QUEUE_END_ACKED, QUEUE_END_DELETED */
    bool alive_only;    /* what has ended before is left alone: QUEUE_REFUSED */
    bool pending_only;  /* so are jobs in flight and dead ones */
    bool forget;        /* at once, even where rules keep it */
};
void queue_finish(struct source *src, struct slice topic, struct slice id,
                  const struct queue_finish *how, queue_cb *cb, void *arg);
/* Gives it back, due in delay_ms (0: now, behind those who wait). lease as above, but it
 * must be in flight. Counts as a delivery: out of tries, it is buried or ends. */
void queue_release(struct source *src, struct slice topic, struct slice id, int64_t lease,
                   int64_t delay_ms, queue_cb *cb, void *arg);
/* A new lease of lease_ms from now. lease (in the callback): its token, 0 unless
 * QUEUE_OK. */
typedef void queue_touch_cb(void *arg, enum queue_code code, int64_t lease);
void queue_touch(struct source *src, struct slice topic, struct slice id, int64_t lease,
                 int64_t lease_ms, queue_touch_cb *cb, void *arg);
/* found: NULL unless QUEUE_OK. */
typedef void queue_find_cb(void *arg, enum queue_code code,
                           const struct queue_job *found);
void queue_find(struct source *src, struct slice topic, struct slice id,
                queue_find_cb *cb, void *arg);
/* The next that would be handed out (QUEUE_READY) or the oldest dead one (QUEUE_DEAD). */
void queue_peek(struct source *src, struct slice topic, enum queue_state part,
                queue_find_cb *cb, void *arg);

/* --- a whole queue --- */

typedef void queue_count_cb(void *arg, enum queue_code code,
                            const struct queue_counts *counts); /* NULL unless OK */
/* limits_ms: rising, at most QUEUE_SPANS, or NULL; negative ones divide the ready jobs by
 * the time since they were due. */
void queue_count(struct source *src, struct slice topic, const int64_t *limits_ms,
                 unsigned limits, queue_count_cb *cb, void *arg);

/* Of the Redis of that topic's queues. */
typedef void queue_usage_cb(void *arg, enum queue_code code,
                            const struct queue_usage *usage); /* NULL unless OK */
void queue_usage(struct source *src, struct slice topic, queue_usage_cb *cb, void *arg);

typedef void queue_number_cb(void *arg, enum queue_code code, int64_t n);
/* The oldest dead ones are ready again, with one try each. ttl_ms: from now; 0: for ever.
 */
void queue_respawn(struct source *src, struct slice topic, int64_t limit, int64_t ttl_ms,
                   queue_number_cb *cb, void *arg);
/* Deletes the oldest dead ones. */
void queue_drop_dead(struct source *src, struct slice topic, int64_t limit,
                     queue_number_cb *cb, void *arg);
/* Deletes its ready jobs, or all of it, and takes it off the list. */
void queue_destroy(struct source *src, struct slice topic, bool all, queue_number_cb *cb,
                   void *arg);

/* Every queue of the sink that topic leads to: least recently used for a job first. Names
 * are the targets' (the topic itself where the route does not say otherwise). */
struct queue_name {
    struct slice name;
    int64_t used_ms; /* about when a job last came in */
};
typedef void queue_list_cb(void *arg, enum queue_code code,
                           const struct queue_name *names, unsigned n);
void queue_list(struct source *src, struct slice topic, queue_list_cb *cb, void *arg);

/* Lists the queues of the sink that topic leads to, and counts each, a few at a time. */
struct queue_counted {
    struct slice name;
    bool known; /* counts is what Redis has; else zeroed */
    struct queue_counts counts;
};
/* queues: NULL where Redis did not answer; least recently used first. */
typedef void queue_survey_cb(void *arg, const struct queue_counted *queues, size_t n);
struct queue_survey {
    size_t most; /* queues, those used last */
    /* Sets the limits of queue_count(), just before that queue is counted, and gives
     * their number; -1: the queue is left out. */
    int (*limits)(void *arg, struct slice name, int64_t limits_ms[QUEUE_SPANS]);
    queue_survey_cb *cb; /* called once, never before queue_survey() has returned */
    void *arg;
};
void queue_survey(struct source *src, struct slice topic, const struct queue_survey *how);

/* What happens to jobs of queues in this process while nobody asks: for statistics. NULL
 * ends it. queue: its name. */
enum queue_event { QUEUE_EXPIRED, QUEUE_TIMED_OUT, QUEUE_EXHAUSTED };
typedef void queue_watch_cb(void *arg, struct slice queue, enum queue_event what,
                            unsigned count);
void queue_watch(struct source *src, queue_watch_cb *cb, void *arg);

#endif
