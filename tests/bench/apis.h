/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * apis.h - what a client says to each API, and what it hears.
 */
#ifndef TESTS_BENCH_APIS_H
#define TESTS_BENCH_APIS_H

#include "tests/bench/load.h"

enum { BATCH_MAX = 100, ID_MAX = 64 };

/* Jobs of one answer. */
struct jobs {
    int n, at;
    char id[BATCH_MAX][ID_MAX];
    char token[BATCH_MAX][ID_MAX]; /* where the API has them */
    int64_t number[BATCH_MAX];
};

struct api {
    const char *name;
    bool whole_seconds; /* of a delay */
    int least_ms;       /* the shortest delay */
    int bulk;           /* jobs of one request to publish */
    /* Sends job number n (of a bulk, it and the next ones), due in delay_ms. */
    void (*publish)(struct conn *c, int64_t n, int64_t delay_ms);
    bool (*published)(int status, const char *body);
    /* Asks for jobs; wait_s: for so long until there is one; 0: as short as it can. NULL:
     * it calls back. */
    void (*poll)(struct conn *c, int wait_s);
    /* The jobs of an answer to poll or of a callback. false: an error. */
    bool (*read)(int status, const char *body, struct jobs *jobs);
    void (*finish)(struct conn *c, const char *id);
    bool (*finished)(int status, const char *body);
    /* Acknowledges all jobs of an answer in one request. NULL: one by one. */
    void (*finish_all)(struct conn *c, const struct jobs *jobs);
};

/* The one of a name that begins with its name; NULL: there is none. */
const struct api *api_find(const char *name);

/* What all requests of a run share. */
extern struct setting {
    const char *token;
    int sink_port; /* where Later calls back */
    int run;       /* tells this run's jobs from others */
} setting;

#endif
