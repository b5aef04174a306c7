/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugin.h - the whole interface between the bridge and a source or sink.
 *
 * All functions run on the loop thread and must return at once. Only loop_post() may be
 * called from another thread. The core zeroes a plugin's struct and fills it from the
 * option rows before start(). It frees the struct after source_stopped() or
 * sink_stopped().
 */
#ifndef BRIDGE_PLUGIN_H
#define BRIDGE_PLUGIN_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/fault.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/conf/opt.h"
#include "bridge/job/job.h"
#include "bridge/queue/queue.h"

/* ------------------------------------------------------------------ sources */

struct import;
struct source; /* one running instance, named in the configuration */

/* A partition that the source reads again from an earlier offset. */
struct rewind_row {
    const char *topic;
    int32_t partition;
    int64_t from, end; /* offsets: the first record to read again; the next new record */
};
/* rows are borrowed until the callback returns. why: NULL, or why there are no rows and
 * what to do. */
typedef void rewind_cb(void *arg, const struct rewind_row *rows, size_t n,
                       const char *why);

struct source_ops {
    const char *name;       /* type = "kafka" */
    const char *help;       /* one sentence for `tarry options` */
    size_t size;            /* of the plugin's struct, bytes */
    const struct opt *opts; /* ends with a zeroed row */
    /* The producer waits for the result. tarry rejects an invalid job in the reply and
     * stores no dead letter for it. */
    bool answers;
    /* The producer sends its next message only after the reply to this message. The
     * batcher therefore does not wait for more jobs. */
    bool awaits;
    /* All messages of the source use one route. One of its routes must therefore have no
     * match. */
    bool one_route;
    /* The source's calls of bridge/queue/queue.h consider only routes that end at a
     * queue. A name in these calls is the queue's own name if the route's target does not
     * depend on the topic. */
    bool queues_apart;
    /* Consumers pull from this source's topics. A route must not map several topics to
     * one queue. */
    bool pulls_by_topic;
    /* Checks what the option rows cannot express, without any I/O. `tarry check` calls
     * it. May be NULL. */
    int (*check)(const void *self, struct err *err);
    /* Returns -1 if the source cannot start: it must leave nothing open, and the daemon
     * does not start. An unreachable broker is no failure: log it and keep retrying. */
    int (*start)(struct source *src, void *self, struct err *err);
    /* true: accept no new messages. false: continue. Jobs already submitted are not
     * affected. */
    void (*pause)(struct source *src, void *self, bool paused);
    /* Redis is reachable again and may have lost its latest writes. Jobs that were
     * submitted but not stored have been answered NOT_STORED. Read again from the last
     * safe position. NULL: not supported. */
    void (*reread)(struct source *src, void *self);
    /* Reads again, for this route only, the records written since to_ms (ms since 1970),
     * also in other instances. dry_run: only report the rows. Calls cb once, never before
     * rewind() returns. NULL: not supported. */
    void (*rewind)(struct source *src, void *self, const char *route, int64_t to_ms,
                   bool dry_run, rewind_cb *cb, void *arg);
    /* Called once, after every submitted job has had its done callback. Acknowledge the
     * stored messages, close, and call source_stopped(), at once or later. Calls still
     * open (such as rewind) may be answered after that; self stays valid until then. */
    void (*stop)(struct source *src, void *self);
    /* For `tarry import`: reads the jobs of a stopped original from its own Redis
     * (bridge/import/import.h). The source is not started. NULL: not supported. */
    int (*import)(struct source *src, void *self, struct import *im, struct err *err);
    /* For `tarry check --connect`, where nothing is started: connects once to the remote
     * end and blocks for about PROBE_WAIT_MS at most. Appends the remote end's answer to
     * said. -1: err says what failed and what to do. NULL: there is no remote end. */
    int (*probe)(const void *self, struct buf *said, struct err *err);
    /* Appends a line "OPTION: problem and remedy" for each option value that is allowed
     * but risky. Called after check(); no I/O either. NULL: no warnings. */
    void (*unwise)(const void *self, struct buf *lines);
    /* For `tarry explain`: parses job->topic as the source parses the topic of a message,
     * and writes the result into the job. NULL: the topic contains no controls. */
    void (*read_topic)(struct job *job);
};
enum { PROBE_WAIT_MS = 5000 };

const char *source_name(const struct source *src); /* also `who` in log lines */
/* Returns the estimated clock of the Redis that stores jobs of this topic, in ms since
 * 1970. The estimate is never behind that clock. topic.p NULL: the main Redis. */
int64_t source_now_ms(struct source *src, struct slice topic);

enum stored {
    STORED,         /* stored in Redis */
    STORED_INSTEAD, /* stored; replaced a job with the same id (delay-op: replace) */
    STORED_BEFORE,  /* nothing changed. reason: "exists": a job with this id is stored;
                     * "remembered": a job with this id was delivered within
                     * dedupe_window; "read-again": the record was read before */
    STORED_DEAD,    /* stored in the error bucket with its reason; acknowledge the
                     * message */
    STORED_NONE,    /* there is nothing to store (a cancel was executed) */
    REFUSED,        /* rejected; only if ops->answers. why says what to do */
    NOT_STORED      /* not in Redis; do NOT acknowledge the message */
};
struct stored_reply {
    enum stored outcome;
    struct slice id; /* job id; borrowed until the callback returns */
    int64_t due_ms;  /* ms since 1970; -1 with STORED_BEFORE: the stored job's due time is
                      * unknown */
    const char *reason; /* REFUSED, STORED_DEAD: a name of enum reason; STORED_BEFORE:
                         * see there; else "" */
    const char *why;    /* explanation for people, or "" */
};
typedef void stored_cb(void *arg, const struct stored_reply *reply);

/* Takes ownership of job, also on failure. Calls done exactly once, never before it
 * returns: when Redis has stored the job, or when it is certain that Redis will not. The
 * source must not acknowledge its message earlier. Replies may arrive in another order
 * than the submissions. */
void source_submit(struct source *src, struct job *job, stored_cb *done, void *arg);

/* Counts a persistent session that the broker has lost, together with its undelivered
 * messages. */
void source_session_lost(struct source *src);

/* Counts a return of a source to an earlier position. */
void source_rewound(struct source *src);

/* Returns the rewind number of route in job->rewinds, or 0 if route is not listed. */
int64_t reading_rewind(struct slice rewinds, struct slice route);

/* Must be the last call that ops->stop leads to. */
void source_stopped(struct source *src);

/* For sources that answer queries about jobs. route: the route's name. */
enum found {
    FOUND_NONE,
    FOUND_WAITING,
    FOUND_IN_FLIGHT,
    FOUND_DEAD,
    FOUND_NO_ROUTE,
    FOUND_UNKNOWN
};
struct found_reply {
    enum found state;       /* FOUND_UNKNOWN: Redis did not answer; try again */
    const struct job *job;  /* borrowed; NULL if there is no job, or its record cannot
                             * be read */
    unsigned attempts;      /* finished attempts */
    const char *last_error; /* "" if none */
    int64_t due_ms;
};
typedef void found_cb(void *arg, const struct found_reply *reply);
void source_find(struct source *src, struct slice route, struct slice id, found_cb *cb,
                 void *arg);

enum cancelled {
    CANCELLED,        /* the job will not be delivered */
    CANCEL_TOO_LATE,  /* a delivery is in progress; if it fails, tarry does not retry */
    CANCEL_EMITTED,   /* already delivered (known only within dedupe_window) */
    CANCEL_NOT_FOUND, /* already delivered, or never stored */
    CANCEL_NO_ROUTE,
    CANCEL_UNKNOWN /* Redis did not answer; try again */
};
typedef void cancelled_cb(void *arg, enum cancelled answer);
void source_cancel(struct source *src, struct slice route, struct slice id,
                   cancelled_cb *cb, void *arg);

/* Returns the name of the route for jobs of this topic, or p NULL if no route matches.
 * in_queue: set to whether the route ends at a queue (bridge/queue/queue.h). May be
 * NULL. */
struct slice source_route(struct source *src, struct slice topic, bool *in_queue);

/* The daemon's own HTTP listener, for sources that add rows to it
 * (bridge/http/httpd.h). */
struct httpd;
struct httpd *source_httpd(struct source *src);
/* Requires the daemon's tokens (tokens: { }) on rows of h that have a role. h is the
 * source's own listener. Its other rows stay open to everybody. */
void source_protect(struct source *src, struct httpd *h);

/* -------------------------------------------------------------------- sinks */

struct sink;

/* The outcome that a dead letter records. */
struct dead_letter {
    const char *reason, *error; /* a name of enum reason; the last error or "" */
    int status;                 /* of the last response; 0 = none */
    unsigned attempts, replays;
    int64_t first_ms, last_ms; /* first and last attempt, ms since 1970 */
};

/* One delivery attempt. All of it is borrowed until delivery_done(). */
struct delivery {
    const struct job *job;  /* use its id, key and payload; its headers are the
                             * unprocessed originals */
    struct slice target;    /* topic or URL, rendered by the route; http: may be empty */
    struct header *headers; /* the headers to send, in order: without control headers,
                             * with tarry's own */
    unsigned header_count;
    unsigned attempt;   /* from 1 */
    int64_t timeout_ms; /* report the outcome within this time; after it the lease
                         * expires and another instance may deliver the job */
    int64_t left_ms;    /* until the job expires, at least 1; 0: no expiry, or a dead
                         * letter */
    const struct dead_letter *dead; /* NULL: not a dead letter */
    bool target_asked;      /* the message itself chose the target; do not trust it like
                             * configuration */
    int64_t retry_after_ms; /* set by the sink with TRY_AGAIN: the earliest retry, from
                             * now */
    int status; /* set by the sink: HTTP status or reason code of the response; stored
                 * with a dead letter */
    bool stops_target; /* set by the sink with TRY_AGAIN: the target is gone; it
                        * receives nothing more until an operator restarts it */
    void *sink_arg;    /* for the sink's own use */
};
/* Returns the first header of this name (case-insensitive), or NULL. */
const struct header *delivery_header(const struct delivery *d, const char *name);

enum outcome {
    DELIVERED, /* the remote end confirmed the delivery */
    TRY_AGAIN, /* retry by the route's schedule */
    REJECTED   /* a retry cannot succeed: tarry buries the job */
};

/* The target of a route, as far as the configuration determines it. */
struct probe_target {
    struct slice text; /* a topic or URL, or the prefix common to all jobs */
    bool whole;
};

struct sink_ops {
    const char *name;
    const char *help;
    size_t size;
    const struct opt *opts;
    const char *target;     /* default template of the target; "": no target needed; NULL:
                             * the route must set one */
    unsigned max_in_flight; /* default of the option max_in_flight, which all sinks
                             * have */
    /* Returns whether two instances with the same options would disturb each other. If
     * so, a reload stops the old instance, after its deliveries, before it starts the new
     * one. Otherwise both overlap. NULL: never. */
    bool (*alone)(const void *self);
    /* Returns whether the sink can deliver now. During a reload the old sink of the same
     * name delivers until the new sink is ready, for a few seconds at most. NULL: always
     * ready. */
    bool (*ready)(const void *self);
    /* Not NULL: consumers pull the jobs (bridge/queue/queue.h), and deliver is never
     * called. Returns the rules, which are part of self. */
    const struct queue_rules *(*queue)(const void *self);
    int (*check)(const void *self, struct err *err); /* as in source_ops; may be NULL */
    /* Returns the part of target that rate limits and circuit breakers use: for a URL,
     * its origin. Borrows from target or self. NULL: the whole target. */
    struct slice (*origin)(const void *self, struct slice target);
    int (*start)(struct sink *sink, void *self, struct err *err);
    void (*deliver)(struct sink *sink, void *self, struct delivery *d);
    /* Called once, when no delivery is open. The sink must call sink_stopped(), at once
     * or later. */
    void (*stop)(struct sink *sink, void *self);
    /* As in source_ops, for one target of its routes. */
    int (*probe)(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err);
};

const char *sink_name(const struct sink *sink);
/* Returns the shortest time in ms within which this sink must report a delivery. */
int64_t sink_timeout_ms(const struct sink *sink);
unsigned sink_max_in_flight(const struct sink *sink);

/* Reports the outcome of a delivery. The sink must call it exactly once for each
 * delivery, at once or later. d is invalid afterwards. why is copied; it may be NULL with
 * DELIVERED. */
void delivery_done(struct delivery *d, enum outcome outcome, const char *why);

void sink_stopped(struct sink *sink);

/* --------------------------------------------------------------- external plugins */

/* A shared object that the configuration names (plugins = [ "/path/x.so" ]) can add
 * sources and sinks. One of its files contains, at the top level:
 *
 *   static const struct sink_ops *const sinks[] = {&sink_lines, NULL};
 *   TARRY_PLUGIN(NULL, sinks);
 *
 * The interface is this header with the headers that it includes above; no other symbol
 * of the bridge can be linked. TARRY_PLUGIN_ABI changes with every change of the
 * interface (a field, a value, a function, the meaning of a call). tarry rejects an
 * object with another number. A loaded object is never unloaded. */
#define TARRY_PLUGIN_ABI 1

struct tarry_plugin {
    unsigned abi;                            /* TARRY_PLUGIN_ABI */
    unsigned sizes[5];                       /* of the structs in the interface, bytes */
    const struct source_ops *const *sources; /* ends with NULL; NULL: none */
    const struct sink_ops *const *sinks;
};
#define TARRY_PLUGIN_OF(source_list, sink_list)                                          \
    {                                                                                    \
        TARRY_PLUGIN_ABI,                                                                \
            {sizeof(struct source_ops), sizeof(struct sink_ops), sizeof(struct opt),     \
             sizeof(struct job), sizeof(struct delivery)},                               \
            source_list, sink_list                                                       \
    }
#define TARRY_PLUGIN(source_list, sink_list)                                             \
    const struct tarry_plugin tarry_plugin = TARRY_PLUGIN_OF(source_list, sink_list)
extern const struct tarry_plugin tarry_plugin;

#endif
