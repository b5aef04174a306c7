/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check_route.c - whether a route can work: its ends and schedules exist, its
 * templates compile, and no option asks for what its sink or another option rules out.
 */
#include "bridge/job/tmpl.h"
#include "bridge/conf/conf_check_parts.h"
#include "bridge/conf/conf_names.h"
#include "bridge/conf/conf_rows.h"
#include "bridge/plugin.h"

#include <string.h>

/* The key of the route, or the route itself. */
static const struct opt_value *key_of(const struct check *c,
                                      const struct conf_route *route, const char *key)
{
    return conf_check_place(c, "routes", route->name, key);
}

static const struct conf_source *source_named(const struct conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->source_count; i++)
        if (strcmp(conf->sources[i]->name, name) == 0)
            return conf->sources[i];
    return NULL;
}

static const struct conf_sink *sink_named(const struct conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->sink_count; i++)
        if (strcmp(conf->sinks[i]->name, name) == 0)
            return conf->sinks[i];
    return NULL;
}

static void check_from(const struct check *c, const struct conf_route *route)
{
    const struct opt_value *at = key_of(c, route, "from");

    for (size_t i = 0; i < route->from.n; i++) {
        const char *name = route->from.v[i];
        struct conf_names names = {0};
        char hint[CONF_HINT_SIZE];
        for (size_t k = 0; k < i; k++)
            if (strcmp(route->from.v[k], name) == 0)
                conf_error_at(c->errors, at, "routes.%s.from names \"%.60s\" twice",
                              route->name, name);
        if (source_named(c->conf, name) != NULL)
            continue;
        if (strcmp(name, CONF_HTTP_SOURCE) == 0) {
            conf_error_at(
                c->errors, at,
                "routes.%s.from is \"http\", but http.listen and admin.listen are "
                "empty: there is no listener",
                route->name);
            continue;
        }
        for (size_t k = 0; k < c->conf->source_count; k++)
            conf_names_add(&names, c->conf->sources[k]->name);
        conf_error_at(c->errors, at, "routes.%s.from: there is no source \"%.60s\"; %s",
                      route->name, name, conf_names_hint(&names, name, hint));
    }
}

static bool is_queue(const struct conf_sink *sink)
{
    return sink != NULL && sink->ops != NULL && sink->ops->queue != NULL;
}

/* A sink by name, and the template that it may need. */
static void check_sink(const struct check *c, const struct conf_route *route,
                       const char *key, const char *name, const char *topic_key,
                       const char *topic)
{
    const struct opt_value *at = key_of(c, route, key);
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    if (name == NULL)
        return;
    const struct conf_sink *sink = sink_named(c->conf, name);
    if (is_queue(sink) && strcmp(key, "dead") == 0)
        conf_error_at(
            c->errors, at,
            "routes.%s.dead: the sink %s is a queue, which consumers pull from; "
            "name one that delivers",
            route->name, name);
    if (sink != NULL) {
        if (sink->ops != NULL && sink->ops->target == NULL && topic == NULL)
            conf_error_at(
                c->errors, at,
                "routes.%s needs \"%s\": the sink %s (%s) has to be told where to",
                route->name, topic_key, name, sink->ops->name);
        return;
    }
    for (size_t k = 0; k < c->conf->sink_count; k++)
        conf_names_add(&names, c->conf->sinks[k]->name);
    conf_error_at(c->errors, at, "routes.%s.%s: there is no sink \"%.60s\"; %s",
                  route->name, key, name, conf_names_hint(&names, name, hint));
}

static int compiles(const char *text, struct err *err)
{
    struct tmpl *tmpl = tmpl_compile(text, err);
    tmpl_free(tmpl);
    return tmpl != NULL ? 0 : -1;
}

static void check_text(const struct check *c, const struct conf_route *route,
                       const char *key, const char *text,
                       int (*is_good)(const char *, struct err *))
{
    struct err err;

    if (text != NULL && is_good(text, &err) != 0)
        conf_error_at(c->errors, key_of(c, route, key), "routes.%s.%s: %s", route->name,
                      key, err.text);
}

static void check_retry_allow(const struct check *c, const struct conf_route *route)
{
    for (size_t i = 0; i < route->retry_allow.n; i++) {
        const char *name = route->retry_allow.v[i];
        struct conf_names names = {0};
        char hint[CONF_HINT_SIZE];
        if (conf_schedule_named(c->conf, slice_of(name)) != NULL)
            continue;
        for (size_t k = 0; k < c->conf->schedule_count; k++)
            conf_names_add(&names, c->conf->schedules[k].name);
        conf_error_at(c->errors, key_of(c, route, "retry_allow"),
                      "routes.%s.retry_allow: there is no schedule \"%.60s\" in "
                      "retries: { }; %s",
                      route->name, name, conf_names_hint(&names, name, hint));
    }
}

static void check_to_allow(const struct check *c, const struct conf_route *route)
{
    for (size_t i = 0; i < route->to_allow.n; i++) {
        const char *star = strchr(route->to_allow.v[i], '*');
        if (star != NULL && star[1] != '\0')
            conf_error_at(c->errors, key_of(c, route, "to_allow"),
                          "routes.%s.to_allow: \"%.60s\" may have a \"*\" only at its "
                          "end; without one the whole target is compared",
                          route->name, route->to_allow.v[i]);
    }
}

/* An id, not a key, says which bucket a job is in; and jobs of one moment would leave in
 * whatever order they are spread. */
static void check_order(const struct check *c, const struct conf_route *route)
{
    if (route->order != ORDER_KEY)
        return;
    if (route->buckets > 1)
        conf_error_at(c->errors, key_of(c, route, "buckets"),
                      "routes.%s.buckets must be 1 with order = \"key\": order holds "
                      "within a bucket",
                      route->name);
    if (route->spread_ms != 0)
        conf_error_at(c->errors, key_of(c, route, "spread"),
                      "routes.%s.spread must be \"0\" with order = \"key\": what is "
                      "spread has no order",
                      route->name);
}

static void check_bursts(const struct check *c, const struct conf_route *route)
{
    const struct {
        const char *key, *needs;
        int64_t burst;
        double rate;
    } rows[] = {{"burst", "rate", route->burst, route->rate},
                {"target_burst", "target_rate", route->target_burst, route->target_rate}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i].burst > 0 && rows[i].rate <= 0)
            conf_error_at(c->errors, key_of(c, route, rows[i].key),
                          "routes.%s.%s needs \"%s\": without a rate nothing holds jobs "
                          "back",
                          route->name, rows[i].key, rows[i].needs);
}

/* Nothing is handed over from a queue: its consumers take what they want, when they want,
 * and its sink says how often. */
static const struct {
    const char *key, *instead;
} not_of_queues[] = {
    {"dead", "it keeps its dead letters itself"},
    {"retry_allow",
     "consumers say when a job comes back, and tries of the sink how often"},
    {"attempts_max", "tries of the sink says how often a job is handed out"},
    {"spread", "consumers set the pace"},
    {"max_lateness", "ttl of the sink ends what nobody took"},
    {"late", "ttl of the sink ends what nobody took"},
    {"dedupe_window", "an id is known as long as the queue keeps its job"},
    {"order", "the first due is pulled first, whatever its key"},
    {"repeat_min", "a job of a queue does not repeat"},
    {"replays_max", "dead letters of a queue are brought back by its own API"},
    {"rate", "consumers set the pace"},
    {"burst", "consumers set the pace"},
    {"max_in_flight", "each job in flight is some consumer's"},
    {"shared", "consumers set the pace"},
    {"target_rate", "consumers set the pace"},
    {"target_burst", "consumers set the pace"},
    {"target_in_flight", "each job in flight is some consumer's"},
    {"breaker", "there is nothing that could fail"},
    {"breaker_window", "there is nothing that could fail"},
    {"breaker_least", "there is nothing that could fail"},
    {"breaker_rest", "there is nothing that could fail"},
};

static bool is_set(const struct opt *row, const struct conf_route *route,
                   const struct conf_route *plain)
{
    static const size_t sizes[] = {
        [OPT_INT] = sizeof(int64_t), [OPT_MS] = sizeof(int64_t),
        [OPT_REAL] = sizeof(double), [OPT_BOOL] = sizeof(bool),
        [OPT_CHOICE] = sizeof(int),  [OPT_STR] = sizeof(char *)};
    const char *field = (const char *)route + row->offset;

    if (row->type == OPT_LIST)
        return ((const struct opt_list *)(const void *)field)->n > 0;
    return memcmp(field, (const char *)plain + row->offset, sizes[row->type]) != 0;
}

static void check_queue(const struct check *c, const struct conf_route *route)
{
    struct conf_route plain = {0};

    opt_defaults(conf_route_rows, &plain);
    for (size_t i = 0; i < sizeof(not_of_queues) / sizeof(*not_of_queues); i++) {
        const char *key = not_of_queues[i].key;
        if (is_set(opt_find(conf_route_rows, key), route, &plain))
            conf_error_at(c->errors, key_of(c, route, key),
                          "routes.%s.%s: the sink %s is a queue: %s; take it out",
                          route->name, key, route->to, not_of_queues[i].instead);
    }
    opt_free(conf_route_rows, &plain);
}

/* A consumer that pulls from one topic must not get the jobs of another. */
static void check_names(const struct check *c, const struct conf_route *route)
{
    struct err err;
    struct tmpl *topic = route->topic ? tmpl_compile(route->topic, &err) : NULL;

    for (size_t i = 0; topic && i < route->from.n; i++) {
        const struct conf_source *src = source_named(c->conf, route->from.v[i]);
        if (src && src->ops && src->ops->pulls_by_topic &&
            !conf_route_parts_topics(route, topic))
            conf_error_at(
                c->errors, key_of(c, route, "topic"),
                "routes.%s.topic: \"%.60s\" leads different topics of the source "
                "%s to one queue, so consumers of one topic would get the jobs of "
                "another; use {topic}, or a match without a wildcard",
                route->name, route->topic, route->from.v[i]);
    }
    tmpl_free(topic);
}

bool conf_route_parts_topics(const struct conf_route *route, const struct tmpl *target)
{
    unsigned wildcards = route->match ? match_wildcards(route->match) : 0;
    return (route->match && wildcards == 0) ||
           (target && tmpl_tells_topics(target, wildcards));
}

void conf_check_route(const struct check *c, const struct conf_route *route)
{
    char delay[OPT_TEXT_SIZE], most[OPT_TEXT_SIZE];

    check_from(c, route);
    check_sink(c, route, "to", route->to, "topic", route->topic);
    check_sink(c, route, "dead", route->dead, "dead_topic", route->dead_topic);
    check_text(c, route, "match", route->match, match_filter_check);
    check_text(c, route, "topic", route->topic, compiles);
    check_text(c, route, "dead_topic", route->dead_topic, compiles);
    check_retry_allow(c, route);
    check_to_allow(c, route);
    check_order(c, route);
    check_bursts(c, route);
    if (is_queue(sink_named(c->conf, route->to ? route->to : ""))) {
        check_queue(c, route);
        check_names(c, route);
    }
    if (route->dead_topic != NULL && route->dead == NULL)
        conf_error_at(c->errors, key_of(c, route, "dead_topic"),
                      "routes.%s.dead_topic needs \"dead\", the sink for dead letters",
                      route->name);
    if (route->delay_ms > route->max_delay_ms)
        conf_error_at(c->errors, key_of(c, route, "delay"),
                      "routes.%s.delay is %s, more than max_delay, %s", route->name,
                      opt_text_ms(route->delay_ms, delay),
                      opt_text_ms(route->max_delay_ms, most));
}
