/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_release.c - an operator has resumed a target: makes its waiting jobs due again.
 *
 * pace.c has put them back, due in one to two minutes. tarry lists the jobs that are due
 * within that time, a page of each bucket at once, and restores the own due time of the
 * target's jobs, which is past. A second pass finds jobs that another instance has put
 * back during the first.
 */
#include "bridge/engine/pace_internal.h"
#include "bridge/engine/sched.h"
#include "bridge/job/tries.h"

#include <stdlib.h>

enum {
    PAGE = 100,              /* jobs; each costs a call to Redis */
    PAGE_BYTES = 256 * 1024, /* of their records */
    PASSES = 2,
    PASS_MS = 1000 /* from the start of a pass to the next */
};

struct part { /* one bucket */
    struct release *release;
    struct bucket *bucket;
    int64_t number;
    unsigned moves;           /* calls without an answer, and one while they are sent */
    bool more;                /* the bucket has further pages, */
    struct list_position end; /* after this position, whose member is: */
    struct buf member;
};

struct release {
    TAILQ_ENTRY(release) link; /* of pace->releases */
    struct pace *pace;
    struct buf name;  /* of the target */
    unsigned passes;  /* started */
    int64_t begun_ms; /* monotonic: start of the last pass */
    unsigned open;    /* buckets that it has not finished */
    int64_t part_count;
    struct part parts[];
};

static void ask_page(struct part *part);

static void next(struct part *part)
{
    if (--part->moves > 0)
        return;
    if (part->more && part->release->pace->route->bridge->claiming)
        ask_page(part);
    else
        part->release->open--;
}

static void on_moved(void *arg, const struct store_alter_reply *reply)
{
    (void)reply; /* if Redis did not answer, the job is due in a minute */
    next(arg);
}

/* Return whether the job only waits because of the stop, or for a retry. A dead letter
 * waits for another sink. */
static bool is_meant(const struct release *r, const struct store_list_item *found,
                     struct job *job)
{
    struct pace *p = r->pace;
    struct tries tries;
    struct err err;
    tries_parse(found->tries, &tries);
    return tries.reason[0] == '\0' && job->due_ms > 0 &&
           job->due_ms + route_spread_ms(p->route, job) <=
               store_now_ms(p->route->bridge->store) &&
           route_target(p->route, job, &err) == 0 &&
           slice_eq(pace_target_name(p, job->target), buf_slice(&r->name));
}

static void move(struct part *part, const struct store_list_item *found)
{
    const struct route *route = part->release->pace->route;
    struct err err;
    struct job *job = found->record.n > 0
                          ? job_decode(found->id, found->record, &route->names, &err)
                          : NULL;
    if (job && is_meant(part->release, found, job)) {
        part->moves++;
        store_alter(part->bucket, ALTER_WHAT_MOVE, job->due_ms, 0,
                    &(struct store_alter_want){.id = found->id}, 1, on_moved, part);
    }
    job_free(job);
}

static void on_page(void *arg, const struct store_list_reply *reply)
{
    struct part *part = arg;
    part->more = reply && reply->more;
    part->moves = 1;
    for (unsigned i = 0; reply && i < reply->count; i++)
        move(part, &reply->items[i]);
    if (part->more) {
        buf_clear(&part->member);
        buf_add_slice(&part->member, reply->member);
        part->end = (struct list_position){.score = reply->score,
                                           .ordinal = reply->ordinal,
                                           .bucket = part->number,
                                           .member = buf_slice(&part->member)};
    }
    next(part);
}

static void ask_page(struct part *part)
{
    int64_t now_ms = store_now_ms(part->release->pace->route->bridge->store);
    struct store_list_ask ask = {.what = LIST_WHAT_WAITING,
                                 .id_prefix = SLICE_LIT(""),
                                 .from_ms = now_ms,
                                 .to_ms = now_ms + PACE_STOPPED_MAX_MS,
                                 .max = PAGE,
                                 .bytes_max = PAGE_BYTES};
    bucket_list(part->bucket, &ask, part->more ? &part->end : NULL, part->number, on_page,
                part);
}

static void start_pass(struct release *r)
{
    r->passes++;
    r->begun_ms = loop_mono_ms();
    r->open = (unsigned)r->part_count;
    for (int64_t i = 0; i < r->part_count; i++) {
        r->parts[i].more = false;
        ask_page(&r->parts[i]);
    }
}

static void release_free(struct release *r)
{
    TAILQ_REMOVE(&r->pace->releases, r, link);
    for (int64_t i = 0; i < r->part_count; i++)
        buf_free(&r->parts[i].member);
    buf_free(&r->name);
    free(r);
}

void release_start(struct pace *p, struct slice name)
{
    int64_t i = 0, n = p->route->bucket_count;
    struct release *r;
    TAILQ_FOREACH (r, &p->releases, link) {
        if (slice_eq(buf_slice(&r->name), name)) {
            r->passes = 0; /* it starts again */
            return;
        }
    }
    r = mem_alloc(sizeof(*r) + (size_t)n * sizeof(r->parts[0]));
    r->pace = p;
    r->part_count = n;
    buf_add_slice(&r->name, name);
    EACH_SCHED (p->route, s) {
        r->parts[i] = (struct part){.release = r, .bucket = s->bucket, .number = i};
        i++;
    }
    TAILQ_INSERT_TAIL(&p->releases, r, link);
    start_pass(r);
}

void release_tick(struct pace *p)
{
    struct release *r, *following;
    for (r = TAILQ_FIRST(&p->releases); r; r = following) {
        following = TAILQ_NEXT(r, link);
        if (r->open > 0 || loop_mono_ms() < r->begun_ms + PASS_MS)
            continue;
        if (r->passes < PASSES)
            start_pass(r);
        else
            release_free(r);
    }
}

void releases_free(struct pace *p)
{
    struct release *r, *following;
    for (r = TAILQ_FIRST(&p->releases); r; r = following) {
        following = TAILQ_NEXT(r, link);
        release_free(r);
    }
}
