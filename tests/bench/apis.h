/* SPDX-License-Identifier: BSD-2-Clause */
/* apis.h - the requests of a client to each API, and how to read the answers. */
#ifndef TESTS_BENCH_APIS_H
#define TESTS_BENCH_APIS_H

#include "tests/bench/load.h"

enum { BATCH_MAX = 100, ID_MAX = 64 };

/* Jobs of one answer. */
struct jobs {
    int n, at;
    char id[BATCH_MAX][ID_MAX];
    char token[BATCH_MAX][ID_MAX]; /* empty if the API has none */
    int64_t number[BATCH_MAX];
};

struct api {
    const char *name;
    bool whole_seconds; /* of a delay */
    int least_ms;       /* the shortest delay */
    int bulk;           /* jobs per publish request */
    /* Sends job number n (in bulk: also the next ones), due in delay_ms. */
    void (*publish)(struct conn *c, int64_t n, int64_t delay_ms);
    bool (*published)(int status, const char *body);
    /* Asks for jobs and waits up to wait_s for the first one; 0: as short as the API
     * allows. NULL: the API calls back. */
    void (*poll)(struct conn *c, int wait_s);
    /* Reads the jobs of an answer to poll, or of a callback. Returns false on an
     * error. */
    bool (*read)(int status, const char *body, struct jobs *jobs);
    void (*finish)(struct conn *c, const char *id);
    bool (*finished)(int status, const char *body);
    /* Acknowledges all jobs of an answer in one request. NULL: the API has no such
     * request. */
    void (*finish_all)(struct conn *c, const struct jobs *jobs);
};

/* Returns the API of the case that begins with its name; NULL: none. */
const struct api *api_find(const char *name);

/* The same for all requests of a run. */
extern struct setting {
    const char *token;
    int sink_port; /* Later sends its callbacks to this port */
    int run;       /* distinguishes the jobs of this run from others */
} setting;

#endif
