/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tries.h - failure reasons, and the value of a job in the :tries hash.
 *
 * Text: ATTEMPTS|STATE|DEAD_TRIES/STATUS/REPLAYS|FIRST_MS|LAST_MS|ERROR. ATTEMPTS is
 * first because lua/reap.lua increments it. STATE is empty, or
 *
 *   cancelled  a job in flight, to be dropped instead of retried (lua/cancel.lua)
 *   paced      a job that waits for its reserved slot at its target's rate
 *
 * or a name of enum reason: the job is a dead letter, on its way to the dead-letter sink
 * or in the error bucket. A dead letter may have two more lines: the content type and the
 * start of the body of the last answer.
 */
#ifndef BRIDGE_TRIES_H
#define BRIDGE_TRIES_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Why a job can fail permanently: the fixed list of names that dead letters, rejections
 * and metrics use. */
enum reason {
    REASON_BAD_DELAY,   /* an invalid time header */
    REASON_TOO_LONG,    /* a delay above the route's max_delay */
    REASON_BAD_ID,      /* a delay-id that is too long or contains control characters */
    REASON_BAD_OP,      /* a delay-op that is unknown, or not possible here */
    REASON_BAD_TARGET,  /* a delay-to that is invalid, or that the route does not allow */
    REASON_BAD_RETRY,   /* a delay-retry that names no allowed schedule */
    REASON_BAD_REPEAT,  /* a delay-repeat that is neither an interval nor a cron line */
    REASON_EXPIRED,     /* deliver-before passed before the delivery */
    REASON_LATE,        /* later than the route's max_lateness */
    REASON_RETRIES,     /* the retry schedule is exhausted */
    REASON_REJECTED,    /* the remote end rejected it permanently */
    REASON_OVERSIZE,    /* larger than daemon.job_max */
    REASON_NO_ROUTE,    /* no route matches, or its target cannot be rendered */
    REASON_TOO_MANY,    /* the job would create more queues than names_max of the sink */
    REASON_LOOP,        /* too many deliveries by tarry: delay-hops */
    REASON_UNDECODABLE, /* an invalid record, from a broker or from Redis */
    REASONS
};

const char *reason_name(enum reason r);
/* Returns REASON_UNDECODABLE for an unknown name. */
enum reason reason_find(const char *name);

enum { TRIES_ANSWER_MAX = 512 /* bytes */ };
struct tries_answer {                /* what the target answered last */
    char type[64];                   /* content type; "": unknown */
    char body[TRIES_ANSWER_MAX + 1]; /* its start: UTF-8 without secrets and NUL */
};

struct tries {
    unsigned attempts;           /* finished attempts */
    char reason[16];             /* a name of enum reason; "": not failed permanently */
    bool cancelled, paced;       /* the other states */
    unsigned dead_tries;         /* failed deliveries to the dead-letter sink */
    int status;                  /* of the last response; 0 = none */
    unsigned replays;            /* replays by operators */
    int64_t first_ms, last_ms;   /* first and last attempt, ms since 1970 */
    char error[200];             /* last error, one line */
    struct tries_answer *answer; /* NULL: none. Only stored with a reason. Owned by
                                  * whoever set it; struct copies share it */
};

/* Parses text, except the answer. An empty text means no attempts, an invalid one too. */
void tries_parse(struct slice text, struct tries *t);
void tries_format(const struct tries *t, struct buf *out); /* replaces the content of
                                                            * out */
/* Returns whether the next attempt is the first of a job that was not replayed. Only such
 * an attempt can be late. */
bool tries_is_first(const struct tries *t);
/* Copies and truncates; control characters become spaces. */
void tries_set_error(struct tries *t, const char *why);
void tries_set_reason(struct tries *t, const char *reason);
/* Returns the answer in text, or NULL. Free it with free(). */
struct tries_answer *tries_parse_answer(struct slice text);
/* Returns the start of an answer: redacts secrets like the log, and replaces what is not
 * a printable character. NULL if the body is empty. Free it with free(). */
struct tries_answer *tries_answer_new(struct slice type, struct slice body);

#endif
