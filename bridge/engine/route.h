/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route.h - which route takes a job, where it goes, and in which bucket it waits.
 */
#ifndef BRIDGE_ENGINE_ROUTE_H
#define BRIDGE_ENGINE_ROUTE_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct conf_route;
struct job;
struct retry_policy;
struct route;
struct sched;
struct sink;
struct source;

/* Compiles the templates and makes the buckets; needs the sinks and the store. -1: err
 * says why; route_fini() undoes any part of it. */
int route_init(struct route *route, struct bridge *bridge, const struct conf_route *conf,
               struct err *err);
/* The same with the sinks as given; dead: NULL where conf names none. */
int route_init_to(struct route *route, struct bridge *bridge,
                  const struct conf_route *conf, struct sink *sink, struct sink *dead,
                  struct err *err);
void route_fini(struct route *route);
/* It goes on by another configuration, which conf_check.c has found good; what is on its
 * way stays so. The sink must be a queue if and only if the old one was. pace_anew: as
 * pace_must_begin_anew() says; then the route is still. Not within a callback of its. */
void route_change(struct route *route, const struct conf_route *conf, struct sink *sink,
                  struct sink *dead, bool pace_anew);
/* No hand-over and no claim is under way. */
bool route_is_still(const struct route *route);

/* The route that the job names, or else the first of the file that comes from this source
 * and matches its topic; NULL: none. With it sets job->target. -1 in *bad: there is a
 * route, but its target can't be told, and err says why. */
struct route *route_for(const struct source *src, struct job *job, int *bad,
                        struct err *err);
/* The route names src as one of its sources. */
bool route_comes_from(const struct route *route, const struct source *src);
/* The first route that comes from src: where what has no route is kept. Never NULL. */
struct route *route_first(const struct source *src);
/* By its name; NULL: there is none. */
struct route *route_of_name(const struct bridge *bridge, struct slice name);
/* What the wildcards of the route's match stand for in the job's topic, of which they are
 * parts; captures has room for MATCH_CAPTURES_MAX. Gives how many. */
unsigned route_captures(const struct route *route, const struct job *job,
                        struct slice *captures);
/* Sets job->target where its record leaves it out and the route has no fixed one any more
 * (job.h). -1: it can't be told, and err says why. */
int route_target(const struct route *route, struct job *job, struct err *err);
/* The schedule that the job asked for, or the route's own. job may be NULL. */
const struct retry_policy *route_retry_policy(const struct route *route,
                                              const struct job *job);
/* Of which jobs only one leaves at a time: a hash of the key, in room. none: of no other.
 */
enum { ROUTE_GROUP_BYTES = 17 };
struct slice route_group(const struct route *route, const struct job *job,
                         char room[ROUTE_GROUP_BYTES]);
/* How long after its due time this job leaves: its place within the route's spread, the
 * same each time it is asked for. One that expires leaves in the first half of its time.
 */
int64_t route_spread_ms(const struct route *route, const struct job *job);
/* --- route_buckets.c: nothing of it where the route ends at a queue --- */

/* Makes bucket ROUTE/0, in which the route also keeps what is its own, and no other. */
void route_init_buckets(struct route *route);
void route_fini_buckets(struct route *route);
/* Makes the first n, to be counted: the route does not use them yet. */
void route_make_buckets(struct route *route, int64_t n);
/* From now on the route has n buckets, which start; idle ones beyond n are freed. Once.
 */
void route_open_buckets(struct route *route, int64_t n);
/* It ends at a queue, or it is known which buckets it has. */
bool route_is_open(const struct route *route);
/* Nothing is asked of any of its buckets. */
bool route_buckets_are_idle(const struct route *route);
/* Before route_fini(), while the store goes on: frees the buckets, which are idle. */
void route_free_buckets(struct route *route);
/* The route has another configuration. */
void route_read_rules(struct route *route);
/* By the hash of the id (FNV-1a, 32 bits), so that every instance picks the same; "@" and
 * digits at its end do not count. */
struct sched *route_bucket(const struct route *route, struct slice id);
/* Its place in route->scheds. */
int64_t route_bucket_number(const struct route *route, struct slice id);

/* The first route of that source that takes the topic (NULL: any topic). to_queue: only
 * those that end at a queue. captures: MATCH_CAPTURES_MAX of them, *n are filled in. */
struct route *route_matching(const struct source *src, const struct slice *topic,
                             bool to_queue, struct slice *captures, unsigned *n);

#endif
