/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_parts.h - the state of one import, and the original's Redis. For bridge/import/
 * and the command line.
 */
#ifndef BRIDGE_IMPORT_PARTS_H
#define BRIDGE_IMPORT_PARTS_H

#include "bridge/engine/core_tool.h"
#include "bridge/import/import.h"
#include "bridge/redis/redis.h"

struct bridge;
struct source;

enum { IMPORT_WITH_MAX = 16, IMPORT_PAGE = 100 };

struct import_order { /* what the command line asks for */
    const char *type; /* of the source that can read the original */
    const char *url;  /* of the original's Redis */
    const char *conf_file;
    const char *source;                /* NULL: the only one of that type */
    const char *with[IMPORT_WITH_MAX]; /* NAME=VALUE */
    unsigned with_count;
    bool dry_run, delete;
};

struct import_counts {
    uint64_t moved[IMPORT_STATES];
    uint64_t before;  /* were there already */
    uint64_t shelved; /* fields put on shelves */
    uint64_t shelved_before;
    uint64_t skipped[IMPORT_SKIPS];
    struct buf named[IMPORT_SKIPS]; /* the first of their keys, a line each */
};

struct import_seen; /* keys met so far */

struct import {
    const struct import_order *order;
    struct bridge *bridge;
    struct source *src;
    struct ask *ask; /* the original's Redis */
    char *place;     /* its URL, to be shown */
    struct import_seen *seen;
    struct import_counts counts;
    struct slice *sets; /* keys that a job of a shared layout is deleted from; owned */
    unsigned set_count;
    int64_t started_ms; /* tarry's Redis' clock */
    unsigned open;      /* jobs and kv fields without an answer */
    int64_t open_bytes;
    int64_t heard_ms;    /* monotonic: when the last answer came */
    int64_t patience_ms; /* how long tarry's Redis may owe one */
    struct tool tool;
    bool not_stored;
    bool misused; /* the command line asks for what is not possible */
    bool marked;  /* import_mark() found its key */
};

/* Runs the order; gives the exit code (sysexits). */
int import_run(const struct import_order *order);

/* --- import.c: handing over --- */

int64_t import_now_ms(const struct import *im); /* Redis' clock of tarry */
/* Everything is stored, and cleaned up where that was asked for. */
int import_flush(struct import *im, struct err *err);

struct import_source { /* where a job stood */
    const struct import_entry *entry;
    struct slice body_key; /* names the job among all of that original */
    bool shared;           /* see struct import_layout */
};
/* Takes the job. Waits while too many are on their way. A job that cannot be stored is
 * skipped and counted. -1: a Redis is away. */
int import_job(struct import *im, struct job *job, const struct import_how *how,
               const struct import_source *from, struct err *err);
/* key: names the job, as above, or what else was met. */
void import_skip(struct import *im, enum import_skip why, struct slice key);
/* Appends a key as a person can type it: what is not printable as \xNN. */
void import_add_shown(struct buf *out, struct slice key);

struct import_seen *import_seen_new(void);
void import_seen_free(struct import_seen *seen); /* NULL is fine */
/* False: it was there. */
bool import_seen_add(struct import_seen *seen, struct slice key);
/* Nearly always right: for what need not be read again, not for what must not be lost. */
bool import_seen_has(const struct import_seen *seen, struct slice key);

/* --- redis_ask.c: a Redis that is asked and waited for. One server, the master that
 * Sentinel names, or a Cluster. Runs the loop until the answer is there, so not from
 * within a callback of the loop. A connection that is lost is not made again: the import
 * is run again instead. --- */

/* Connects; conf->url is of any kind. user, password: at the sentinels; NULL: none.
 * NULL: it could not, and err says why. */
struct ask *ask_open(const struct redis_conf *conf, const char *sentinel_user,
                     const char *sentinel_password, struct err *err);
void ask_close(struct ask *a); /* NULL is fine */

/* Sends count commands of `each` arguments, all in one go; out gets one value for each,
 * to be freed. An error reply is a value. -1: that Redis went away, and out is all nil.
 * node: the number of the server; -1: the master that has the key args[1] of each. */
int ask_each(struct ask *a, int node, const struct slice *args, unsigned each,
             unsigned count, struct import_value *out, struct err *err);
/* One command. -1: as above, or it answered with an error. */
int ask_one(struct ask *a, int node, const struct slice *args, unsigned n,
            struct import_value *out, struct err *err);
/* Says what the error reply to that command was, and frees it. Gives -1. */
int ask_failed(struct import_value *error, struct slice command, struct err *err);
/* The servers: 1, or the masters of the cluster. */
unsigned ask_node_count(const struct ask *a);
/* Sends a command whose answer matters only when it is an error: ask_complaint(). */
void ask_behind(struct ask *a, const struct slice *args, unsigned n);
/* Commands of ask_behind() without an answer yet. */
unsigned ask_behind_count(const struct ask *a);
/* The first error to those, or why the connection was lost; NULL: none. */
const char *ask_complaint(const struct ask *a);

#endif
