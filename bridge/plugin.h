/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugin.h - the interface between the bridge and its sources and sinks.
 *
 * The core calls every function here on the loop thread, and each must return at once.
 * Another thread may call only loop_post(). The core allocates a plugin's struct with
 * zeros, fills it from the option rows before start(), and frees it after the plugin has
 * called source_stopped() or sink_stopped().
 */
#ifndef BRIDGE_PLUGIN_H
#define BRIDGE_PLUGIN_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/fault.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/job/job.h"
#include "bridge/opt.h"
#include "bridge/queue.h"

/* ------------------------------------------------------------------ sources */

struct import;
struct source; /* a running instance of a source that the configuration names */

/* A partition that a rewind reads again. */
struct rewind_row {
    const char *topic;
    int32_t partition;
    int64_t from, end; /* offsets: the first record to read again; the next new record */
};
/* rows: borrowed. why: NULL on success; else why there are no rows, and what to do. */
typedef void rewind_cb(void *arg, const struct rewind_row *rows, size_t n,
                       const char *why);
/* The lag of a partition: records that are not yet stored. topic: borrowed. */
typedef void lag_cb(void *arg, const char *topic, int32_t partition, int64_t records);

struct source_ops {
    const char *name;       /* type = "kafka" */
    const char *help;       /* one sentence for `tarry options` */
    size_t size;            /* of the plugin's struct */
    const struct opt *opts; /* ends with a row of zeros */
    /* The producer waits for an answer: tarry rejects a job that it cannot accept,
     * instead of keeping it as a dead letter. */
    bool answers;
    /* The source sends its next message only after the answer to this one, so the batcher
     * does not wait for more jobs. */
    bool awaits;
    /* All jobs of this source use one route: at least one of its routes must have no
     * match. */
    bool one_route;
    /* Its calls of bridge/queue.h consider only routes that end at a queue. If the
     * target of the route does not depend on the topic, a topic in these calls is the
     * name of the queue itself. */
    bool queues_apart;
    /* Consumers pull from its topics: a route must not map several topics to one
     * queue. */
    bool pulls_by_topic;
    /* For `tarry check`: report errors that the option rows cannot detect. Does no I/O.
     * -1: err says why. NULL: no further checks. */
    int (*check)(const void *self, struct err *err);
    /* -1: start failed, must leave nothing open, and the daemon does not start. An
     * unreachable broker is not a failure: log it and keep trying. */
    int (*start)(struct source *src, void *self, struct err *err);
    /* Stop reading (true) or resume (false). Jobs already submitted are not affected. */
    void (*pause)(struct source *src, void *self, bool paused);
    /* The connection to Redis was lost and restored, and Redis may have lost recent jobs.
     * The core answers submissions that were not stored with NOT_STORED. Read again from
     * the last position that is known to be stored. NULL: not supported. */
    void (*rewind_to_stored)(struct source *src, void *self);
    /* Read again, for this route only, the records written since to_ms (ms since 1970),
     * in all instances. dry_run: only report what it would read. Calls cb once, always
     * after rewind() has returned. NULL: not supported. */
    void (*rewind)(struct source *src, void *self, const char *route, int64_t to_ms,
                   bool dry_run, rewind_cb *cb, void *arg);
    /* Called once, after the done callback of every submitted job. Acknowledge stored
     * messages, close, then call source_stopped(), at once or later. Other calls may
     * still be answered after that; the core keeps self until then. */
    void (*stop)(struct source *src, void *self);
    /* For `tarry import`: read the jobs of a stopped original from its own Redis
     * (bridge/import/import.h). The source is not started. NULL: not supported. */
    int (*import)(struct source *src, void *self, struct import *im, struct err *err);
    /* For `tarry check --connect`, which starts nothing: connect to the other end once.
     * Blocks for about PROBE_WAIT_MS at most. Appends the answer to said; or returns -1,
     * and err says what failed and what to do. NULL: there is nothing to connect to. */
    int (*probe)(const void *self, struct buf *said, struct err *err);
    /* Warn about options that are valid but not recommended: append "OPTION: problem, and
     * what to do", one line each. Called after check; does no I/O. NULL: no warnings. */
    void (*warn)(const void *self, struct buf *lines);
    /* For `tarry explain`: parse job->topic as the source parses the topic of a message,
     * and write the result into the job. NULL: not needed. */
    void (*read_topic)(struct job *job);
    /* For the metrics: return the number of open connections to the other end. NULL: the
     * source opens none. */
    unsigned (*connections)(const void *self);
    /* For the metrics: call cb for each partition that this instance reads and whose end
     * is known. NULL: there are no partitions. */
    void (*lag)(const void *self, lag_cb *cb, void *arg);
};
enum { PROBE_WAIT_MS = 5000 };

const char *source_name(const struct source *src); /* also the name in log lines */
/* Return the time of the Redis that stores the jobs of that topic, in ms since 1970: an
 * estimate that is never behind that clock. topic with p NULL: the main Redis. */
int64_t source_now_ms(struct source *src, struct slice topic);

enum stored {
    STORED,          /* Redis has stored the job */
    STORED_REPLACED, /* the job has replaced a pending job with the same id (delay-op:
                      * replace) */
    STORED_ALREADY, /* nothing changed; reason: "exists": a job has this id; "remembered":
                     * a job with this id was delivered within dedupe_window;
                     * "read-again": the record is already stored */
    STORED_DEAD,    /* stored as a dead letter with its reason; acknowledge the message */
    STORED_NOTHING, /* there is nothing to store (a cancel was executed) */
    REFUSED,        /* only if ops->answers: why says what to do */
    NOT_STORED      /* Redis has not stored the job; do NOT acknowledge. reason "anew": an
                     * older record had its offset; read it again as another
                     * incarnation */
};
#define STORED_REASON_ANEW "anew"
struct stored_reply {
    enum stored outcome;
    struct slice id; /* of the job; borrowed until the callback returns */
    int64_t
        due_ms; /* -1 with STORED_ALREADY: the due time of the stored job is not known */
    const char *reason; /* REFUSED, STORED_DEAD: a name of enum reason; STORED_ALREADY,
                         * NOT_STORED: see above; else "" */
    const char *why;    /* explanation for people, else "" */
};
typedef void stored_cb(void *arg, const struct stored_reply *reply);

/* Submit a job. Takes ownership of the job, also on failure. Calls done exactly once,
 * after source_submit() has returned: when Redis has stored the job, or when tarry knows
 * that it will not. Only then may the source acknowledge the message. Replies may arrive
 * in a different order than the submissions. */
void source_submit(struct source *src, struct job *job, stored_cb *done, void *arg);

/* Count a session that the broker has lost although it had promised to keep it, with the
 * messages queued for it. */
void source_session_lost(struct source *src);

/* Count that the source moved back to read records again. */
void source_rewound(struct source *src);

/* Return the number of the route's rewind in job->rewinds; 0: none. */
int64_t job_rewind_number(struct slice rewinds, struct slice route);

/* Report that the source has stopped; the last step of ops->stop. */
void source_stopped(struct source *src);

/* For sources that answer questions about jobs. route: the route's name. */
enum found {
    FOUND_NONE,
    FOUND_PENDING,
    FOUND_IN_FLIGHT,
    FOUND_DEAD,
    FOUND_NO_ROUTE,
    FOUND_UNKNOWN
};
struct found_reply {
    enum found state;       /* FOUND_UNKNOWN: Redis did not answer; try again */
    const struct job *job;  /* borrowed; NULL: no such job, or its record cannot be
                             * read */
    unsigned attempts;      /* finished attempts */
    const char *last_error; /* "" if there is none */
    int64_t due_ms;
    const char *blocked_by; /* why tarry would not deliver it, even if it were due: a
                             * pause, a stopped target, an open breaker; "": nothing */
};
typedef void found_cb(void *arg, const struct found_reply *reply);
void source_find(struct source *src, struct slice route, struct slice id, found_cb *cb,
                 void *arg);

enum cancelled {
    CANCELLED,        /* the job will not be delivered */
    CANCEL_TOO_LATE,  /* the job is in flight; if this attempt fails, tarry does not retry
                       * it */
    CANCEL_EMITTED,   /* the job was delivered (known only within dedupe_window) */
    CANCEL_NOT_FOUND, /* delivered earlier, or no such job */
    CANCEL_NO_ROUTE,
    CANCEL_UNKNOWN /* Redis did not answer; try again */
};
typedef void cancelled_cb(void *arg, enum cancelled answer);
void source_cancel(struct source *src, struct slice route, struct slice id,
                   cancelled_cb *cb, void *arg);

/* Return the name of the route that accepts that topic; p NULL: no route does. in_queue
 * receives whether the route ends at a queue (bridge/queue.h); may be NULL. */
struct slice source_route(struct source *src, struct slice topic, bool *in_queue);

/* The daemon's own HTTP listener, for sources that use it (bridge/http/httpd.h). */
struct httpd;
struct httpd *source_httpd(struct source *src);
/* Require the daemon's tokens (tokens: { }) for the rows of h that have a role. h: a
 * listener of the source's own. Rows without a role stay open. */
void source_protect(struct source *src, struct httpd *h);

/* -------------------------------------------------------------------- sinks */

struct sink;

/* What a dead letter says about the job's failure. */
struct dead_letter {
    const char *reason, *error; /* a name of enum reason; the last error, or "" */
    int status;                 /* of the last answer; 0: none */
    unsigned attempts, replays;
    int64_t first_ms, last_ms; /* time of the first and the last attempt, ms since 1970 */
};

enum { DELIVERY_ANSWER_MAX = 1024 /* more than a dead letter stores, to find secrets */ };

/* One attempt to deliver a job. All of it is borrowed until delivery_done(). */
struct delivery {
    const struct job *job;  /* id, key, payload; job->headers are the unfiltered ones */
    struct slice target;    /* topic or URL as the route rendered it; empty: none */
    struct header *headers; /* the headers to send, in order: without control headers,
                             * with tarry's own */
    unsigned header_count;
    unsigned attempt;   /* from 1 */
    int64_t timeout_ms; /* the sink must report within this time; later the lease may
                         * expire and another instance may deliver */
    int64_t left_ms; /* until the job expires, at least 1; 0: it does not expire, or is a
                      * dead letter */
    const struct dead_letter *dead; /* NULL: this is not a dead letter */
    bool target_asked; /* the message chose the target itself: do not trust it more than
                        * its producer */
    int64_t retry_after_ms; /* the sink may set it with TRY_AGAIN: no retry before this
                             * many ms from now */
    int status; /* the sink may set the answer of the other end: HTTP status, reason code;
                 * stored with a dead letter */
    /* The sink may set the start of the other end's answer, at most DELIVERY_ANSWER_MAX
     * bytes, and its content type; borrowed until delivery_done() returns. Stored with a
     * dead letter, without secrets. */
    struct slice answer, answer_type;
    bool stops_target; /* the sink may set it with TRY_AGAIN: the target no longer exists;
                        * tarry delivers nothing to it until an operator resumes it */
};
/* Return the first header of that name (case-insensitive); NULL: there is none. */
const struct header *delivery_header(const struct delivery *d, const char *name);

enum outcome {
    DELIVERED, /* the remote end has acknowledged */
    TRY_AGAIN, /* retry by the route's schedule */
    REJECTED   /* a retry cannot succeed: tarry makes the job a dead letter */
};

/* The target of a route, as far as the configuration determines it. */
struct probe_target {
    struct slice text; /* a topic or URL, or its longest prefix that is the same for all
                        * jobs */
    bool whole;
};

struct sink_ops {
    const char *name;
    const char *help;
    size_t size;
    const struct opt *opts;
    /* default template of the target; "": none needed; NULL: the route must set one */
    const char *target;
    /* default of the option max_in_flight, which all sinks have */
    unsigned max_in_flight;
    /* Return whether two sinks of this type with equal options would disturb each other,
     * for example by one client id. A reload then stops the old sink, after its
     * deliveries, before it starts the new one. Otherwise both run side by side. NULL:
     * never. */
    bool (*alone)(const void *self);
    /* Return whether the sink could deliver now. In a reload the old sink of that name
     * delivers until the new one is ready, for a few seconds at most. NULL: always
     * ready. */
    bool (*ready)(const void *self);
    /* Not NULL: consumers pull the jobs (bridge/queue.h), and the core never calls
     * deliver. Returns the rules, which are part of self. */
    const struct queue_rules *(*queue)(const void *self);
    int (*check)(const void *self, struct err *err); /* see source_ops; may be NULL */
    /* Return the part of a target that rate limits and circuit breakers apply to: the
     * origin of a URL. The result is part of target or self. NULL: the whole target. */
    struct slice (*origin)(const void *self, struct slice target);
    int (*start)(struct sink *sink, void *self, struct err *err);
    void (*deliver)(struct sink *sink, void *self, struct delivery *d);
    /* Called once, when no delivery is in flight. Call sink_stopped(), at once or
     * later. */
    void (*stop)(struct sink *sink, void *self);
    /* See source_ops; called for one target of its routes. */
    int (*probe)(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err);
    unsigned (*connections)(const void *self); /* see source_ops */
    /* For `tarry check`: report a target of a route that the other end can never accept.
     * Called after check; does no I/O. target->text is not empty. NULL: any target. */
    int (*check_target)(const void *self, const struct probe_target *target,
                        struct err *err);
};

const char *sink_name(const struct sink *sink);
/* The time within which this sink must report each delivery, in ms: the shortest of its
 * routes. */
int64_t sink_timeout_ms(const struct sink *sink);
unsigned sink_max_in_flight(const struct sink *sink);

/* Report the outcome of a delivery: exactly once for each call of deliver, within that
 * call or later. d is invalid afterwards. why is copied; it may be NULL with
 * DELIVERED. */
void delivery_done(struct delivery *d, enum outcome outcome, const char *why);

void sink_stopped(struct sink *sink);

/* -------------------------------------------------------- plugins of one's own */

/* The configuration can name shared objects (plugins = [ "/path/x.so" ]) that provide
 * further sources and sinks. One of its files contains at the top level:
 *
 *   static const struct sink_ops *const sinks[] = {&sink_lines, NULL};
 *   TARRY_PLUGIN(NULL, sinks);
 *
 * The object may use this header and the headers that it includes above, and no other
 * symbol of the bridge. Increase TARRY_PLUGIN_ABI whenever a field, a value, a function
 * or the meaning of a call changes: tarry rejects an object with a different number. A
 * loaded object stays loaded until the daemon stops. */
#define TARRY_PLUGIN_ABI 1

struct tarry_plugin {
    unsigned abi;                            /* TARRY_PLUGIN_ABI */
    unsigned sizes[5];                       /* of the structs that the core and the
                                              * plugin share */
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
