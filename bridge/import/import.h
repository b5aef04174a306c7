/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import.h - moving over: what a source may use to take the jobs of a stopped original
 * out of that one's own Redis (source_ops.import).
 *
 * An importer runs once, from its start to its end, in a process of its own: its calls
 * return when they are through, and the loop runs meanwhile. The importer knows the
 * layout: a table of the places where the original keeps jobs, and a function that reads
 * one job. The core does the rest: it walks, counts, limits, stores and deletes.
 */
#ifndef BRIDGE_IMPORT_H
#define BRIDGE_IMPORT_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import;
struct job;

/* --- what the operator may set: --with NAME=VALUE --- */

struct import_option {
    const char *name, *value; /* value: the default, replaced by what was given */
};
/* rows ends with a row of zeros. -1: an option was given that is not among them. Must be
 * called first, also without rows. */
int import_options(struct import *im, struct import_option *rows, struct err *err);
/* A value of an option is not possible: -1, to be passed on. */
int import_misused(struct import *im, struct err *err, const char *why);

/* --- the layout: where the original keeps its jobs --- */

enum import_shape {
    IMPORT_SETS,       /* sorted sets, whose members lead to bodies */
    IMPORT_TAIL_LISTS, /* lists with the oldest item at the tail */
    IMPORT_HEAD_LISTS, /* lists with the oldest item at the head */
    IMPORT_BODIES      /* bodies that no part before led to */
};
enum import_state {
    IMPORT_PENDING,
    IMPORT_IN_FLIGHT,
    IMPORT_LOST, /* the original had it, but in none of its queues any more */
    IMPORT_DEAD, /* goes to the dead letters */
    IMPORT_STATES
};
struct import_part {
    const char *keys; /* a glob pattern, or one key */
    enum import_shape shape;
    enum import_state state; /* of its jobs, unless read() sets another */
    bool strangers; /* the keys may be anybody's: what is no job is not counted */
};

enum import_skip {
    IMPORT_NO_BODY, /* an entry whose job is gone: finished, deleted, expired */
    IMPORT_EXPIRED,
    IMPORT_ENDED, /* over, only kept to be looked up */
    IMPORT_UNREADABLE,
    IMPORT_WRONG_TYPE, /* a key in the place of one of the original's */
    IMPORT_NO_ROUTE,   /* this and what follows: the core finds it */
    IMPORT_TOO_LARGE,
    IMPORT_BAD_NAME,
    IMPORT_SKIPS /* also: not counted, since another part leads to the job */
};

struct import_entry {
    const struct import_part *part;
    struct slice key;    /* of the set, list or body */
    struct slice member; /* of a body: its key */
    /* Of a sorted set: its score, rounded down. Of a list: a time in ms that is over by
     * now and rises from entry to entry, so that due times can keep the order. */
    int64_t score;
};
struct import_body {
    struct slice text;
    int64_t expires_ms; /* by the TTL of its key; 0 = none, or not asked for */
    int64_t now_ms;     /* Redis' clock of tarry, ms since 1970 */
    struct buf *room;   /* for decoded texts, reused */
};
struct import_how {
    enum import_state state; /* preset: the part's */
    unsigned attempts;       /* past deliveries, without one under way */
    /* When it is handed out next, its lease ends or it was buried; 0 = at its due_ms.
     * Preset: of a list the entry's score, of a body now. */
    int64_t at_ms;
};

struct import_layout {
    const struct import_part *parts; /* walked in this order; ends with a row of zeros */
    /* Does the part own the key, as far as its name tells? NULL: always. */
    bool (*is_key)(void *arg, const struct import_part *part, struct slice key);
    /* Appends the key of the entry's body; -1: the entry is unreadable. NULL: the member
     * is the key. */
    int (*body_key)(void *arg, const struct import_entry *e, struct buf *out);
    /* Gives the job: id, topic, payload, due_ms, expires_ms, tries_max and the like are
     * set, timed need not be. NULL: why says why; preset: IMPORT_UNREADABLE. */
    struct job *(*read)(void *arg, const struct import_entry *e,
                        const struct import_body *body, struct import_how *how,
                        enum import_skip *why);
    bool with_ttl; /* bodies expire */
    bool shared;   /* an entry may stand in several sets, and leaves all of them */
};
/* Moves every job of the layout. What cannot be moved is skipped and counted; a job that
 * several entries lead to is moved by the first. -1: a Redis is away. */
int import_walk(struct import *im, const struct import_layout *layout, void *arg,
                struct err *err);
/* A time of the original in ms since 1970; below 1 or beyond all dates: the nearest. */
int64_t import_ms(int64_t ms);
int64_t import_s(int64_t seconds); /* likewise, in seconds */

/* --- reading what is no job --- */

enum import_kind { IMPORT_NIL, IMPORT_TEXT, IMPORT_INTEGER, IMPORT_LIST, IMPORT_ERROR };
struct import_value {
    enum import_kind kind;
    struct slice text; /* TEXT, ERROR; ends in an extra NUL */
    int64_t integer;
    struct import_value *item; /* LIST: count of them */
    size_t count;
};
/* Frees what the values hold, not v itself; they are nil then. */
void import_values_free(struct import_value *v, size_t count);

/* Calls back for every key that matches the glob pattern; now and then one comes twice.
 * -1 of the callback ends the walk. */
typedef int import_key_cb(void *arg, struct slice key, struct err *err);
int import_each_key(struct import *im, const char *pattern, import_key_cb *cb, void *arg,
                    struct err *err);
/* A key that the original keeps when it has no jobs, too: where it exists, an import that
 * finds nothing is no error. */
int import_mark(struct import *im, struct slice key, struct err *err);
/* Puts each field of a hash into a kv of the source (bridge/engine/kv.h), with
 * `before` before its name, unless it is there already, and counts it. */
int import_shelve(struct import *im, struct slice hash, const char *kv,
                  struct slice before, struct err *err);
#endif
