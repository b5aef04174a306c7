/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_parts.h - the state of one import. For bridge/import*.c alone.
 */
#ifndef BRIDGE_IMPORT_PARTS_H
#define BRIDGE_IMPORT_PARTS_H

#include "bridge/base/buf.h"
#include "bridge/core_tool.h"
#include "bridge/import/import.h"

struct ask;
struct bridge;
struct source;

enum { IMPORT_WITH_MAX = 16 };

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
    int64_t started_ms; /* tarry's Redis' clock */
    unsigned open;      /* jobs and shelf fields without an answer */
    int64_t open_bytes;
    int64_t heard_ms;    /* monotonic: when the last answer came */
    int64_t patience_ms; /* how long tarry's Redis may owe one */
    struct tool tool;
    bool not_stored;
    bool misused; /* the command line asks for what can't be */
    bool marked;  /* import_mark() found its key */
};

/* Waits until at most jobs and bytes are on their way. -1: tarry's Redis answers no more.
 */
int import_wait(struct import *im, unsigned jobs, int64_t bytes, struct err *err);
/* Everything is stored, and cleaned up where that was asked for. */
int import_flush(struct import *im, struct err *err);

/* As import_ask_each() with one command; an error reply is a value. node: see
 * redis_ask.h; -1: the one that has the key. */
int import_ask_node(struct import *im, int node, const struct slice *args, unsigned n,
                    struct import_value *out, struct err *err);
/* Appends a key as a person can type it: what is not printable as \xNN. */
void import_add_shown(struct buf *out, struct slice key);
/* Was nothing of the original there, not even what stays behind? Then err says what is
 * there instead. */
bool import_found_nothing(struct import *im, struct err *err);

struct import_seen *import_seen_new(void);
void import_seen_free(struct import_seen *seen); /* NULL is fine */
/* False: it was there. */
bool import_seen_add(struct import_seen *seen, struct slice key);
bool import_seen_has(const struct import_seen *seen, struct slice key);

/* Runs the order; gives the exit code (sysexits). */
int import_run(const struct import_order *order);

#endif
