/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import.h - moving over: what a source may use to take the jobs of a stopped original
 * out of that one's own Redis (source_ops.import).
 *
 * An importer runs once, from its start to its end, in a process of its own: its calls
 * return when they are through, and the loop runs meanwhile. It knows the layout; counts,
 * limits, what runs twice and what --dry-run leaves undone are the core's.
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

/* --- what the person who moves over may set: --with NAME=VALUE --- */

struct import_option {
    const char *name, *value; /* value: the default, replaced by what was given */
};
/* rows ends with a row of zeros. -1: one was given that is not among them. To be called
 * first, also without rows. */
int import_options(struct import *im, struct import_option *rows, struct err *err);
/* A value that can't be: -1, to be passed on. */
int import_misused(struct import *im, struct err *err, const char *why);

/* --- reading the original --- */

enum { IMPORT_PAGE = 100 };

enum import_kind {
    IMPORT_NIL,
    IMPORT_TEXT,
    IMPORT_INTEGER,
    IMPORT_LIST,
    IMPORT_MAP, /* only from import_unpack(): keys and values by turns */
    IMPORT_ERROR
};
struct import_value {
    enum import_kind kind;
    struct slice text; /* TEXT, ERROR; ends in an extra NUL */
    int64_t integer;
    struct import_value *item; /* LIST, MAP: count of them */
    size_t count;
};
/* Frees what the values hold, not v itself; they are nil then. */
void import_values_free(struct import_value *v, size_t count);

/* Sends count commands of `each` arguments, all in one go; out gets one value for each,
 * to be freed. An error reply is a value. -1: that Redis went away, and out is all nil.
 */
int import_ask_each(struct import *im, const struct slice *args, unsigned each,
                    unsigned count, struct import_value *out, struct err *err);
/* One command. -1: as above, or it answered with an error. */
int import_ask(struct import *im, const struct slice *args, unsigned n,
               struct import_value *out, struct err *err);
/* GET of each key; a value that is no string is an error. At most IMPORT_PAGE. */
int import_get_each(struct import *im, const struct slice *keys, unsigned n,
                    struct import_value *out, struct err *err);
/* A key that the original keeps when it has no jobs, too: where it exists, an import that
 * finds nothing is no error. */
int import_mark(struct import *im, struct slice key, struct err *err);
/* MessagePack, nesting bounded; to be freed. -1: it is none, or something follows. */
int import_unpack(struct slice bytes, struct import_value *out);
/* Each member of a JSON object that is a string. -1: it is no object; perhaps too late.
 */
typedef void import_pair_cb(void *arg, struct slice name, struct slice value);
int import_each_pair(struct slice json, import_pair_cb *cb, void *arg);

struct import_entry {
    struct slice member;
    /* Of a sorted set: its score, rounded down. Of a list: a time in ms that is over by
     * now and rises from entry to entry, so that due times can keep the order. */
    int64_t score;
};
/* n entries, at most IMPORT_PAGE, borrowed until it returns. -1 ends the walk. */
typedef int import_page_cb(void *arg, const struct import_entry *entries, size_t n,
                           struct err *err);
/* Every key that matches the glob pattern; now and then one comes twice. score is 0. */
int import_each_key(struct import *im, const char *pattern, import_page_cb *cb, void *arg,
                    struct err *err);
/* Every member of a sorted set, in no order; now and then one comes twice. A key that is
 * not there has none; one of another type is skipped and counted. */
int import_each_member(struct import *im, struct slice key, import_page_cb *cb, void *arg,
                       struct err *err);
/* Every item of a list, from its tail to its head or the other way round. Likewise. */
int import_each_item(struct import *im, struct slice key, bool from_tail,
                     import_page_cb *cb, void *arg, struct err *err);

/* --- handing over --- */

/* Redis' clock of tarry, ms since 1970. */
int64_t import_now_ms(const struct import *im);

enum import_state {
    IMPORT_PENDING,
    IMPORT_IN_FLIGHT,
    IMPORT_LOST, /* the original had it, but in none of its queues any more */
    IMPORT_DEAD, /* goes to the dead letters */
    IMPORT_STATES
};
struct import_command {
    const struct slice *args;
    unsigned n;
};
struct import_how {
    /* The job's name among all of that original: one that comes again is counted once. */
    struct slice key;
    enum import_state state;
    unsigned attempts; /* deliveries it has behind it, without one under way */
    int64_t at_ms; /* when it is handed out next, or its lease ends, where that is not its
                    * due_ms; of a dead one: its burial; else 0 */
    const struct import_command *clean; /* with --delete, once tarry has the job */
    unsigned clean_count;
};
/* Takes the job: id, topic, payload, due_ms, expires_ms, tries_max and the like are set,
 * timed need not be. Waits while too many are on their way. What can't be taken is
 * skipped and counted. -1: a Redis is away. */
int import_job(struct import *im, struct job *job, const struct import_how *how,
               struct err *err);

enum import_skip {
    IMPORT_NO_BODY, /* an entry whose job is gone: finished, deleted, expired */
    IMPORT_EXPIRED,
    IMPORT_ENDED, /* over, only kept to be looked up */
    IMPORT_UNREADABLE,
    IMPORT_WRONG_TYPE, /* a key in the place of one of the original's */
    IMPORT_NO_ROUTE,   /* this and what follows: import_job() finds it */
    IMPORT_TOO_LARGE,
    IMPORT_BAD_NAME,
    IMPORT_SKIPS
};
/* key: as in struct import_how. */
void import_skip(struct import *im, enum import_skip why, struct slice key);
/* Was a job or a skip of that key counted before? Nearly always right: for what need not
 * be read again, not for what must not be lost. */
bool import_seen(const struct import *im, struct slice key);

/* Puts a field on a shelf of the source (bridge/store/shelf.h) unless there is one
 * already, and counts it. */
int import_shelf(struct import *im, const char *shelf, struct slice field,
                 struct slice value, struct err *err);

#endif
