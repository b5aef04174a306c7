/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_conf.c - reads the limits of a route's targets from its configuration, also after
 * a reload.
 */
#include "bridge/job/tmpl.h"
#include "bridge/engine/pace_internal.h"

/* Find the only target of a route whose jobs cannot name another. If the route has no
 * template, it is the sink's default, until a job has a target of its own. */
static void find_only(struct pace *p)
{
    const struct route *route = p->route;
    struct job job = {0};
    struct buf text = {0};
    struct err err;
    p->single = false;
    buf_clear(&p->only);
    buf_clear(&p->only_stop);
    if (route->conf->to_allow.n > 0 ||
        (route->target && !tmpl_is_constant(route->target)))
        return;
    if (route->target == NULL ||
        tmpl_render(route->target, &job, NULL, 0, slice_of(route->conf->name), &text,
                    &err) == 0) {
        buf_add_slice(&p->only, target_name(p, buf_slice(&text)));
        buf_add_slice(&p->only_stop, target_stop_name(p, buf_slice(&text)));
    }
    p->single = p->only.n > 0;
    buf_free(&text);
}

bool pace_has_limits(const struct conf_route *conf)
{
    return conf->target_rate > 0 || conf->target_in_flight > 0 || conf->breaker > 0;
}

void pace_read_conf(struct pace *p)
{
    const struct conf_route *conf = p->route->conf;
    int64_t burst =
        conf->target_burst > 0 ? conf->target_burst : (int64_t)(conf->target_rate / 100);
    p->breaker = (struct breaker_conf){conf->breaker, conf->breaker_window_ms,
                                       conf->breaker_least, conf->breaker_rest_ms};
    p->rate = (struct pace_rate){.per_s = conf->target_rate,
                                 .burst = burst > 0 ? burst : 1,
                                 .shared = conf->shared};
    p->gate = (struct gate_rule){p->rate.per_s, p->rate.burst};
    find_only(p);
}

/* Jobs in flight must find their target again by its name, which the sink determines. */
bool pace_needs_replacement(const struct route *route, const struct conf_route *conf,
                            const struct sink_ops *ops, bool other_sink)
{
    const struct pace *p = route->pace;
    bool limits = pace_has_limits(conf), stops = ops->origin != NULL;
    if (p == NULL)
        return limits || stops;
    return p->limits != limits || p->stops != stops || (limits && stops && other_sink);
}

void pace_change(struct pace *p)
{
    struct target *t;
    if (p == NULL)
        return;
    pace_read_conf(p);
    TAILQ_FOREACH (t, &p->by_use, link)
        if (!TAILQ_EMPTY(&t->waiting))
            target_due(p, t);
    p->wake = true;
}
