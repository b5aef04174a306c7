/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_parts.h - what meta_keep.c, meta_probe.c, meta_drain.c, meta_step.c,
 * meta_buckets.c and
 * meta_orphan.c share.
 */
#ifndef BRIDGE_META_PARTS_H
#define BRIDGE_META_PARTS_H

#include "bridge/bridge.h"
#include "bridge/engine/meta_keep.h"
#include "bridge/store/store_meta.h"

struct meta_field {
    char *name, *value;
};

struct meta {
    struct bridge *bridge;
    struct store *store;
    const struct core_events *events;
    void *arg; /* of events */
    bool of_pool;
    struct meta_field *fields; /* as they were read last */
    unsigned field_count;
    struct meta_layout there;
    bool asking, again; /* a read is on its way; another is asked for */
    bool up_open;       /* the store is up, and events->up was not told */
    bool ready;         /* the routes have their buckets */
    bool unfit;         /* told */
    int64_t look_ms;    /* monotonic: when to read it next */
    char trouble[160];  /* see meta_trouble() */
    struct log_limit complain;
    /* meta_probe.c: what an older tarry left, which noted nothing */
    bool probed, found_old;
    unsigned probes; /* not answered yet */
    bool probe_failed;
    int64_t *counts; /* of each of so many routes: 1 and the last bucket that is there */
    size_t counted;
    /* meta_step.c */
    int64_t able_ms; /* monotonic: since when all live instances can the next layout; 0 */
    struct step *step; /* it is being made; NULL: not */
    /* meta_orphan.c */
    struct orphan *orphans;
};

/* NULL: there is none. */
const char *meta_value(const struct meta *m, const char *name);
/* Tells the other instances, and reads it again. */
void meta_changed(struct meta *m);
/* Sets found_old and counts, then calls go_on: at once or later; not where an answer was
 * missing. */
void meta_probe(struct meta *m, void (*go_on)(struct meta *m));
/* Each second: seals what is to be sealed. Each minute: forgets what is empty. */
void meta_drain_tick(struct meta *m);
void meta_drain_look(struct meta *m);
/* Of a route whose number of buckets is configured otherwise than it was (was). Asked
 * again each second while it waits. */
enum buckets_answer {
    BUCKETS_KEEP,
    BUCKETS_WAIT,
    BUCKETS_CHANGE, /* look.may_change is set */
    BUCKETS_REFUSED /* err says why, and what to do */
};
enum buckets_answer meta_buckets_check(const struct meta *m, struct route *route,
                                       int64_t was, struct err *err);
/* Seals the older buckets of all routes at once. true: it is not done yet. */
bool meta_drain_open(struct meta *m);
/* Each second: makes the step to the next layout, when it may. */
void meta_step_tick(struct meta *m);
void meta_step_fini(struct meta *m);
/* Each minute: counts what belongs to nobody. */
void meta_orphan_look(struct meta *m);
void meta_orphan_fini(struct meta *m);

#endif
