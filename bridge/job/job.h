/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job.h - one delayed message, and its record in Redis.
 *
 * Record, version 1: a MessagePack array [1, due_ms, payload, fields]. fields is a map
 * from small integers (enum job_field in job.c) to values; what is at its default is left
 * out, and a reader skips numbers it does not know. Where one of them is set, tries_max
 * and lease_ms follow as fifth and sixth element, each a uint64 of nine bytes. The id is
 * the key of the record in the pool.
 *
 * A record of a route leaves out what is said elsewhere: the source and the target that
 * the route itself says, and of a job that is named after its Kafka record the source,
 * topic, partition and offset. That is a third of what a small job takes. So a job whose
 * route names a fixed target goes where the route says when it is due.
 */
#ifndef BRIDGE_JOB_H
#define BRIDGE_JOB_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    JOB_ID_MAX = 512, /* bytes of an id; a delay-id is shorter, see delay.h */
    JOB_TOPIC_MAX =
        1024, /* bytes of a topic; a target may be twice that, see JOB_TARGET_MAX */
    JOB_TARGET_MAX = 2048,
    JOB_HEADERS_MAX = 256,           /* headers of one job */
    JOB_HEADER_BYTES_MAX = 64 * 1024 /* all names and values together */
};

struct header {
    struct slice name, value; /* value.p == NULL: Kafka's null value */
};

/* Every slice lives in the job's own memory and goes with it. */
struct job {
    struct slice id;      /* empty: the core names it */
    struct slice topic;   /* where it came from: Kafka or MQTT topic; may be empty */
    struct slice key;     /* p NULL: none */
    struct slice payload; /* any bytes; p NULL: Kafka's null */
    struct slice target;  /* where it goes: topic or URL; the route's business */
    struct slice source;  /* name of the source; the core sets it */
    struct slice route;   /* a source that names the route sets it; else empty */
    struct slice after,
        at; /* deliver-after, deliver-at, where the source knows them from
             * elsewhere ($delayed/30/...): they beat the headers. p NULL: none */
    struct header *headers;
    unsigned header_count;
    int64_t timestamp_ms; /* the record's own, ms since 1970; 0: none, count from now */
    int64_t due_ms;       /* ms since 1970, Redis' clock; the core sets it */
    int64_t expires_ms;   /* later than this it is not emitted; 0: never. A source sets
                           * what the protocol says; an earlier deliver-before beats it */
    int64_t offset;       /* Kafka's; -1: none. Names the job when the producer did not */
    int32_t partition;    /* Kafka's; -1: none */
    /* A record that was read before counts as new: where the incarnation differs, for
     * every route and under another id; where only the rewind of a route differs, for
     * that route and under the same id. Both change only while no record of the partition
     * is open. Not in the record in Redis. */
    unsigned incarnation; /* of the topic: how often it was deleted and made anew */
    struct slice rewinds; /* "ROUTE:N ROUTE:N": routes that read it again, and for each
                           * the number of its last rewind; empty: none */
    /* The source knows the times itself: due_ms (0: now, by Redis' clock) and expires_ms
     * are set, and headers are data, none of them control. Not in the record. */
    bool timed;
    bool at_once;   /* due when it is stored, whatever due_ms says. Not in the record */
    bool to_queue;  /* only routes that end at a queue are looked at. Not in the record */
    bool replace;   /* a job of that id goes, wherever it stands. Not in the record */
    bool again;     /* tarry has delivered it before: one of its id in flight is that
                     * passage, not a job that it doubles. Not in the record */
    bool tombstone; /* Kafka's null value: cancels the job that its id or key names,
                     * unless it asks for a time. Not in the record */
    /* "undecodable", "oversize": the source cannot make a job of the message, which is
     * kept raw as a dead letter; payload holds its bytes. NULL: it can. Not in the record
     */
    const char *unread;
    struct slice unread_why;
    int64_t tries_max;  /* deliveries at most; 0: as the route or the queue says */
    bool target_asked;  /* the message named the target, within what the route allows */
    struct slice retry; /* name of the schedule that the message asked for; empty: none */
    struct slice repeat;     /* delay-repeat, see repeat.h; empty: it is delivered once */
    int64_t repeat_until_ms; /* no run is due later; 0: no end */
    int64_t repeat_count;    /* so many runs; 0: no limit */
    int64_t run;             /* number of this run, from 1; 0: it does not repeat */
    int64_t
        lease_ms; /* of a queue's job: for how long a consumer gets it; 0: as it asks */
    struct job_chunk *memory;
};

/* hint_bytes: about how much key, payload and headers will need; 0 is fine. */
struct job *job_new(size_t hint_bytes);
void job_free(struct job *job); /* NULL is fine */

/* Copies s into the job's memory. A none stays none; anything else ends in an extra NUL.
 */
struct slice job_keep(struct job *job, struct slice s);
struct slice job_keepf(struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
struct slice job_keep_number(struct job *job, int64_t n); /* as decimal text */
/* n bytes of the job's memory, for structures that should go with it. Zeroed. */
void *job_memory(struct job *job, size_t n);

/* Copies both. -1: too many headers, or too large in all. */
int job_add_header(struct job *job, struct slice name, struct slice value,
                   struct err *err);
/* The first header of that name, case-insensitive; NULL: there is none. */
const struct header *job_header(const struct job *job, const char *name);

/* What the records of a route need not say; empty: nothing. */
struct job_names {
    struct slice source, target;
    bool several; /* sources: records say theirs, but for those of before */
};
/* Appends the record. Writes neither id, nor route, nor what is at its default. names:
 * left out where the job has the same; NULL: everything is spelled out. */
void job_encode(const struct job *job, const struct job_names *names, struct buf *out);
/* A later tarry wrote it: this one can't read it, and that is no fault of the record. */
bool job_is_newer(struct slice record);
/* Gives the job, or NULL with a reason: outside bytes, any content is fine. Copies.
 * names: those of the route; NULL: it has none. */
struct job *job_decode(struct slice id, struct slice record,
                       const struct job_names *names, struct err *err);

#endif
