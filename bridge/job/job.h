/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job.h - one delayed message, and its record in Redis.
 *
 * Record, version 1: a MessagePack array [1, due_ms, payload, fields]. fields is a map
 * from small integers (enum job_field in job_record.c) to values. It omits defaults, and
 * a reader skips unknown numbers. If tries_max or lease_ms is set, both follow as fifth
 * and sixth element, each a uint64 of nine bytes. The key of the record in the pool is
 * the id.
 *
 * A route's record omits what is known elsewhere: the route's source and fixed target,
 * and, if the job's id is that of its Kafka record, source, topic, partition and offset.
 * This saves a third of a small job's size. Consequence: if the route has a fixed target,
 * a job goes to the target that the route has when the job is due.
 */
#ifndef BRIDGE_JOB_H
#define BRIDGE_JOB_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    JOB_ID_MAX = 512,     /* bytes of an id; a delay-id is shorter, see delay.h */
    JOB_TOPIC_MAX = 1024, /* bytes of a topic */
    JOB_TARGET_MAX = 2048,
    JOB_HEADERS_MAX = 256,           /* headers of one job */
    JOB_HEADER_BYTES_MAX = 64 * 1024 /* sum of all names and values */
};

struct header {
    struct slice name, value; /* value.p == NULL: Kafka's null value */
};

/* The job's own memory contains all slices; job_free() frees it. */
struct job {
    struct slice id;      /* empty: the core sets it */
    struct slice topic;   /* origin: Kafka or MQTT topic; may be empty */
    struct slice key;     /* p NULL: absent */
    struct slice payload; /* any bytes; p NULL: Kafka's null */
    struct slice target;  /* destination: topic or URL; the route sets it */
    struct slice source;  /* name of the source; set by the core */
    struct slice route;   /* name of the route, if the source chooses it; else empty */
    struct slice native; /* the message's properties in the encoding of its protocol; only
                          * a sink of that protocol uses them, to restore what headers
                          * cannot express. p NULL: absent */
    struct slice after,
        at; /* deliver-after, deliver-at, if the source takes them from elsewhere
             * ($delayed/30/...); they override the headers. p NULL: absent */
    struct slice before,
        name; /* deliver-before, delay-id, if the source takes them from elsewhere; the
               * headers override them. p NULL: absent. Not in the record */
    struct header *headers;
    unsigned header_count;
    int64_t timestamp_ms; /* of the record, ms since 1970; 0: none, delays count from
                           * now */
    int64_t due_ms;       /* ms since 1970, by the clock of Redis; set by the core */
    int64_t expires_ms;   /* not delivered after this; 0: never expires. Set by the
                           * source from the protocol; an earlier deliver-before
                           * overrides it */
    int64_t offset;       /* Kafka's; -1: none. Part of the id if the producer set none */
    int32_t partition;    /* Kafka's; -1: none */
    /* When a Kafka record that was read before counts as new. Another incarnation: for
     * every route, with another id. Another rewind number of a route: for that route,
     * with the same id. Both change only while no record of the partition is open. Not in
     * the Redis record. */
    unsigned incarnation; /* number of times the topic was deleted and created again */
    struct slice rewinds; /* "ROUTE:N@OFFSET ROUTE:N@OFFSET": rewinds of routes, with
                           * their numbers and first records, the last one of a route
                           * first; empty: none. Earlier records do not count as new */
    /* The source has set due_ms (0: now, by the clock of Redis) and expires_ms; all
     * headers are data. Not in the record. */
    bool timed;
    bool at_once;   /* due when it is stored; due_ms is ignored. Not in the record */
    bool to_queue;  /* consider only routes that end at a queue. Not in the record */
    bool replace;   /* replaces a job with the same id in any state. Not in the record */
    bool again;     /* tarry delivered this message before: a job in flight with its id
                     * is that delivery, not a duplicate. Not in the record */
    bool tombstone; /* Kafka's null value: cancels the job named by its id or key,
                     * unless a header sets a time. Not in the record */
    /* "undecodable", "oversize": the source cannot convert the message, which becomes a
     * dead letter; payload contains its raw bytes. NULL: valid. Not in the record */
    const char *unreadable;
    struct slice unreadable_why;
    int64_t tries_max;   /* the most deliveries; 0: limited by the route or queue */
    bool target_asked;   /* the message chose the target, within what the route allows */
    struct slice retry;  /* name of the schedule that the message chose; empty: none */
    struct slice repeat; /* delay-repeat, see delay.h; empty: no repeats */
    int64_t repeat_until_ms; /* no run is due later, ms since 1970; 0: no end */
    int64_t repeat_count;    /* number of runs; 0: no limit */
    int64_t run;             /* number of this run, from 1; 0: no repeats */
    int64_t lease_ms; /* queue jobs: lease of a consumer; 0: the consumer's choice */
    struct job_chunk *memory;
};

/* Returns an empty job. hint_bytes: estimated size of key, payload and headers; 0 is
 * allowed. */
struct job *job_new(size_t hint_bytes);
void job_free(struct job *job); /* NULL is allowed */

/* Copies s into the job's memory, followed by a NUL. An absent slice stays absent. */
struct slice job_copy_slice(struct job *job, struct slice s);
struct slice job_format(struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
struct slice job_format_number(struct job *job, int64_t n); /* as decimal text */
/* Returns n zeroed bytes of the job's memory. */
void *job_memory(struct job *job, size_t n);

/* Copies name and value. -1: too many headers, or too many bytes in total. */
int job_add_header(struct job *job, struct slice name, struct slice value,
                   struct err *err);
/* Returns the first header of this name (case-insensitive), or NULL. */
const struct header *job_header(const struct job *job, const char *name);

/* Values that the records of a route omit; empty: none. */
struct job_names {
    struct slice source, target;
    bool several; /* the route has several sources: records contain theirs, except old
                   * records */
};
/* Appends the record, without id, route and defaults. names: values to omit if equal;
 * NULL: omit none. */
void job_encode(const struct job *job, const struct job_names *names, struct buf *out);
/* Returns whether a later version of tarry wrote the record; this version cannot read it,
 * but the record is valid. */
bool job_is_newer(struct slice record);
/* Returns a job that owns copies, or NULL with the reason in err. Safe for untrusted
 * bytes. names: as for job_encode(), of the route; NULL: none. */
struct job *job_decode(struct slice id, struct slice record,
                       const struct job_names *names, struct err *err);

#endif
