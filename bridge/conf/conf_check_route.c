/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check_route.c - checks a route: its sources, sinks and schedules exist, its
 * templates compile, and no option conflicts with its sink or another option.
 */
#include "bridge/job/tmpl.h"
#include "bridge/base/retry.h"
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"

#include <string.h>

static struct conf_place key_of(const struct conf_route *route, const char *key)
{
    return (struct conf_place){"routes", route->name, key};
}

static void check_from(const struct check *c, const struct conf_route *route)
{
    for (size_t i = 0; i < route->from.n; i++) {
        const char *name = route->from.v[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(route->from.v[k], name) == 0)
                conf_check_error(c, key_of(route, "from"), " names \"%.60s\" twice",
                                 name);
        if (strcmp(name, CONF_HTTP_SOURCE) != 0)
            conf_check_named(c, key_of(route, "from"), CONF_SOURCES, name);
        else if (conf_find(c->conf, CONF_SOURCES, slice_of(name)) == NULL)
            conf_check_error(
                c, key_of(route, "from"),
                " is \"http\", but http.listen and admin.listen are empty, so no "
                "HTTP listener exists");
    }
}

static bool is_queue(const struct conf_sink *sink)
{
    return sink != NULL && sink->ops != NULL && sink->ops->queue != NULL;
}

/* Checks what the configuration determines of a target. An invalid template is reported
 * by check_text(). */
static void check_target(const struct check *c, const struct conf_place at,
                         const struct conf_sink *sink, const char *topic)
{
    struct err err;
    struct tmpl *tmpl = tmpl_compile(topic, &err);
    const struct probe_target target = {
        .text = tmpl ? tmpl_prefix(tmpl) : SLICE_LIT(""),
        .whole = tmpl && tmpl_is_constant(tmpl),
    };

    if (target.text.n > 0 && sink->ops->check_target(sink->self, &target, &err) != 0)
        conf_check_error(c, at, ": %s", err.text);
    tmpl_free(tmpl);
}

/* Checks that the sink exists, and the template that it may require. */
static void check_sink(const struct check *c, const struct conf_route *route,
                       const char *key, const char *name, const char *topic_key,
                       const char *topic)
{
    if (name == NULL)
        return;
    const struct conf_sink *sink =
        conf_check_named(c, key_of(route, key), CONF_SINKS, name);
    if (is_queue(sink) && strcmp(key, "dead") == 0)
        conf_check_error(
            c, key_of(route, key),
            ": the sink %s is a queue, which cannot deliver dead letters; name a "
            "sink of another type",
            name);
    if (sink != NULL && sink->ops != NULL && sink->ops->target == NULL && topic == NULL)
        conf_error_at(c->errors, conf_check_place(c, key_of(route, key)),
                      "routes.%s requires \"%s\": the sink %s (%s) has no default target",
                      route->name, topic_key, name, sink->ops->name);
    if (sink != NULL && sink->ops != NULL && sink->ops->check_target && topic)
        check_target(c, key_of(route, topic_key), sink, topic);
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
        conf_check_error(c, key_of(route, key), ": %s", err.text);
}

static void check_to_allow(const struct check *c, const struct conf_route *route)
{
    for (size_t i = 0; i < route->to_allow.n; i++) {
        const char *star = strchr(route->to_allow.v[i], '*');
        if (star != NULL && star[1] != '\0')
            conf_check_error(
                c, key_of(route, "to_allow"),
                ": \"%.60s\" contains a \"*\" that is not at its end; only a "
                "prefix followed by \"*\" matches several targets",
                route->to_allow.v[i]);
    }
}

/* The bucket depends on the id, not on the key, so that several buckets would break the
 * order. spread would change the order of jobs with the same due time. */
static void check_order(const struct check *c, const struct conf_route *route)
{
    if (route->order != ORDER_KEY)
        return;
    if (route->buckets > 1)
        conf_check_error(
            c, key_of(route, "buckets"),
            " must be 1 with order = \"key\", because each bucket has its own order");
    if (route->spread_ms != 0)
        conf_check_error(
            c, key_of(route, "spread"),
            " must be \"0\" with order = \"key\", because spreading changes the order");
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
            conf_check_error(
                c, key_of(route, rows[i].key),
                " requires \"%s\": a burst has no effect without a rate limit",
                rows[i].needs);
}

/* Options that do not apply to queues: tarry delivers nothing from a queue, its consumers
 * pull, and the sink limits the tries. */
static const struct {
    const char *key, *instead;
} not_of_queues[] = {
    {"dead", "a queue stores its own dead letters"},
    {"retry_allow",
     "consumers choose the retry delay, and the sink option tries limits the attempts"},
    {"attempts_max", "the sink option tries limits the attempts"},
    {"spread", "consumers control the rate by pulling"},
    {"max_lateness", "the sink option ttl removes jobs that no consumer pulled"},
    {"late", "the sink option ttl removes jobs that no consumer pulled"},
    {"dedupe_window", "an id is a duplicate while the queue contains its job"},
    {"order", "consumers pull by due time, regardless of the key"},
    {"repeat_min", "jobs in queues cannot repeat"},
    {"replays_max", "the API of the queue replays its dead letters"},
    {"rate", "consumers control the rate by pulling"},
    {"burst", "consumers control the rate by pulling"},
    {"max_in_flight", "each consumer limits its own jobs in flight"},
    {"shared", "consumers control the rate by pulling"},
    {"target_rate", "consumers control the rate by pulling"},
    {"target_burst", "consumers control the rate by pulling"},
    {"target_in_flight", "each consumer limits its own jobs in flight"},
    {"breaker", "tarry makes no deliveries that could fail"},
    {"breaker_window", "tarry makes no deliveries that could fail"},
    {"breaker_least", "tarry makes no deliveries that could fail"},
    {"breaker_rest", "tarry makes no deliveries that could fail"},
};

static void check_queue(const struct check *c, const struct conf_route *route)
{
    struct conf_route plain = {0};

    opt_defaults(conf_route_rows, &plain);
    for (size_t i = 0; i < sizeof(not_of_queues) / sizeof(*not_of_queues); i++) {
        const char *key = not_of_queues[i].key;
        if (!opt_same(opt_find(conf_route_rows, key), route, &plain))
            conf_check_error(c, key_of(route, key),
                             ": the sink %s is a queue: %s; remove the option", route->to,
                             not_of_queues[i].instead);
    }
    opt_free(conf_route_rows, &plain);
}

/* A consumer that pulls from one topic must not receive the jobs of another. */
static void check_names(const struct check *c, const struct conf_route *route)
{
    struct err err;
    struct tmpl *topic = route->topic ? tmpl_compile(route->topic, &err) : NULL;

    for (size_t i = 0; topic && i < route->from.n; i++) {
        const struct conf_source *src =
            conf_find(c->conf, CONF_SOURCES, slice_of(route->from.v[i]));
        if (src && src->ops && src->ops->pulls_by_topic &&
            !conf_route_parts_topics(route, topic))
            conf_check_error(
                c, key_of(route, "topic"),
                ": \"%.60s\" maps several topics of the source %s to one queue, "
                "so consumers of one topic would receive jobs of another; use "
                "{topic}, or a match without a wildcard",
                route->topic, route->from.v[i]);
    }
    tmpl_free(topic);
}

bool conf_route_parts_topics(const struct conf_route *route, const struct tmpl *target)
{
    unsigned wildcards = route->match ? match_wildcards(route->match) : 0;
    return (route->match && wildcards == 0) ||
           (target && tmpl_separates_topics(target, wildcards));
}

/* --- warnings --- */

/* Returns whether the earlier route accepts each message of the source that the later
 * one would accept. */
static bool accepts_all(const struct check *c, const struct conf_source *src,
                        const struct conf_route *earlier, const struct conf_route *later)
{
    bool from = false;
    for (size_t i = 0; i < earlier->from.n; i++)
        from = from || strcmp(earlier->from.v[i], src->name) == 0;
    if (!from || (earlier->match && !later->match))
        return false;
    if (src->ops->queues_apart &&
        is_queue(conf_find(c->conf, CONF_SINKS, slice_of(later->to))) &&
        !is_queue(conf_find(c->conf, CONF_SINKS, slice_of(earlier->to))))
        return false; /* calls of this API skip routes that end elsewhere */
    return earlier->match == NULL || match_covers(earlier->match, later->match);
}

/* A message goes to the first route that accepts it. Over HTTP it names its route. */
static void warn_of_unreachable(const struct check *c, const struct conf_route *route)
{
    for (size_t i = 0; i < route->from.n; i++) {
        const struct conf_source *src =
            conf_find(c->conf, CONF_SOURCES, slice_of(route->from.v[i]));
        if (src == NULL || src->ops == NULL || strcmp(src->name, CONF_HTTP_SOURCE) == 0)
            continue;
        for (size_t k = 0; c->conf->routes[k] != route; k++) {
            const struct conf_route *earlier = c->conf->routes[k];
            if (!accepts_all(c, src, earlier, route))
                continue;
            conf_warn_at(c->errors, conf_check_place(c, key_of(route, NULL)),
                         "routes.%s receives no messages of the source %s: routes.%s, "
                         "which is above it, accepts all of them; move routes.%s up, or "
                         "narrow the match of routes.%s",
                         route->name, src->name, earlier->name, route->name,
                         earlier->name);
            break;
        }
    }
}

/* Returns the longest time that the retries of a job can take; may stop counting above
 * enough_ms. */
static int64_t retries_ms(const struct conf_route *route, int64_t enough_ms)
{
    int64_t sum_ms = 0, wait_ms;
    for (unsigned n = 1; sum_ms <= enough_ms; n++) {
        wait_ms = retry_delay_ms(&route->retry, n, 1);
        if (wait_ms == RETRY_EXHAUSTED)
            return sum_ms;
        sum_ms += wait_ms;
    }
    return sum_ms;
}

static void warn_of_late_retries(const struct check *c, const struct conf_route *route)
{
    char late[OPT_TEXT_SIZE];
    if (route->max_lateness_ms == 0 || route->late == LATE_DELIVER ||
        retries_ms(route, route->max_lateness_ms) <= route->max_lateness_ms)
        return;
    conf_warn_at(
        c->errors, conf_check_place(c, key_of(route, "retry")),
        "routes.%s.retry takes longer than max_lateness (%s), which limits only "
        "the first attempt, so a retry can deliver a job later than that; shorten "
        "the schedule, or set deliver-before in the messages",
        route->name, opt_text_ms(route->max_lateness_ms, late));
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
    for (size_t i = 0; i < route->retry_allow.n; i++)
        conf_check_named(c, key_of(route, "retry_allow"), CONF_RETRIES,
                         route->retry_allow.v[i]);
    check_to_allow(c, route);
    check_order(c, route);
    check_bursts(c, route);
    if (is_queue(conf_find(c->conf, CONF_SINKS, slice_of(route->to)))) {
        check_queue(c, route);
        check_names(c, route);
    }
    if (route->dead_topic != NULL && route->dead == NULL)
        conf_check_error(c, key_of(route, "dead_topic"),
                         " requires \"dead\", the sink for dead letters");
    if (route->delay_ms > route->max_delay_ms)
        conf_check_error(
            c, key_of(route, "delay"), " is %s, which exceeds max_delay (%s)",
            opt_text_ms(route->delay_ms, delay), opt_text_ms(route->max_delay_ms, most));
    warn_of_unreachable(c, route);
    warn_of_late_retries(c, route);
}
