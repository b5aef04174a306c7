/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job_id.h - ids of jobs without an id from their producer, and names of Kafka
 * partitions.
 */
#ifndef BRIDGE_ENGINE_JOB_ID_H
#define BRIDGE_ENGINE_JOB_ID_H

#include "bridge/base/buf.h"

struct bridge;
struct job;
struct origin;
struct bucket;
struct route;
struct source;

/* Return "source/topic/partition/offset", or "source/topic/partition~incarnation/offset"
 * if the topic was deleted and created again. The id is the same each time the record is
 * read. Allocated in the job's memory; empty if longer than JOB_ID_MAX. */
struct slice job_id_of_record(struct source *src, struct job *job);
/* Return a new id of 16 letters, digits, - and _, sorted by time: 42 bits of ms, 14 bits
 * of a counter, 40 bits of the instance. Allocated in the job's memory. */
struct slice job_id_new(struct bridge *bridge, struct job *job);
/* Fill in origin of a job for bucket b. The partition's name is a field of :ingest:
 * "source/topic/partition", then "~incarnation" if the topic was created again,
 * "*buckets" if the route has several buckets, and "+rewind" if a rewind of the route
 * reads it. */
void job_id_set_origin(struct source *src, const struct route *route, struct bucket *b,
                       const struct job *job, struct origin *origin);

#endif
