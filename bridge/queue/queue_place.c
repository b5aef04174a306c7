/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"
#include "bridge/job/tmpl.h"
#include "bridge/job/tries.h"

void queue_turn(struct bridge *bridge)
{
    struct queue *q;
    TAILQ_HEAD(, queue) now = TAILQ_HEAD_INITIALIZER(now);
    if (bridge->pulls_resumed)
        pull_resume_held(bridge);
    bridge->pulls_resumed = false;
    bridge->queues_turn = UINT64_MAX; /* queues listed below belong to the next turn */
    TAILQ_CONCAT(&now, &bridge->queues_due, link);
    while ((q = TAILQ_FIRST(&now))) {
        TAILQ_REMOVE(&now, q, link);
        q->due_listed = false;
        queue_pump(q);
    }
    queue_free_idle(bridge);
    bridge->queues_turn = loop_wakeups();
    if (!TAILQ_EMPTY(&bridge->queues_due))
        timer_set(TAILQ_FIRST(&bridge->queues_due)->timer, 0);
}

void queue_tick(struct bridge *bridge)
{
    EACH_SINK (bridge, sink) {
        if (sink->rules == NULL || sink->store == NULL)
            continue;
        queue_objects_tick(sink);
        queue_sweep_tick(sink);
    }
}

/* --- from a topic to its queue --- */

/* Return the route of a topic. If ops->queues_apart, only routes that end at a queue. */
static struct route *route_of(const struct source *src, struct slice topic,
                              struct slice *captures, unsigned *n)
{
    return route_matching(src, topic.p ? &topic : NULL, src->ops->queues_apart, captures,
                          n);
}

void place_find(struct source *src, struct slice topic, struct slice id,
                struct place *place)
{
    struct slice captures[MATCH_CAPTURES_MAX];
    unsigned n;
    *place = (struct place){QUEUE_NO_ROUTE, NULL, NULL, NULL};
    struct route *route = route_of(src, topic, captures, &n);
    if (route == NULL)
        return;
    place->route = route;
    place->code = QUEUE_OK;
    if (route->sink->rules == NULL) {
        if (id.p)
            place->bucket = route_bucket(route, id)->bucket;
        return;
    }
    if (topic.p == NULL)
        return; /* the caller looks the id up */
    if (!src->ops->queues_apart || !route->topic_is_queue)
        place->queue = route_queue(route, topic, captures, n);
    else if (queue_name_is_good(topic))
        place->queue = queue_of(route->sink, topic);
    if (place->queue)
        place->bucket = place->queue->bucket;
    else
        place->code = QUEUE_NO_ROUTE;
}

int64_t source_now_ms(struct source *src, struct slice topic)
{
    struct slice captures[MATCH_CAPTURES_MAX];
    unsigned n;
    struct route *route = topic.p ? route_of(src, topic, captures, &n) : NULL;
    return store_now_ms(route ? route_store(route) : src->bridge->store);
}

struct slice source_route(struct source *src, struct slice topic, bool *in_queue)
{
    struct slice captures[MATCH_CAPTURES_MAX];
    unsigned n;
    struct route *route = route_of(src, topic, captures, &n);
    if (in_queue)
        *in_queue = route && route->sink->rules;
    return route ? slice_of(route->conf->name) : (struct slice){NULL, 0};
}

/* --- jobs --- */

const char *const queue_end_reasons[] = {[QUEUE_END_NOT] = "",
                                         [QUEUE_END_ACKED] = "acked",
                                         [QUEUE_END_DELETED] = "deleted",
                                         [QUEUE_END_EXPIRED] = "expired",
                                         [QUEUE_END_TRIES] = "retries"};

static enum queue_end end_of(const char *reason)
{
    enum queue_end end = QUEUE_END_TRIES;
    while (end != QUEUE_END_NOT && strcmp(queue_end_reasons[end], reason) != 0)
        end--;
    return end;
}

struct job *queue_read(const struct queue_rules *rules, const struct job_names *names,
                       struct slice id, struct slice record, struct slice text,
                       struct queue_job *out)
{
    struct err err;
    struct tries tries;
    struct job *job = record.n ? job_decode(id, record, names, &err) : NULL;
    tries_parse(text, &tries);
    int64_t limit = job && job->tries_max > 0 ? job->tries_max : rules ? rules->tries : 0;
    out->job = job;
    out->id = id;
    out->attempts = tries.attempts + (out->state == QUEUE_IN_FLIGHT);
    out->end = out->state == QUEUE_ENDED ? end_of(tries.reason) : QUEUE_END_NOT;
    if (limit == 0)
        out->tries_left = QUEUE_NO_LIMIT;
    else
        out->tries_left = out->attempts < limit ? (unsigned)(limit - out->attempts) : 0;
    if (out->expires_ms < 0)
        out->expires_ms = 0;
    return job;
}
