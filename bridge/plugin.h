/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugin.h - all that a source or a sink may know of the bridge.
 *
 * Every function here is called on the loop thread and returns at once; loop_post() alone
 * may be called from another thread. The core zeroes a plugin's struct, fills it from the
 * option rows before start(), and frees it after the plugin has said that it stopped.
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

/* A partition that is to be read again. */
struct rewind_row {
    const char *topic;
    int32_t partition;
    int64_t from, end; /* offsets: the first to be read again; of the next new record */
};
/* rows are borrowed. why: NULL; or why there are none, and what to do. */
typedef void rewind_cb(void *arg, const struct rewind_row *rows, size_t n,
                       const char *why);

struct source_ops {
    const char *name;       /* type = "kafka" */
    const char *help;       /* one sentence for `tarry options` */
    size_t size;            /* of the plugin's struct */
    const struct opt *opts; /* ends with a row of zeros */
    /* The producer hears the answer: a job that cannot be accepted is refused to its face
     * instead of being kept as a dead letter. */
    bool answers;
    /* Its next message may come only after the answer to this one: a batch does not wait
     * for company that cannot come. */
    bool awaits;
    /* All that it takes goes by one route: one of its routes must have no match. */
    bool one_route;
    /* Its calls of bridge/queue/queue.h look only at routes that end at a queue. A name
     * in them is the queue's own where the target of the route does not depend on the
     * topic. */
    bool queues_apart;
    /* Consumers pull from its topics: a route may not lead several of them to one queue.
     */
    bool pulls_by_topic;
    /* Finds what the rows alone cannot tell, without any I/O; for `tarry check`. May be
     * NULL. */
    int (*check)(const void *self, struct err *err);
    /* -1: nothing stays open, and the daemon does not start. A broker that is away is no
     * failure: log it and keep trying. */
    int (*start)(struct source *src, void *self, struct err *err);
    /* Take no more from outside (true) or go on (false). Jobs already submitted stay. */
    void (*pause)(struct source *src, void *self, bool paused);
    /* Redis was away and is back, perhaps without what it took last. What was submitted
     * and not stored has been answered NOT_STORED; read again from where it is sure.
     * NULL: it can't. */
    void (*reread)(struct source *src, void *self);
    /* Reads again, for that route alone, what was written since to_ms (since 1970), also
     * in other instances; dry_run: only tells what that would be. Calls cb once, never
     * before it has returned. NULL: it can't. */
    void (*rewind)(struct source *src, void *self, const char *route, int64_t to_ms,
                   bool dry_run, rewind_cb *cb, void *arg);
    /* Called once, when every submitted job has had its done callback. Acknowledge what
     * is stored, close, and say so with source_stopped(), at once or later. What else was
     * asked may be answered later still; self stays until it was. */
    void (*stop)(struct source *src, void *self);
    /* For `tarry import`: takes the jobs of a stopped original out of its own Redis
     * (bridge/import/import.h). The source is not started. NULL: it can't. */
    int (*import)(struct source *src, void *self, struct import *im, struct err *err);
    /* For `tarry check --connect`, where nothing is started: reaches the other end once,
     * and blocks for some PROBE_WAIT_MS at most. Appends what it said; or -1, and err
     * says what failed and what to do. NULL: there is nothing to reach. */
    int (*probe)(const void *self, struct buf *said, struct err *err);
    /* What is allowed in its options and unwise: appends "OPTION: what, and what to do",
     * a line each. After check, and like it. NULL: nothing. */
    void (*unwise)(const void *self, struct buf *lines);
    /* For `tarry explain`: takes out of job->topic what the source takes out of the topic
     * of a message, and writes it into the job. NULL: nothing. */
    void (*read_topic)(struct job *job);
};
enum { PROBE_WAIT_MS = 5000 };

const char *source_name(const struct source *src); /* also the `who` of log lines */
/* The clock that jobs of that topic are judged by (of the Redis that keeps them; topic
 * none: the main one), ms since 1970, as near as we know it, never behind it. */
int64_t source_now_ms(struct source *src, struct slice topic);

enum stored {
    STORED,         /* Redis has it */
    STORED_INSTEAD, /* it took the place of a job of that id (delay-op: replace) */
    STORED_BEFORE,  /* nothing changed; reason: "exists" a job of that id is there,
                     * "remembered" one was delivered within dedupe_window, "read-again" */
    STORED_DEAD,    /* kept in the error bucket with its reason; acknowledge it */
    STORED_NONE,    /* there was nothing to keep (a cancel was carried out) */
    REFUSED,        /* only where ops->answers: why says what to do */
    NOT_STORED      /* Redis does not have it; do NOT acknowledge */
};
struct stored_reply {
    enum stored outcome;
    struct slice id; /* of the job; borrowed until the callback returns */
    int64_t
        due_ms; /* -1 with STORED_BEFORE: that of the job that is there is not known */
    const char *reason; /* REFUSED, STORED_DEAD: one word of the fixed list; STORED_BEFORE
                         * as above; else "" */
    const char *why;    /* in words, else "" */
};
typedef void stored_cb(void *arg, const struct stored_reply *reply);

/* Takes the job, whatever happens. Calls done exactly once, never before it has returned:
 * when Redis has the job, or never will. Only then may the source acknowledge the message
 * it came from. Replies of one source may come in another order than the jobs went in. */
void source_submit(struct source *src, struct job *job, stored_cb *done, void *arg);

/* Counts that a broker no longer knew a session that it had promised to keep: what it
 * held for us is gone. */
void source_session_lost(struct source *src);

/* Counts that a source went back to read again. */
void source_rewound(struct source *src);

/* The number of that route in job->rewinds; 0: none. */
int64_t reading_rewind(struct slice rewinds, struct slice route);

/* The last step of ops->stop. */
void source_stopped(struct source *src);

/* For sources that answer questions about jobs. route: its name. */
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
    const struct job *job;  /* borrowed; NULL unless there is one and it could be read */
    unsigned attempts;      /* finished ones */
    const char *last_error; /* "" */
    int64_t due_ms;
};
typedef void found_cb(void *arg, const struct found_reply *reply);
void source_find(struct source *src, struct slice route, struct slice id, found_cb *cb,
                 void *arg);

enum cancelled {
    CANCELLED,        /* it will not be delivered */
    CANCEL_TOO_LATE,  /* it is being delivered; if that fails, it is not tried again */
    CANCEL_EMITTED,   /* it was delivered (only known within dedupe_window) */
    CANCEL_NOT_FOUND, /* delivered before, or never there */
    CANCEL_NO_ROUTE,
    CANCEL_UNKNOWN /* Redis did not answer; try again */
};
typedef void cancelled_cb(void *arg, enum cancelled answer);
void source_cancel(struct source *src, struct slice route, struct slice id,
                   cancelled_cb *cb, void *arg);

/* Where jobs of that topic go: the name of the route, or p NULL when none takes it.
 * in_queue: does it end at a queue (bridge/queue/queue.h)? May be NULL. */
struct slice source_route(struct source *src, struct slice topic, bool *in_queue);

/* The daemon's own HTTP listener, for sources that serve on it (bridge/http/httpd.h). */
struct httpd;
struct httpd *source_httpd(struct source *src);
/* Rows of h, a listener of the source's own, that have a role ask for the daemon's tokens
 * (tokens: { }); its other rows stay open. */
void source_protect(struct source *src, struct httpd *h);

/* -------------------------------------------------------------------- sinks */

struct sink;

/* What a dead letter tells of its job's end. */
struct dead_letter {
    const char *reason, *error; /* a name of enum reason; the last error, "" */
    int status;                 /* of the last answer; 0: none */
    unsigned attempts, replays;
    int64_t first_ms, last_ms; /* of the attempts, since 1970 */
};

/* One hand-over of a job. All of it is borrowed until delivery_done(). */
struct delivery {
    const struct job *job; /* id, key, payload; its own headers are the raw ones: */
    struct slice
        target; /* topic or URL as the route rendered it; may be empty for http */
    struct header
        *headers; /* the ones to send, in order: control headers are gone, ours added */
    unsigned header_count;
    unsigned attempt;   /* from 1 */
    int64_t timeout_ms; /* report within this; then the lease ends and another may try */
    int64_t left_ms; /* until the job expires, at least 1; 0: it does not, or is dead */
    const struct dead_letter *dead; /* NULL: not a dead letter */
    bool target_asked; /* the message named the target: it is nobody's word but its own */
    int64_t retry_after_ms; /* the sink may set it with TRY_AGAIN: not before so long from
                               now */
    int status; /* the sink may set what the other end answered: HTTP status, reason
                 * code; kept with a dead letter */
    bool stops_target; /* the sink may set it with TRY_AGAIN: the target is gone, and gets
                        * nothing more until an operator starts it again */
    void *sink_arg;    /* the sink's own */
};
/* The first header of that name, case-insensitive; NULL: there is none. */
const struct header *delivery_header(const struct delivery *d, const char *name);

enum outcome {
    DELIVERED, /* the remote end said so */
    TRY_AGAIN, /* by the route's schedule */
    REJECTED   /* will never work: the job is buried */
};

/* Where a route goes, as far as the configuration tells. */
struct probe_target {
    struct slice text; /* a topic or URL, or as much of it as is the same for all jobs */
    bool whole;
};

struct sink_ops {
    const char *name;
    const char *help;
    size_t size;
    const struct opt *opts;
    const char *target; /* default template of the target; "" none needed; NULL: the route
                         * must give one */
    unsigned max_in_flight; /* default of the option of that name, which all sinks have */
    /* Would it and another one of which that is so disturb each other, where they have
     * the same options? Then a reload ends it first, when its deliveries have ended; else
     * the new one begins beside it. NULL: never. */
    bool (*alone)(const void *self);
    /* Could it deliver by now? A reload has the old one of that name deliver until the
     * new one could, for a few seconds at most. NULL: at once. */
    bool (*ready)(const void *self);
    /* Not NULL: consumers pull its jobs (bridge/queue/queue.h), deliver is never called.
     * Gives the rules within self. */
    const struct queue_rules *(*queue)(const void *self);
    int (*check)(const void *self, struct err *err); /* as of a source; may be NULL */
    /* What of a target counts as one for rates and breakers: of a URL its origin.
     * A part of target, or of self. NULL: the whole target. */
    struct slice (*origin)(const void *self, struct slice target);
    int (*start)(struct sink *sink, void *self, struct err *err);
    void (*deliver)(struct sink *sink, void *self, struct delivery *d);
    /* Called once, when no delivery is open. Ends in sink_stopped(), at once or later. */
    void (*stop)(struct sink *sink, void *self);
    /* As of a source, for one target of its routes. */
    int (*probe)(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err);
};

const char *sink_name(const struct sink *sink);
/* The shortest time within which deliveries of this sink must be reported. */
int64_t sink_timeout_ms(const struct sink *sink);
unsigned sink_max_in_flight(const struct sink *sink);

/* The sink calls this exactly once for every delivery it was given, at once or later;
 * d is gone when it returns. why is copied; with DELIVERED it may be NULL. */
void delivery_done(struct delivery *d, enum outcome outcome, const char *why);

void sink_stopped(struct sink *sink);

/* -------------------------------------------------------- plugins of one's own */

/* A shared object that the configuration names (plugins = [ "/path/x.so" ]) brings
 * sources and sinks of its own, by one line at the top level of one of its files:
 *
 *   static const struct sink_ops *const sinks[] = {&sink_lines, NULL};
 *   TARRY_PLUGIN(NULL, sinks);
 *
 * All of this header is its interface, with those that it includes above, and nothing
 * else of the bridge can be linked to. The number changes whenever that does (a field, a
 * value, a function, what a call means), and an object with another one is refused. What
 * is loaded stays until the daemon ends. */
#define TARRY_PLUGIN_ABI 1

struct tarry_plugin {
    unsigned abi;                            /* TARRY_PLUGIN_ABI */
    unsigned sizes[5];                       /* of the structs that cross the line */
    const struct source_ops *const *sources; /* ends with NULL; or NULL: none */
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
