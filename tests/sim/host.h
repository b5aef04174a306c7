/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - between a simulated core (build/sim/core.so: the real daemon over
 * tests/sim/core/) and the world that runs it (tests/sim/world*.c).
 *
 * A core is a coroutine: it runs until it calls wait(), and then one turn of its loop at
 * each event or deadline. No time passes meanwhile. Pointers called "of the core" are
 * meaningless to the world; it only returns them.
 */
#ifndef TESTS_SIM_HOST_H
#define TESTS_SIM_HOST_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_core; /* the world's object of one core */
struct conn;     /* the world's object of one connection */

enum event_kind {
    EVENT_OPEN,    /* of: a connection (struct net); it is open */
    EVENT_DATA,    /* of: a connection; bytes */
    EVENT_CLOSED,  /* of: a connection; bytes: why */
    EVENT_GROUP,   /* the consumer of the source "log" has events */
    EVENT_SESSION, /* the source "session" has events */
    EVENT_REWIND,  /* rewinds the route "log" to `number`, ms since 1970 */
    EVENT_REQUEST, /* the source "web" received request `number` */
    EVENT_PULL,    /* consumer `number` wants jobs */
    EVENT_FINISH,  /* consumer `number` acknowledges or releases a job */
    EVENT_LAB,     /* the source "lab": a call (of: struct lab_call of the world) */
    EVENT_OUTCOME, /* of: a delivery (struct delivery); outcome; bytes: why */
    EVENT_SIGNAL,  /* number: the signal */
};

struct event {
    enum event_kind kind;
    void *of; /* of the core */
    int64_t number;
    int outcome;        /* enum outcome of plugin.h */
    struct slice bytes; /* borrowed until the next call of next_event() */
};

enum { PARTITIONS = 3 }; /* of the log */

/* A record of the log, or a request. */
struct record {
    int64_t number;     /* of all records; the payload of the job */
    int64_t offset;     /* in the log; -1: a request */
    int32_t partition;  /* -1: a request */
    int64_t due_ms;     /* header deliver-at; 0: none */
    int64_t written_ms; /* its timestamp */
    const char *id;     /* NULL: none */
    const char *key;    /* NULL: none */
    bool queued;        /* for the queue */
    bool cancels;       /* a request: cancels the job `id` */
};

/* Of a partition: an offset, or why there is none (rd_kafka_resp_err_t). */
struct group_row {
    int32_t partition;
    int64_t offset;
    int error;
};

/* What librdkafka reports to its user; see core_rdkafka.c. */
enum { GROUP_ROWS_MAX = 6, GROUP_FETCH_MAX = 500 };
struct group_event {
    enum {
        GROUP_ASSIGN,
        GROUP_REVOKE,
        GROUP_FETCH,
        GROUP_COMMITTED,
        GROUP_OFFSETS, /* the committed offsets that CALL_OFFSETS asked for */
        GROUP_ERROR
    } kind;
    int error;      /* rd_kafka_resp_err_t */
    uint64_t round; /* GROUP_OFFSETS: of the request */
    unsigned n;
    struct group_row rows[GROUP_ROWS_MAX];
    unsigned record_count;
    const struct record *records[GROUP_FETCH_MAX];
};

enum group_call {
    CALL_JOIN,
    CALL_LEAVE,
    CALL_CLOSE, /* without leaving */
    CALL_ASSIGN,
    CALL_UNASSIGN,
    CALL_PAUSE,
    CALL_RESUME,
    CALL_SEEK,
    CALL_STORE,  /* these offsets may be committed */
    CALL_COMMIT, /* also lower ones */
    CALL_OFFSETS
};

/* What the broker sends to the source "session". */
struct session_event {
    enum { SESSION_CONNECTED, SESSION_MESSAGE, SESSION_CLOSED } kind;
    bool present, dup; /* present: the broker has kept the session */
    unsigned msgid;
    const struct record *record;
};
enum session_call { SESSION_CONNECT, SESSION_ACK, SESSION_DISCONNECT };

/* What a consumer of the queue asks. */
struct ask {
    unsigned max; /* of a pull */
    int64_t wait_ms;
    const char *id; /* of a finish */
    int64_t lease;
    bool release; /* it returns the job; else it acknowledges it */
};

/* A job that a consumer receives. */
struct pulled {
    int64_t number;
    int64_t lease; /* its end by the clock of Redis, ms */
};

/* --- the laboratory: calls of the core by the source "lab", deliveries to the sink "lab"
 * --- */

enum lab_op {
    LAB_SUBMIT,
    LAB_CANCEL,
    LAB_PULL,
    LAB_ACK,     /* with a lease; 0: of any holder */
    LAB_DELETE,  /* in any state */
    LAB_RELEASE, /* due again in ms */
    LAB_TOUCH,   /* for ms from now */
    LAB_DESTROY, /* all jobs of the queue */
    LAB_DEAD     /* lists, replays or drops dead letters of a bucket */
};
enum { LAB_HEADERS = 6, LAB_ID_MAX = 200 };

struct lab_ask {
    enum lab_op op;
    const char *topic; /* of a LAB_CANCEL or LAB_DEAD: the route */
    const char *id;    /* "": none; of a LAB_DEAD: only this one */
    int64_t number;    /* of a LAB_SUBMIT: the payload */
    const char *headers[LAB_HEADERS][2];
    int64_t lease, ms;
    unsigned max;
    /* LAB_DEAD: */
    char what; /* DEAD_WHAT_... */
    int64_t bucket, after_ms;
    const char *after;
};

struct lab_item {   /* a job that was pulled, or a dead letter */
    int64_t number; /* of a dead letter: when it was buried, ms */
    int64_t lease;
    unsigned attempts;
    char id[LAB_ID_MAX];
};

struct lab_answer {
    int code; /* enum stored, cancelled or queue_code; -1: no source, or no answer of
                 Redis */
    int64_t lease;
    const struct lab_item *items;
    unsigned n;
    bool more; /* dead letters behind after_ms, after */
    int64_t after_ms, done, buckets;
    const char *after;
};

struct lab_delivery {
    int64_t number;
    const char *id, *route_target;
    int64_t due_ms, timeout_ms;
    int64_t run; /* 0: it does not repeat */
    unsigned attempt;
    bool dead;
};

enum { SOURCE_LOG, SOURCE_WEB, SOURCES };

struct sim_host {
    int64_t (*mono_us)(struct sim_core *core);
    int64_t (*wall_ms)(struct sim_core *core);
    uint64_t (*random)(struct sim_core *core);
    void (*log)(struct sim_core *core, struct slice line);
    /* Returns at an event, or when mono_us() has reached until_us. */
    void (*wait)(struct sim_core *core, int64_t until_us);
    /* Ends this life; does not return. */
    void (*exit)(struct sim_core *core, int code);
    /* Returns false if there is none. */
    bool (*next_event)(struct sim_core *core, struct event *event);

    struct conn *(*open)(struct sim_core *core, void *net, const char *host,
                         const char *port);
    void (*send)(struct conn *conn, struct slice bytes);
    void (*close)(struct conn *conn); /* no event follows */

    /* The source "log" as a member of a consumer group. call: returns an error of
     * librdkafka or 0. event: returns false if there is none. */
    int (*group_call)(struct sim_core *core, enum group_call call,
                      const struct group_row *rows, unsigned n, uint64_t round);
    bool (*group_event)(struct sim_core *core, struct group_event *event);
    bool (*group_has_left)(struct sim_core *core);
    bool (*group_is_lost)(struct sim_core *core); /* its assignment */
    bool (*watermarks)(struct sim_core *core, int32_t partition, int64_t *low,
                       int64_t *end);
    /* Returns the offsets of the records since to_ms, a row for each partition. */
    unsigned (*offsets_at)(int64_t to_ms, struct group_row *rows, int64_t *ends);
    /* count: messages that are acknowledged, in the order of this connection. */
    void (*session_call)(struct sim_core *core, enum session_call call, unsigned count);
    bool (*session_event)(struct sim_core *core, struct session_event *event);
    /* A record, and the incarnation of its topic as tarry knows it. */
    void (*submitted)(struct sim_core *core, int64_t number, unsigned incarnation);
    /* The answer to a record or message: enum stored. */
    void (*stored)(struct sim_core *core, int64_t number, int outcome,
                   const char *reason);
    /* Whether a source may submit: called when that changes. */
    void (*paused)(struct sim_core *core, int source, bool paused);
    /* The source "web". outcome: enum stored, or of a cancel enum cancelled. */
    const struct record *(*request)(struct sim_core *core, int64_t number);
    void (*answered)(struct sim_core *core, int64_t number, int outcome);
    /* The queue. code: enum queue_code of bridge/queue.h. */
    const struct ask *(*ask)(struct sim_core *core, int64_t consumer);
    void (*pulled)(struct sim_core *core, int64_t consumer, int code,
                   const struct pulled *jobs, unsigned n);
    void (*finished)(struct sim_core *core, int64_t consumer, int code);
    /* The sink: the world sends an EVENT_OUTCOME later. */
    void (*deliver)(struct sim_core *core, void *delivery, struct slice payload,
                    unsigned attempt, int64_t timeout_ms, bool dead);
    const struct lab_ask *(*lab_ask)(struct sim_core *core, void *call);
    void (*lab_answer)(struct sim_core *core, void *call,
                       const struct lab_answer *answer);
    void (*lab_deliver)(struct sim_core *core, void *delivery,
                        const struct lab_delivery *what);
};

/* What core.so exports, as `sim_entry`. The world sets all but run() before it calls
 * that. */
struct sim_entry {
    const struct sim_host *host;
    struct sim_core *core;
    int (*run)(const char *conf_file); /* returns the exit code of the daemon */
    int64_t memory_bytes;              /* that it has allocated */
    int64_t memory_max_bytes;
};

#endif
