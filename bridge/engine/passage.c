/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/passage.h"
#include "bridge/bridge.h"
#include "bridge/engine/generation.h"
#include "bridge/engine/meta_keep.h"
#include "bridge/engine/name.h"
#include "bridge/queue/queue_place.h"

static bool is_of_record(const struct passage *p)
{
    return p->src && p->how.origin.partition;
}

/* Redis did not take it, and its source will read it again. The records behind it may be
 * on their way to later generations, and must not be noted there before this one is. */
static void note_gap(const struct passage *p)
{
    for (struct generation *g = p->at->next; g; g = g->next) {
        struct origin origin = p->how.origin;
        name_partition_again(p->src, generation_bucket(g, p->id)->bucket, &origin);
    }
}

/* Answered. cb may free p. */
static void end(struct passage *p, char code)
{
    struct generation *g = p->at;
    if (code == 0 && is_of_record(p) && g)
        note_gap(p);
    if (g)
        TAILQ_REMOVE(&g->under_way, p, link);
    job_free(p->held);
    p->held = NULL;
    p->cb(p->arg, code);
}

/* The same, and those behind it may go on. */
static void leave(struct passage *p, char code)
{
    struct generation *g = p->at;
    end(p, code);
    if (g)
        passage_go_on(g);
}

/* Its source reads again what came before it, and it must not be noted before that. */
static bool is_read_again(const struct passage *p)
{
    return is_of_record(p) && p->begun != p->route->bridge->reread_at;
}

static void on_unknown(void *arg)
{
    leave(arg, 0);
}

/* --- answers --- */

static void on_enqueued(void *arg, char code)
{
    leave(arg, code);
}

static void wait_for_those_before(struct passage *p)
{
    p->waits = true;
    if (p->route->closed) /* it leaves, and will hear of no further generation */
        leave(p, 0);
    else if (p->at->next)
        passage_go_on(p->at);
    else /* sealed by another instance, whose word was missed */
        meta_look(p->route->bridge->meta);
}

static void on_passed(void *arg, const struct passed *what)
{
    struct passage *p = arg;
    struct err err;
    p->held = job_decode(what->id, what->record, &p->route->names, &err);
    must(p->held != NULL); /* encoded by store_enqueue() */
    p->how.tries = job_keep(p->held, what->tries);
    p->how.group = job_keep(p->held, what->group);
    wait_for_those_before(p);
}

/* A record that cancels is noted by each generation that is not sealed: read again, it
 * must not take a later job of that id, wherever that is. So all are asked in any case,
 * but for those that began after it was noted ('K'); what the oldest said counts. */
static void on_cancelled(void *arg, char code)
{
    struct passage *p = arg;
    if (code == 'K') {
        leave(p, 'k');
        return;
    }
    bool here = code != 'n' && code != 'z' && code != 0;
    bool is_next_asked = code && (!here || is_of_record(p));
    if (p->at && (code == 'z' || (p->at->next && is_next_asked))) {
        if (here && p->answer == 0)
            p->answer = code;
        wait_for_those_before(p);
        return;
    }
    leave(p, p->answer && code == 'n' ? p->answer : code);
}

/* --- questions --- */

/* A sealed bucket notes no record, so that none has one before it there. */
static void set_origin(struct passage *p, const struct job *job)
{
    struct origin *origin = &p->how.origin;
    if (origin->partition)
        name_partition_again(p->src, p->bucket, origin);
    else if (p->src && job && job->offset >= 0 && job->partition >= 0)
        name_partition(p->src, p->route, p->bucket, job, origin);
    if (p->at && p->at->sealed)
        origin->before = -1;
}

static void enqueue(struct passage *p, struct job *job)
{
    set_origin(p, job);
    p->how.passed = p->at ? on_passed : NULL;
    store_enqueue(p->bucket, job, &p->how, on_enqueued, p);
}

static void cancel(struct passage *p)
{
    struct origin *origin = NULL;
    if (is_of_record(p)) {
        set_origin(p, NULL);
        origin = &p->how.origin;
    }
    store_cancel(p->bucket, p->id, origin, p->how.deadline_ms, on_cancelled, p);
}

/* job: of an enqueue. */
static void enter(struct passage *p, struct generation *g, struct job *job)
{
    p->at = g;
    p->bucket = generation_bucket(g, p->id)->bucket;
    TAILQ_INSERT_TAIL(&g->under_way, p, link);
    if (p->cancels)
        cancel(p);
    else
        enqueue(p, job);
}

void passage_go_on(struct generation *g)
{
    struct passage *p;
    while (g->next && (p = TAILQ_FIRST(&g->under_way)) && p->waits) {
        struct job *job = p->held;
        if (p->route->closed || is_read_again(p)) {
            end(p, 0);
            continue;
        }
        TAILQ_REMOVE(&g->under_way, p, link);
        p->waits = false;
        p->held = NULL;
        enter(p, g->next, job);
        job_free(job);
    }
}

/* The slices of how are in the caller's memory, or in that of the job that goes. */
void passage_enqueue(struct passage *p, struct job *job, bool named)
{
    struct route *route = p->route;
    p->begun = route->bridge->reread_at;
    p->how.origin = (struct origin){NULL, -1, -1, 0};
    if (route->sink->rules) {
        p->bucket = route_bucket_of(route, job->id, job->target);
        enqueue(p, job);
    } else if (route->oldest == NULL) {
        p->bucket = route->home->bucket;
        loop_defer(on_unknown, p);
    } else {
        enter(p, named ? route->oldest : route->newest, job);
    }
}

void passage_cancel(struct passage *p, const struct job *job)
{
    struct route *route = p->route;
    p->cancels = true;
    p->begun = route->bridge->reread_at;
    p->how.origin = (struct origin){NULL, -1, -1, 0};
    if (p->src && job->offset >= 0 && job->partition >= 0)
        name_origin(p->src, route, job, &p->how.origin);
    if (route->sink->rules) {
        if (p->bucket == NULL)
            p->bucket = route_bucket_to_cancel(route, p->id, job->target);
        cancel(p);
    } else if (route->oldest == NULL) {
        loop_defer(on_unknown, p);
    } else {
        enter(p, route->oldest, NULL);
    }
}
