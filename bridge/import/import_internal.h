/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_internal.h - the state of one import, and the connection to the original's
 * Redis. Internal to bridge/import/ and the command line.
 */
#ifndef BRIDGE_IMPORT_INTERNAL_H
#define BRIDGE_IMPORT_INTERNAL_H

#include "bridge/engine/core.h"
#include "bridge/import/import.h"
#include "bridge/redis/redis.h"

#include <glib.h>

struct bridge;
struct source;

enum { IMPORT_PAGE = 100 };

enum import_kind { IMPORT_NIL, IMPORT_TEXT, IMPORT_INTEGER, IMPORT_LIST, IMPORT_ERROR };
struct import_value {
    enum import_kind kind;
    struct slice text; /* for TEXT and ERROR; followed by a NUL */
    int64_t integer;
    struct import_value *item; /* for LIST: count items */
    size_t count;
};
/* Frees the contents of the values, not v itself, and sets them to nil. */
void import_values_free(struct import_value *v, size_t count);

struct import_order { /* options of the command line */
    const char *type; /* type of the source that can read the original */
    const char *url;  /* of the original's Redis */
    const char *conf_file;
    const char *source;          /* NULL: the only one of that type */
    const struct opt_list *with; /* NAME=VALUE */
    bool dry_run, delete;
};

struct import_counts {
    uint64_t moved[IMPORT_STATES];
    uint64_t before;    /* already stored by an earlier import */
    uint64_t kv_stored; /* fields copied into kv stores */
    uint64_t kv_before;
    uint64_t skipped[IMPORT_SKIPS];
    struct buf named[IMPORT_SKIPS]; /* the first skipped keys, one per line */
};

struct import {
    const struct import_order *order;
    struct bridge *bridge;
    struct source *src;
    struct import_redis *original; /* the original's Redis */
    GHashTable *seen;              /* hashes of the keys read so far */
    struct import_counts counts;
    struct slice *sets; /* sets to delete a job of a shared layout from; owned */
    unsigned set_count;
    int64_t started_ms; /* time of tarry's Redis */
    unsigned open;      /* jobs and kv fields without an answer */
    int64_t open_bytes;
    int64_t last_reply_ms; /* monotonic time of the last answer */
    int64_t timeout_ms;    /* timeout for the next answer of tarry's Redis */
    struct tool tool;
    bool not_stored;
    bool usage_error; /* the command line is invalid */
    bool has_key;     /* import_find_key() found its key */
};

/* Runs the import. Returns the exit code (sysexits). */
int import_run(const struct import_order *order);

/* --- import.c: storing jobs --- */

int64_t import_now_ms(const struct import *im); /* time of tarry's Redis, ms */
/* Waits until every job is stored and, with --delete, deleted from the original. */
int import_flush(struct import *im, struct err *err);

struct import_source { /* where a job was found */
    const struct import_entry *entry;
    struct slice body_key; /* identifies the job within the original */
    bool shared;           /* see struct import_layout */
};
/* Stores the job; takes ownership, also on failure. Blocks while too many jobs are open.
 * A job that cannot be stored is skipped and counted. -1: a Redis is not reachable. */
int import_job(struct import *im, struct job *job, const struct import_how *how,
               const struct import_source *from, struct err *err);
/* Counts a skipped entry. key: the body key or another key. */
void import_skip(struct import *im, enum import_skip why, struct slice key);
/* Sends one command to the original's Redis (see import_redis_commands()); the caller
 * frees out. Skips a key args[1] of another type: out is then nil. -1: no answer, or an
 * error reply. */
int import_ask(struct import *im, int node, const struct slice *args, unsigned n,
               struct import_value *out, struct err *err);
/* Appends a key in printable form: other bytes become \xNN. */
void import_add_shown(struct buf *out, struct slice key);

/* Adds a key. False: it was already in the set. */
bool import_seen_add(struct import *im, struct slice key);
/* Whether the key was read before. The answer may be wrong: use it only to avoid reading
 * twice, not to decide whether to drop a job. */
bool import_seen_has(const struct import *im, struct slice key);

/* --- import_redis.c: blocking calls to a Redis: one server, the master that Sentinel
 * names, or a Cluster. The calls run the loop until the reply arrives, so do not call
 * them from a callback of the loop. A lost connection is not reopened: the operator runs
 * the import again. --- */

/* Connects; conf->url may be of any kind. user, password: at the sentinels; NULL: none.
 * Returns NULL on failure; err contains the reason. */
struct import_redis *import_redis_open(const struct redis_conf *conf,
                                       const char *sentinel_user,
                                       const char *sentinel_password, struct err *err);
void import_redis_close(struct import_redis *a); /* NULL is fine */

/* Sends count commands of `each` arguments in one write. Fills out with one value per
 * command; the caller frees them. An error reply is a value. node: index of the server;
 * -1: the master of the key args[1] of each command. Returns -1 if a connection was lost;
 * out is then all nil. */
int import_redis_commands(struct import_redis *a, int node, const struct slice *args,
                          unsigned each, unsigned count, struct import_value *out,
                          struct err *err);
/* Number of servers: 1, or the masters of the cluster. */
unsigned import_redis_node_count(const struct import_redis *a);
/* Sends a command without waiting. import_redis_error() reports its error reply. */
void import_redis_send(struct import_redis *a, const struct slice *args, unsigned n);
/* Number of import_redis_send() commands without a reply. */
unsigned import_redis_unanswered(const struct import_redis *a);
/* The first error reply to them, or why the connection was lost; NULL: none. */
const char *import_redis_error(const struct import_redis *a);

#endif
