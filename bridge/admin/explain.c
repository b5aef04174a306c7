/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/operator.h"
#include "bridge/bridge.h"
#include "bridge/engine/emit.h"
#include "bridge/job/tries.h"
#include "bridge/engine/route.h"
#include "bridge/engine/admit.h"

/* By its name, or the first; NULL: the route has none of that name. */
static struct source *find_source(const struct route *route, struct slice name)
{
    const struct bridge *bridge = route->bridge;
    const struct opt_list *from = &route->conf->from;
    for (size_t i = 0; i < from->n; i++)
        for (size_t k = 0; k < bridge->source_count; k++)
            if (strcmp(bridge->sources[k]->conf->name, from->v[i]) == 0 &&
                (name.p == NULL || slice_is(name, from->v[i])))
                return bridge->sources[k];
    return NULL;
}

static void tell_refused(const struct source *src, const struct admission *v,
                         struct explanation *e)
{
    bool kept = reason_find(v->reason) == REASON_TOO_LONG &&
                v->route->conf->too_long == TOO_LONG_DEAD;
    e->reason = v->reason;
    e->why = v->why.text;
    e->outcome = src->ops->answers && !kept ? "refused" : "dead";
}

/* Into its record and out of it, as through Redis, and over to its sink. */
static void tell_first(const struct admission *v, const struct job *job,
                       struct explanation *e, explain_cb *cb, void *arg)
{
    struct route *route = v->route;
    struct err err;
    struct buf record = {0};
    const struct tries none = {0};
    job_encode(job, &route->names, &record);
    struct job *out = job_decode(job->id, buf_slice(&record), &route->names, &err);
    must(out != NULL);
    if (route_target(route, out, &err) < 0) {
        e->accepted = false;
        e->reason = reason_name(REASON_NO_ROUTE);
        e->why = err.text;
        e->outcome = "dead";
    }
    struct delivery d = {.job = out, .target = out->target, .attempt = 1};
    if (route->sink->rules) { /* a consumer gets the job's own */
        d.headers = out->headers;
        d.header_count = out->header_count;
    } else {
        emit_headers(route, out, &none, e->due_ms, &d);
    }
    e->first = &d;
    cb(arg, e);
    job_free(out);
    buf_free(&record);
}

static void explain(struct source *src, struct job *job, explain_cb *cb, void *arg)
{
    struct admission v;
    admit(src, job, &v);
    struct explanation e = {.reason = "",
                            .why = "",
                            .source = src->conf->name,
                            .route = v.found ? v.route->conf->name : NULL,
                            .named = v.named};
    if (v.reason) {
        tell_refused(src, &v, &e);
        cb(arg, &e);
        return;
    }
    e.accepted = true;
    if (v.op == DELAY_CANCEL) {
        e.outcome = "cancel";
        cb(arg, &e);
        return;
    }
    e.outcome = "stored";
    e.due_ms = job->due_ms + route_spread_ms(v.route, job);
    if (!job->timed)
        admit_strip(src, v.route, job);
    tell_first(&v, job, &e, cb, arg);
}

int source_explain(struct source *asks, struct slice route, struct slice source,
                   struct job *job, explain_cb *cb, void *arg, struct err *err)
{
    const struct route *meant = route_of_name(asks->bridge, route);
    struct source *src = meant ? find_source(meant, source) : NULL;
    if (src && src->ops->read_topic && job->topic.p)
        src->ops->read_topic(job);
    if (src)
        explain(src, job, cb, arg);
    else if (meant)
        err_set(err, "the route %s has no source %.*s", meant->conf->name,
                (int)(source.n < 100 ? source.n : 100), source.p);
    else
        err_set(err, "there is no route %.*s; routes are configured under routes: { }",
                (int)(route.n < 100 ? route.n : 100), route.p);
    job_free(job);
    return src ? 0 : -1;
}
