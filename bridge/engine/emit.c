/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/deliver.h"
#include "bridge/job/tmpl.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/delay.h"

#include <stdlib.h>

enum { OURS_MAX = 15 };

/* Append a header of tarry's own; the array has room for all of them. */
static void put(struct delivery *d, const char *name, struct slice value)
{
    d->headers[d->header_count++] = (struct header){slice_of(name), value};
}

static int64_t hops_of(const struct job *job)
{
    const struct header *h = job_header(job, "delay-hops");
    return h && h->value.n > 0 && h->value.n < 10 ? strtoll(h->value.p, NULL, 10) : 0;
}

/* A message that could not be accepted is stored with all its headers. After a replay its
 * control headers are not delivered. */
static bool is_stripped(struct slice name, const struct delivery *d,
                        const struct tries *tries)
{
    static const struct delay_rules standard = {0};
    return slice_is_nocase(name, "delay-hops") ||
           (d->dead == NULL && tries->replays > 0 && delay_is_control(name, &standard));
}

static void put_dead(const struct route *route, struct job *job, struct delivery *d)
{
    put(d, "delay-route", slice_of(route->conf->name));
    put(d, "delay-dead-reason", job_copy_slice(job, slice_of(d->dead->reason)));
    put(d, "delay-dead-error", job_copy_slice(job, slice_of(d->dead->error)));
    if (d->dead->status != 0)
        put(d, "delay-dead-status", job_format_number(job, d->dead->status));
    put(d, "delay-dead-attempts", job_format_number(job, d->dead->attempts));
    put(d, "delay-dead-first", job_format_number(job, d->dead->first_ms));
    put(d, "delay-dead-last", job_format_number(job, d->dead->last_ms));
}

void emit_headers(const struct route *route, struct job *job, const struct tries *tries,
                  int64_t now_ms, struct delivery *d)
{
    d->headers = job_memory(job, (job->header_count + OURS_MAX) * sizeof(*d->headers));
    for (unsigned i = 0; i < job->header_count; i++)
        if (!is_stripped(job->headers[i].name, d, tries))
            d->headers[d->header_count++] = job->headers[i];
    if (job->expires_ms > 0 && d->dead == NULL)
        d->left_ms = job->expires_ms > now_ms ? job->expires_ms - now_ms : 1;
    /* A rejected message still contains its own delay-id header; do not add a second
     * one. */
    if (d->dead == NULL || job_header(job, "delay-id") == NULL)
        put(d, "delay-id", job->id);
    put(d, "delay-due", job_format_number(job, job->due_ms));
    put(d, "delay-emitted", job_format_number(job, now_ms));
    put(d, "delay-attempt", job_format_number(job, d->attempt));
    put(d, "delay-source", job->source);
    put(d, "delay-hops", job_format_number(job, hops_of(job) + 1));
    if (job->run > 0)
        put(d, "delay-run", job_format_number(job, job->run));
    if (tries->replays > 0)
        put(d, "delay-replays", job_format_number(job, tries->replays));
    if (d->dead)
        put_dead(route, job, d);
}

int emit_dead_target(const struct route *route, struct job *job, struct delivery *d,
                     struct err *err)
{
    struct buf target = {0};
    struct slice captures[MATCH_CAPTURES_MAX];
    d->target = SLICE_LIT("");
    if (route->dead_target == NULL)
        return 0;
    unsigned n = route_captures(route, job, captures);
    int bad = tmpl_render(route->dead_target, job, captures, n,
                          slice_of(route->conf->name), &target, err);
    if (bad == 0)
        d->target = job_copy_slice(job, buf_slice(&target));
    buf_free(&target);
    return bad;
}
