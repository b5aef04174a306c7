/* SPDX-License-Identifier: BSD-2-Clause */
/* world_jobs.h - shared by those files of the world that know jobs. */
#ifndef TESTS_SIM_WORLD_JOBS_H
#define TESTS_SIM_WORLD_JOBS_H

#include "tests/sim/world.h"

/* What the world knows of a job. */
struct job_seen {
    struct record record;
    uint64_t *stream;      /* of its chances */
    bool of_web;           /* its route */
    int key;               /* index of record.key; -1: none */
    struct sim_core *core; /* of a request: where it is; NULL: nowhere */
    unsigned life;
    unsigned topic_life;        /* of a record: of its topic */
    unsigned read_as;           /* of a record: 1 + the incarnation that Redis may have
                                   stored it as; 0: none */
    unsigned asked;             /* of a request: how often it was sent */
    bool accepted, ended;       /* ended: the client asks no more */
    bool cancelled, dead, lost; /* lost: a crash of Redis may have lost it */
    /* Of a record: it was sent before a crash that lost data, and answered after it. */
    bool in_doubt;
    int64_t submitted_us; /* of a record, the last time */
    unsigned copies;      /* how often a record was stored, or a message was sent */
    unsigned rejected;
    bool asked_cancel; /* a cancel was sent; it may be executed without an answer */
    bool may_drop; /* a cancel was too late: if the attempt fails, it is not repeated */
    bool excused;  /* a fault of this very job may cause duplicates: a late answer, a
                      repeated request */
    int64_t first_asked_us, asked_us, accepted_us, cancelled_us;
    int64_t accepted_ms;       /* accepted_us by the latest clock of Redis */
    int64_t handed_us, got_us; /* to a sink or consumer, at the receiver */
    struct sim_core
        *handed_by;   /* a core that delivers it; NULL: it fails, or a consumer */
    int64_t sent_us;  /* when a sink last had it; 0: never */
    unsigned attempt; /* of the last delivery */
    int64_t retry_us; /* when the sink last reported TRY_AGAIN; 0: never */
    unsigned received;
    bool settled; /* delivered and acked, with no fault near: it must never come again */
    int64_t lease_token;  /* of the queue: of its last delivery */
    int64_t lease_end_ms; /* of the queue: of its consumer, by the clock of Redis */
    bool asked_end;       /* a consumer has acknowledged it, perhaps without an answer */
    bool acked;           /* and it was answered */
    int64_t acked_us;
    int64_t cancels; /* number of the job that a cancel is for */
};

struct job_seen *job_at(int64_t number);
/* Whether it has left, as far as the world can know. */
bool job_has_left(const struct job_seen *job);
/* No fault could have affected both that moment and now. */
bool is_calm_since(int64_t us);
/* Whether a crash may have lost what Redis answered, though the answer came after it. */
bool job_spans_loss(const struct job_seen *asked);
int64_t job_due_us(const struct job_seen *job);
void job_accept(struct job_seen *job); /* the core says that it is stored */
/* A request or message leaves before its answer. If a fault of its core, also one that
 * began before, delays the answer, the core repeats the enqueue though the job has left
 * (docs/explanation/duplicates.md). */
void job_excuse_unanswered(struct job_seen *job);

/* --- calm.c --- */

void calm_watch(struct job_seen *job); /* it is produced now */

/* --- world_log.c --- */

void log_init(void);
void log_append(struct job_seen *job);
bool log_is_stored(void); /* to its end */
/* Whether tarry reads it again if Redis has lost everything since then: not if it does
 * not know any more that the topic is a new one (docs/reference/limits.md). */
bool log_regains(const struct job_seen *job, int64_t since_us);
void log_judge(void);

/* --- world_session.c --- */

void session_append(struct job_seen *job);
bool session_is_stored(void);

/* --- world_requests.c --- */

void request_send(void *arg, int64_t number); /* arg: NULL */

/* --- world_order.c --- */

void order_accepted(struct job_seen *job);
void order_check(const struct sim_core *core, const struct job_seen *job);

/* --- world_receiver.c --- */

/* Whether a sink has lately had so many deliveries at once that others may have to wait.
 */
bool receiver_was_busy(void);

#endif
