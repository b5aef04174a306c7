/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route.h - which route takes a job, where it goes, and in which bucket it waits.
 */
#ifndef BRIDGE_ENGINE_ROUTE_H
#define BRIDGE_ENGINE_ROUTE_H

#include "bridge/base/buf.h"
#include "bridge/base/histogram.h"
#include "bridge/base/log.h"
#include "bridge/base/mem.h"
#include "bridge/engine/gate.h"
#include "bridge/engine/part.h"
#include "bridge/engine/route_state.h"
#include "bridge/job/job.h"
#include "bridge/metrics/stats.h"
#include "bridge/store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct bridge;
struct conf_route;
struct pace;
struct retry_policy;
struct sched;
struct sink;
struct source;
struct tap;
struct tmpl;

/* The jobs of a route whose number of buckets is to change: meta_buckets.c. */
struct bucket_look {
    bool asked, failed;
    int64_t open; /* buckets without an answer */
    int64_t jobs;
    int64_t begun_ms; /* monotonic; 0: it was never asked */
};

struct route {
    struct bridge *bridge;
    struct conf_route *conf;  /* shared with the configuration */
    struct sink *sink, *dead; /* dead: NULL, only the error bucket */
    TAILQ_ENTRY(route) link;  /* of bridge->routes */

    /* What it does: */
    enum part_use use;
    enum route_state state; /* set by an operator */
    int64_t state_ms;       /* monotonic: since when, as far as this instance knows */
    struct tap *tap;        /* NULL: no client is attached */
    unsigned refs; /* pointers to it that outlive the calls of its buckets to Redis */

    /* Where its jobs go: */
    struct tmpl *target, *dead_target; /* NULL: the sink needs none */
    bool target_open;                  /* a message can choose the host of its target */
    bool own_names; /* of a queue: different topics may have one target, so a name
                     * of the queue API is the queue's own */
    struct buf fixed_target; /* where the template is the same for all jobs */
    struct job_names names;  /* what records of this route leave out */

    /* Its buckets; none if it ends at a queue. scheds[0] always exists: that bucket
     * contains what belongs to the route as a whole. */
    struct sched **scheds;
    int64_t bucket_count; /* 0: Redis has not told the number yet (meta.h) */
    int64_t sched_count;  /* made, see route_make_buckets() */
    struct bucket_rules rules;
    struct bucket_look look;
    char *refused; /* why its number of buckets is impossible; NULL */

    /* Limits: */
    unsigned in_flight;    /* deliveries without an outcome */
    unsigned reserved;     /* jobs that claims under way have asked for */
    struct gate_rule rate; /* of all buckets together, as configured */
    struct gate gate;      /* enforces it at the delivery */
    struct pace *pace;     /* of its targets; NULL: they have no limits */
    int64_t dead_slot_ms;  /* monotonic: last one assigned by deliver.c */

    /* Counted since the start of the process: */
    struct route_stats stats;
    struct recent recent; /* of stats.lateness */
    struct counts counts; /* of its jobs, as of counted_ms (census.h) */
    int64_t counted_ms;
    struct log_limit complain;       /* jobs that become dead letters */
    struct log_limit complain_dead;  /* its dead-letter sink */
    struct log_limit complain_retry; /* attempts that failed */
    struct log_limit complain_again; /* records read again */
    struct log_limit complain_newer; /* records of a newer tarry */
};

/* Declares each; visits the schedulers of the buckets in use. */
#define EACH_SCHED(route, each)                                                          \
    for (struct sched * each, **each##_at = (route)->scheds;                             \
         each##_at < (route)->scheds + (route)->bucket_count &&                          \
         ((each) = *each##_at, true);                                                    \
         each##_at++)

/* Makes the route, its templates and its first bucket, and adds it to the bridge, which
 * has the store and the sinks. dead: NULL where conf names none. Shares conf. NULL: err
 * says why. */
struct route *route_new(struct bridge *bridge, struct conf_route *conf, struct sink *sink,
                        struct sink *dead, struct err *err);
/* Its buckets are freed, or their store is. */
void route_free(struct route *route);
/* route->conf has other values, which conf_check.c has found good, or the sinks are
 * others. Deliveries under way are not affected. The sink must be a queue if and only if
 * the old one was. If pace_must_begin_anew(), the route must be still. Do not call this
 * from a callback of the route. */
void route_change(struct route *route, struct sink *sink, struct sink *dead);
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
/* Before route_free(), while the store goes on: frees the buckets, which are idle. */
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
