/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab.h - the laboratory: jobs of features that the other producers do not use. Each
 * feature is a file lab_*.c with its own route, producers and rules.
 */
#ifndef TESTS_SIM_LAB_H
#define TESTS_SIM_LAB_H

#include "tests/sim/world.h"

/* A call of a client. It asks any core, and waits 30 s for the answer. */
struct lab_call {
    struct lab_ask ask;
    /* answer: NULL: none came, so the outcome is unknown. The call may be sent again. */
    void (*done)(struct lab_call *call, const struct lab_answer *answer);
    void *of;         /* of the caller */
    uint64_t *stream; /* of its chances */
    unsigned sent;    /* how often; also the number of the present one */
    int64_t first_us, sent_us;
    struct sim_core *core;        /* that it waits for; NULL: none */
    const struct sim_core *asked; /* the last one */
    unsigned life;
};
/* The call lives until the end of the seed. */
struct lab_call *lab_call_new(enum lab_op op, const char *topic, const char *id,
                              void (*done)(struct lab_call *call,
                                           const struct lab_answer *answer),
                              void *of, uint64_t *stream);
void lab_send(struct lab_call *call);
void lab_send_later(struct lab_call *call, int64_t us);

/* The outcome of a delivery, later. */
void lab_outcome(struct sim_core *core, void *delivery, int64_t after_us, int outcome);

/* Whether nothing happened to the world since then, and some time before. */
bool lab_is_calm_since(int64_t us);
/* Whether calls take so long that jobs may have to wait for them. */
bool lab_is_slow(void);
/* Returns the number of the i-th further job of a step. */
int64_t lab_number(int64_t number, int64_t i);

/* Runs a command of Redis and returns the number of its reply, or -1. */
long long lab_redis(const char *command, const char *key, const char *member);

/* A feature. lost and judge may be NULL. */
struct lab_feature {
    void (*write_conf)(FILE *out, bool routes);
    void (*init)(void);
    void (*produce)(struct step *step, int64_t number); /* number: of the job */
    void (*deliver)(struct sim_core *core, void *delivery, const struct lab_delivery *d);
    void (*lost)(int64_t since_us); /* a crash of Redis has lost commands since then */
    int64_t (*latest_us)(void);     /* when its last job is due */
    bool (*is_done)(void);          /* nothing more is to be expected */
    void (*judge)(void);            /* at the end */
};

#endif
