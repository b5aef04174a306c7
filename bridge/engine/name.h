/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * name.h - names of jobs that their producer did not name, and of Kafka partitions.
 */
#ifndef BRIDGE_ENGINE_NAME_H
#define BRIDGE_ENGINE_NAME_H

#include "bridge/base/buf.h"

struct bridge;
struct job;
struct origin;
struct bucket;
struct route;
struct source;

/* "source/topic/partition/offset", or "source/topic/partition~incarnation/offset" of a
 * topic that was made anew: the same each time the record is read. In the job's memory;
 * empty when it would be longer than JOB_ID_MAX. */
struct slice name_of_record(struct source *src, struct job *job);
/* 16 letters and digits (and - _), in the order of time: 42 bits of ms, 14 of a counter,
 * 40 that tell instances apart. In the job's memory. */
struct slice name_new(struct bridge *bridge, struct job *job);
/* Fills in origin: the interned name of the job's partition at this bucket, and the
 * offset submitted before; remembers the job's own. The name is "source/topic/partition",
 * with
 * "~incarnation" where the topic was made anew, "*buckets" where the route has several,
 * and "+rewind" where the route reads it again (source_set_reading()): the field of
 * :ingest. */
void name_partition(struct source *src, const struct route *route, const struct bucket *b,
                    const struct job *job, struct origin *origin);
/* The bucket is about to be freed, and nothing of it is under way. */
void name_bucket_gone(struct bridge *bridge, const struct bucket *b);
/* What is submitted next of any partition has nothing before it. */
void name_forget(struct source *src);

#endif
