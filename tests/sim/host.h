/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - between a simulated core (build/sim/core.so: the real daemon over
 * tests/sim/core/) and the world that runs it (tests/sim/world*.c).
 *
 * A core is a coroutine: it runs until it calls wait(), and then one turn of its loop at
 * each event or deadline. Time stands still meanwhile. Pointers called "of the core" are
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
    EVENT_RECORDS, /* the source "log" may read more, or its assignment changed */
    EVENT_REQUEST, /* the source "web" received request `number` */
    EVENT_PULL,    /* consumer `number` wants jobs */
    EVENT_FINISH,  /* consumer `number` acknowledges or releases a job */
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
    bool queued;        /* a request: for the queue */
    bool cancels;       /* a request: cancels the job `id` */
};

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

    /* The source "log": returns the next record of the partitions of this core, or NULL.
     */
    const struct record *(*read)(struct sim_core *core);
    void (*stored)(struct sim_core *core, const struct record *record,
                   int outcome); /* enum stored */
    /* Whether this core has a partition that it may read only after a rewind. */
    bool (*lacks_marks)(struct sim_core *core);
    /* Reads the partitions of this core again from their marks, as Redis returned them.
     * -1: it has none. */
    void (*rewind)(struct sim_core *core, const int64_t *marks);
    /* Sets the offsets that may be committed, -1: nothing new; and commits those, when
     * Redis has them as marks. */
    void (*committable)(struct sim_core *core, int64_t *offsets);
    void (*commit)(struct sim_core *core, const int64_t *offsets);
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
};

/* What core.so exports, as `sim_entry`. The world sets all but run() before it calls
 * that. */
struct sim_entry {
    const struct sim_host *host;
    struct sim_core *core;
    unsigned read_max,
        open_max; /* of the source "log": records at once, and not stored */
    int (*run)(const char *conf_file); /* returns the exit code of the daemon */
};

#endif
