/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/verdict.h"
#include "bridge/bridge.h"
#include "bridge/engine/name.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"

void verdict_name(struct source *src, struct job *job, struct slice wanted,
                  struct verdict *v)
{
    if (wanted.n > 0)
        job->id = job_keep(job, wanted);
    else if (job->id.n == 0 && job->offset >= 0) {
        v->unknown = job->partition >= 0;
        job->id = name_of_record(src, job);
    }
    v->named = job->id.n > 0 && job->id.n <= JOB_ID_MAX;
    if (!v->named)
        job->id = name_new(src->bridge, job);
}

/* What is refused does not take the id of a job that is there, or yet to come; but it is
 * found by the beginning of its own: ID@NAME. */
static void name_refused(struct job *job, struct verdict *v)
{
    const struct slice id = v->asks.id;
    if (id.n == 0 || slice_eq(id, job->id) || id.n + 1 + job->id.n > JOB_ID_MAX)
        return;
    job->id = job_keepf(job, "%.*s@%.*s", SLICE_ARG(id), SLICE_ARG(job->id));
    v->unknown = false;
}

void verdict_reach(struct source *src, struct job *job, struct verdict *v)
{
    int bad;
    v->named = v->unknown = false;
    v->err.text[0] = '\0'; /* the rest is written below; the texts are large */
    struct route *found = route_for(src, job, &bad, &v->err);
    v->found = found != NULL;
    v->route = found ? found : route_first(src);
    job->source = job_keep(job, slice_of(src->conf->name));
    judge_job(src, v->route, job, store_now_ms(route_store(v->route)), &v->asks);
    if (v->asks.target_given)
        bad = 0;
    if (found && bad == 0 && found->sink->rules && !queue_name_is_good(job->target))
        bad = err_set(&v->err, "the route %s names no queue for it", found->conf->name);
    v->reason = v->asks.reason;
    v->why = v->asks.why;
    if (bad == 0 && v->reason == NULL && found && found->sink->rules &&
        v->asks.op != DELAY_CANCEL && !queue_has_room(found->sink, job->target)) {
        err_set(&v->err, "the sink %s has as many queues as its names_max allows",
                found->sink->conf->name);
        v->reason = reason_name(REASON_TOO_MANY);
        v->why = v->err.text;
    }
    if (found == NULL || (bad < 0 && v->asks.op != DELAY_CANCEL)) {
        v->reason = reason_name(REASON_NO_ROUTE);
        v->why = v->err.text;
    }
    verdict_name(src, job, v->reason ? (struct slice){NULL, 0} : v->asks.id, v);
    if (v->reason)
        name_refused(job, v);
}
