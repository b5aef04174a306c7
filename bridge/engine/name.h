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
/* Fills in origin of a job that goes to b. The partition's name is
 * "source/topic/partition", with "~incarnation" where the topic was made anew, "*buckets"
 * where the route has several, and "+rewind" where the route reads it again: the field of
 * :ingest. */
void name_partition(struct source *src, const struct route *route, struct bucket *b,
                    const struct job *job, struct origin *origin);

#endif
