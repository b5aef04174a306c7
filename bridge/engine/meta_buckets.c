/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_buckets.c - decides whether a route may change its number of buckets: only if it
 * has no jobs, and no other instance serves it. Asked once, when the route starts.
 */
#include "bridge/engine/membership.h"
#include "bridge/engine/meta_internal.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdlib.h>

enum { OTHERS_MS = 4000 }; /* a killed instance is removed after MEMBER_TIMEOUT_MS */

static void on_counts(void *arg, const struct counts *counts)
{
    struct bucket_look *look = arg;
    look->open--;
    look->failed = look->failed || counts == NULL;
    look->jobs += counts ? counts->waiting + counts->in_flight + counts->dead : 0;
}

static void ask(struct route *route, int64_t was)
{
    struct bucket_look *look = &route->look;
    const int64_t begun_ms = look->begun_ms ? look->begun_ms : loop_mono_ms();
    *look = (struct bucket_look){.asked = true, .begun_ms = begun_ms, .open = was};
    route_make_buckets(route, was);
    for (int64_t i = 0; i < was; i++)
        store_count(route->scheds[i]->bucket, on_counts, look);
}

static int refuse_jobs(const struct route *route, int64_t was, struct err *err)
{
    const char *name = route->conf->name;
    return err_set(err,
                   "routes.%s.buckets: %" PRId64
                   " is configured, but the route has %" PRId64 " jobs in %" PRId64
                   " buckets, and the number cannot change until the route is empty: set "
                   "buckets = %" PRId64 "; then drain the route (tarry drain %s --wait), "
                   "or add a second route with %" PRId64
                   " buckets whose match accepts new messages",
                   name, route->conf->buckets, route->look.jobs, was, was, name,
                   route->conf->buckets);
}

static int refuse_others(const struct route *route, int64_t was, struct err *err)
{
    return err_set(err,
                   "routes.%s.buckets: %" PRId64 " is configured, but other instances "
                   "run with %" PRId64 ": stop them first, or set buckets = %" PRId64,
                   route->conf->name, route->conf->buckets, was, was);
}

/* Decide by the counts. */
static enum buckets_answer judge(const struct meta *m, struct route *route, int64_t was,
                                 struct err *err)
{
    struct bucket_look *look = &route->look;
    const int others = membership_others(m->bridge->membership, route->conf->name);
    if (look->jobs > 0) {
        refuse_jobs(route, was, err);
        return BUCKETS_REFUSED;
    }
    if (others == 0)
        return BUCKETS_CHANGE;
    look->asked = false; /* others may store jobs meanwhile */
    if (others < 0 || loop_mono_ms() - look->begun_ms < OTHERS_MS)
        return BUCKETS_WAIT;
    refuse_others(route, was, err);
    return BUCKETS_REFUSED;
}

enum buckets_answer meta_buckets_check(const struct meta *m, struct route *route,
                                       int64_t was, struct err *err)
{
    struct bucket_look *look = &route->look;
    if (!look->asked || (look->open == 0 && look->failed)) {
        ask(route, was);
        return BUCKETS_WAIT;
    }
    return look->open > 0 ? BUCKETS_WAIT : judge(m, route, was, err);
}
