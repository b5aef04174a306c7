/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import.h - the functions with which a source imports the jobs of a stopped original
 * from that program's own Redis (source_ops.import).
 *
 * An importer runs once, in a process of its own. Its calls block until they are complete
 * and run the loop meanwhile. The importer defines the layout: a table of the keys in
 * which the original stores jobs, and a function that reads one job. The core scans,
 * counts, limits, stores and deletes.
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

/* --- options of the operator: --with NAME=VALUE --- */

struct import_option {
    const char *name, *value; /* value: the default, replaced by the operator's value */
};
/* Reads the options. rows ends with a row of zeros. -1: the operator set an unknown
 * option. Every importer must call it first, also without rows. */
int import_options(struct import *im, struct import_option *rows, struct err *err);
/* Reports an invalid value of an option. Returns -1, which the importer must return. */
int import_usage_error(struct import *im, struct err *err, const char *why);

/* --- the layout: the keys in which the original stores jobs --- */

enum import_shape {
    IMPORT_SETS,       /* sorted sets whose members name bodies */
    IMPORT_TAIL_LISTS, /* lists with the oldest item at the tail */
    IMPORT_HEAD_LISTS, /* lists with the oldest item at the head */
    IMPORT_BODIES      /* bodies that no earlier part referred to */
};
enum import_state {
    IMPORT_PENDING,
    IMPORT_IN_FLIGHT,
    IMPORT_LOST, /* the original has a body, but no queue contains it */
    IMPORT_DEAD, /* becomes a dead letter */
    IMPORT_STATES
};
struct import_part {
    const char *keys; /* a glob pattern, or one key */
    enum import_shape shape;
    enum import_state state; /* default state of its jobs; read() may change it */
    bool foreign;            /* keys may belong to other programs: count only jobs */
};

enum import_skip {
    IMPORT_NO_BODY, /* an entry whose job is gone: finished, deleted, expired */
    IMPORT_EXPIRED,
    IMPORT_ENDED, /* ended; the original kept it only for look-ups */
    IMPORT_UNREADABLE,
    IMPORT_WRONG_TYPE, /* the key has another Redis type than expected */
    IMPORT_NO_ROUTE,   /* this and the following: set by the core */
    IMPORT_TOO_LARGE,
    IMPORT_BAD_NAME,
    IMPORT_SKIPS /* also: do not count, because another part refers to the job */
};

struct import_entry {
    const struct import_part *part;
    struct slice key;    /* of the set, list or body */
    struct slice member; /* for IMPORT_BODIES: the key */
    /* Sorted set: the score, rounded down. List: a past time in ms that rises from entry
     * to entry, so that due times can preserve the order. */
    int64_t score;
};
struct import_body {
    struct slice text;
    int64_t expires_ms; /* from the TTL of its key; 0 = none, or not read */
    int64_t now_ms;     /* time of tarry's Redis, ms since 1970 */
    struct buf *room;   /* memory for decoded texts; reused */
};
struct import_how {
    enum import_state state; /* preset: the state of the part */
    unsigned attempts;       /* finished deliveries, without a current one */
    /* Next delivery, end of the lease, or time of burial, in ms; 0 = at due_ms of the
     * job. Preset: the score for a list entry, now for a body. */
    int64_t at_ms;
};

struct import_layout {
    const struct import_part *parts; /* scanned in this order; ends with a row of zeros */
    /* Whether the key belongs to the part, judged by its name. NULL: always. */
    bool (*is_key)(void *arg, const struct import_part *part, struct slice key);
    /* Appends the key of the body of an entry. -1: the entry is unreadable. NULL: the
     * member is the key. */
    int (*body_key)(void *arg, const struct import_entry *e, struct buf *out);
    /* Returns the job, which the core then owns. Must set id, topic, payload, due_ms,
     * expires_ms, tries_max and similar fields, but not timed. NULL: skip the job; *why
     * is the reason, preset to IMPORT_UNREADABLE. */
    struct job *(*read)(void *arg, const struct import_entry *e,
                        const struct import_body *body, struct import_how *how,
                        enum import_skip *why);
    bool with_ttl; /* bodies have a TTL */
    bool shared;   /* an entry may be in several sets and is deleted from all */
};
/* Imports every job of the layout. Jobs that cannot be imported are skipped and counted.
 * If several entries refer to a job, the first counts. -1: a Redis is not reachable. */
int import_walk(struct import *im, const struct import_layout *layout, void *arg,
                struct err *err);
/* Clamps a time of the original, in ms since 1970, to the valid range. */
int64_t import_ms(int64_t ms);
int64_t import_s(int64_t seconds); /* the same from seconds; returns ms */

/* --- reading keys other than jobs --- */

/* Calls cb for every key that matches the glob pattern, for some keys twice. If cb
 * returns -1, the scan stops. */
typedef int import_key_cb(void *arg, struct slice key, struct err *err);
int import_each_key(struct import *im, const char *pattern, import_key_cb *cb, void *arg,
                    struct err *err);
/* Checks for a key that the original has even without jobs. If it exists, an import
 * without jobs is no error. */
int import_find_key(struct import *im, struct slice key, struct err *err);
/* Copies each field of a hash into a kv of the source (bridge/engine/kv.h) and counts it.
 * `before` is put in front of each name. Existing names are not changed. */
int import_kv(struct import *im, struct slice hash, const char *kv, struct slice before,
              struct err *err);
#endif
