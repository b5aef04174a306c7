/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_lines.h - shared by the producers (lab_lines.c) and the consumers
 * (lab_lines_pull.c) of queues whose names the producers invent.
 */
#ifndef TESTS_SIM_LAB_LINES_H
#define TESTS_SIM_LAB_LINES_H

#include "tests/sim/lab.h"

enum { QUEUES = 5, TRIES = 3, TOKENS = 16 };

/* All jobs of one id. */
struct line_id {
    char text[40];
    struct {
        int64_t token, clock_us; /* clock_us: of the server, when it was received */
    } tokens[TOKENS];            /* the last ones */
    unsigned token_count;
    struct line *last; /* the last job that was sent with it */
    unsigned deletes;  /* that have no answer */
    bool vague;        /* one never had */
};

struct line {
    int64_t number;
    struct line_id *id;
    struct line *former; /* of its id */
    int queue;
    struct lab_call *submit;
    char due[24], expires[24];
    int64_t due_ms, expires_ms;                 /* 0: none */
    int64_t accepted_us, answered_us, ended_us; /* ended: acked, deleted or replaced */
    const char *ended_by;
    int64_t granted_ms, lease_ms;      /* the present lease, as far as a consumer knows */
    int64_t not_before_ms, put_off_ms; /* since a release; the lease that it ended */
    unsigned received;
    bool vague;  /* its end is not known: a crash, a call without an answer */
    bool closed; /* it may leave without being seen: refused, replaced, expired */
    bool moved;  /* replaced by a job of another queue: its own queue does not record
                  * that, and answers a repeated outcome as if it were the first one */
};

extern struct lines_queue {
    char name[8];
    unsigned destroys; /* that have no answer */
    int64_t vague_until_us;
} lines_queues[QUEUES];

/* The time of the server then, with its present clock. */
int64_t lines_server_ms(int64_t us);
/* Returns NULL if there is none. */
struct line *lines_find(int64_t number);
/* Adds a job of the id, which is not sent yet. */
struct line *lines_new(struct line_id *id, int64_t number);
/* replaces: the header that replaces an earlier job. */
void lines_submit(struct line *line, bool replaces);
/* It was acknowledged, deleted or replaced (by), at that time. */
void lines_end(struct line *line, int64_t us, const char *by);

void lines_pull_init(void);

#endif
