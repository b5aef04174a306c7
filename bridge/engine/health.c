/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * health.c - the checks of a route's health, the worst first; see health.h.
 */
#include "bridge/engine/health.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/meta.h"
#include "bridge/engine/pace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MINUTE_MS = 60 * 1000,
    MINUTE_LEAST = 5,      /* attempts: from this number on the last minute decides */
    FAILED_LEAST = 3,      /* failures, unless all attempts have failed */
    FAILED_PART = 4,       /* failing: one of 4 attempts failed */
    BEHIND_MS = 10 * 1000, /* overdue by this: behind */
    QUEUE_BEHIND_MS = 60 * 1000, /* the same of a queue, whose consumers may poll */
    SWEEP_OLD_MS = 60 * 1000,    /* older sums of a queue sink do not count */
    SILENT_MS = 2000,            /* Redis: a shorter silence holds no route */
    TARGET_MAX = 45,             /* bytes of a target in a cause */
    FAILED_MAX = 200,            /* bytes of the error or the target of a failure */
    DAY_MS = 24 * 3600 * 1000
};

/* --- attempts --- */

static const struct breaker_conf window = {.window_ms = HEALTH_WINDOW_MS},
                                 minute = {.window_ms = MINUTE_MS};

void attempts_add(struct attempts *a, bool failed, int64_t now_ms)
{
    breaker_outcome(&a->window, &window, failed, now_ms);
    breaker_outcome(&a->minute, &minute, failed, now_ms);
}

struct breaker_slice attempts_sum(const struct attempts *a, int64_t now_ms)
{
    return breaker_sum(&a->window, &window, now_ms);
}

bool attempts_fail(const struct attempts *a, int64_t now_ms, struct breaker_slice *span,
                   bool *in_minute)
{
    *span = breaker_sum(&a->minute, &minute, now_ms);
    *in_minute = span->all >= MINUTE_LEAST;
    if (!*in_minute)
        *span = attempts_sum(a, now_ms);
    return span->failed > 0 && (span->failed == span->all ||
                                (span->failed >= FAILED_LEAST &&
                                 (uint64_t)span->failed * FAILED_PART >= span->all));
}

/* Copy text, without a character that is cut off. */
static void copy(char *to, size_t room, struct slice text)
{
    size_t n = text.n < room ? text.n : room - 1;
    while (n > 0 && n < text.n && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    slice_put(to, (struct slice){text.p, n});
    to[n] = '\0';
}

/* Redacts before it cuts: half of a secret would not be found. */
static void add_shown(struct buf *out, struct slice text)
{
    size_t size = 4 * text.n + 1; /* "***" may replace a single character */
    char *whole = mem_strndup(text.p, text.n), *redacted = mem_alloc(size);
    char shown[FAILED_MAX];
    copy(shown, sizeof(shown), slice_of(redact_text(redacted, size, whole)));
    buf_add_str(out, shown);
    free(redacted);
    free(whole);
}

void attempts_add_error(const struct attempts *a, struct buf *out)
{
    add_shown(out, buf_slice(&a->error));
}

void attempts_add_target(const struct attempts *a, struct buf *out)
{
    add_shown(out, buf_slice(&a->target));
}

void attempts_free(struct attempts *a)
{
    buf_free(&a->error);
    buf_free(&a->target);
}

void health_note(struct route *route, const struct delivery *d, enum outcome outcome,
                 const char *why, int64_t now_ms)
{
    struct attempts *a = &route->attempts;
    if (outcome != TRY_AGAIN || !d->stops_target)
        attempts_add(a, outcome != DELIVERED, now_ms);
    if (outcome == DELIVERED)
        return;
    a->failed_ms = store_now_ms(route->bridge->store);
    a->status = d->status;
    buf_clear(&a->error);
    buf_add_str(&a->error, why ? why : "");
    buf_clear(&a->target);
    buf_add_slice(&a->target,
                  route->pace ? pace_target_name(route->pace, d->target) : d->target);
}

/* --- parts of a sentence --- */

/* The date is omitted within a day. */
static void add_time(struct buf *out, int64_t ms, int64_t now_ms)
{
    char text[WHEN_TEXT_BYTES];
    when_format_rfc3339(ms, text);
    if (now_ms - ms < DAY_MS)
        buf_addf(out, "%.8sZ", text + sizeof("2026-01-31T") - 1);
    else
        buf_addf(out, "%.19sZ", text);
}

static void add_span(struct buf *out, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{DAY_MS, "days"}, {3600 * 1000, "hours"}, {MINUTE_MS, "minutes"}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (ms >= 2 * units[i].ms) {
            buf_addf(out, "%" PRId64 " %s", ms / units[i].ms, units[i].unit);
            return;
        }
    buf_addf(out, "%" PRId64 " s", ms / 1000);
}

static void add_count(struct buf *out, uint64_t n)
{
    if (n >= 1000) {
        add_count(out, n / 1000);
        buf_addf(out, ",%03u", (unsigned)(n % 1000));
    } else {
        buf_addf(out, "%u", (unsigned)n);
    }
}

/* Add the name of a target. Returns whether it is complete. */
static bool add_target(struct buf *out, struct slice name)
{
    char text[TARGET_MAX + 1];
    copy(text, sizeof(text), name);
    bool whole = strlen(text) == name.n;
    buf_addf(out, "%s%s", text, whole ? "" : "...");
    return whole;
}

static void add_last_failure(struct buf *out, const struct route *route)
{
    const struct attempts *a = &route->attempts;
    if (a->failed_ms == 0)
        return;
    buf_add_str(out, "; last at ");
    add_time(out, a->failed_ms, store_now_ms(route->bridge->store));
    buf_add_str(out, ": ");
    if (a->error.n > 0)
        attempts_add_error(a, out);
    else
        buf_add_str(out, "no reason given");
}

/* --- the checks: each returns whether it applies, and then adds the cause --- */

struct look { /* at one route */
    const struct route *route;
    struct pace_trouble trouble; /* of its targets */
};

static bool redis_holds(const struct store *store, struct buf *cause)
{
    bool silent = store_silent_ms(store) >= SILENT_MS, ready = store_is_ready(store);
    if (!silent && ready && store_accepts_jobs(store))
        return false;
    if (!silent)
        buf_add_str(cause,
                    ready ? "Redis accepts no new jobs: " : "Redis is not usable: ");
    size_t n = cause->n;
    store_add_trouble(store, cause);
    if (cause->n == n)
        buf_add_str(cause, "tarry connects to it");
    return true;
}

static bool is_held(const struct look *look, struct buf *cause)
{
    const struct route *route = look->route;
    const struct bridge *bridge = route->bridge;
    const struct store *queues = route->sink->rules ? route->sink->store : bridge->store;
    int64_t stalled = health_stalled(route);
    if (redis_holds(bridge->store, cause) ||
        (queues != bridge->store && redis_holds(queues, cause)))
        return true;
    if (route->refused)
        buf_addf(cause, "%s", route->refused);
    else if (!meta_is_ready(bridge->meta) || !route_is_open(route) ||
             route->state == ROUTE_UNKNOWN)
        buf_add_str(cause, "its state is not yet read from Redis");
    else if (stalled > 0)
        buf_addf(cause,
                 "due jobs are stalled in %" PRId64 " of %" PRId64
                 " buckets; the log names the reason",
                 stalled, route->bucket_count);
    else
        return false;
    return true;
}

static void add_stop(const struct route *route, const struct pace_target *t,
                     struct buf *cause)
{
    const struct attempts *a = &route->attempts;
    buf_add_str(cause, "target ");
    bool whole = add_target(cause, t->name);
    buf_add_str(cause, " is stopped");
    if (t->stopped_ms > 0) {
        buf_add_str(cause, " since ");
        add_time(cause, t->stopped_ms, store_now_ms(route->bridge->store));
    }
    if (slice_eq(t->name, buf_slice(&a->target))) {
        buf_add_str(cause, " (");
        attempts_add_error(a, cause);
        buf_add_str(cause, ")");
    }
    if (whole)
        buf_addf(cause, "; resume it with: tarry go-on %s %.*s", route->conf->name,
                 SLICE_ARG(t->name));
    else
        buf_addf(cause, "; see: tarry targets %s", route->conf->name);
}

static bool only_target_is_stopped(const struct look *look, struct buf *cause)
{
    const struct pace_trouble *t = &look->trouble;
    if (!t->only || t->stopped == 0)
        return false;
    add_stop(look->route, &t->first_stopped, cause);
    return true;
}

static bool is_paused(const struct look *look, struct buf *cause)
{
    const struct route *route = look->route;
    if (route->state != ROUTE_PAUSED)
        return false;
    buf_addf(cause, "an operator paused the route; resume it with: tarry resume %s",
             route->conf->name);
    return true;
}

static void add_rest(const struct pace_target *t, struct buf *cause)
{
    buf_add_str(cause, "the circuit breaker of ");
    add_target(cause, t->name);
    buf_add_str(cause, " is open");
    if (t->wait_ms > 0) {
        buf_add_str(cause, " for ");
        add_span(cause, t->wait_ms + 999);
    }
}

static bool only_target_rests(const struct look *look, struct buf *cause)
{
    const struct pace_trouble *t = &look->trouble;
    if (!t->only || t->resting == 0)
        return false;
    add_rest(&t->first_resting, cause);
    add_last_failure(cause, look->route);
    return true;
}

static bool is_failing(const struct look *look, struct buf *cause)
{
    struct breaker_slice span;
    bool in_minute;
    if (!attempts_fail(&look->route->attempts, loop_mono_ms(), &span, &in_minute))
        return false;
    buf_addf(cause, "%u %% of ", (unsigned)((uint64_t)span.failed * 100 / span.all));
    add_count(cause, span.all);
    buf_addf(cause, " attempts in the last %s failed",
             in_minute ? "minute" : "5 minutes");
    add_last_failure(cause, look->route);
    return true;
}

static bool some_targets_are_stopped(const struct look *look, struct buf *cause)
{
    const struct pace_trouble *t = &look->trouble;
    if (t->stopped == 0)
        return false;
    if (t->stopped > 1)
        buf_addf(cause, "%u targets are stopped; ", t->stopped);
    add_stop(look->route, &t->first_stopped, cause);
    return true;
}

static bool some_targets_rest(const struct look *look, struct buf *cause)
{
    const struct pace_trouble *t = &look->trouble;
    if (t->resting == 0)
        return false;
    if (t->resting > 1)
        buf_addf(cause, "%u circuit breakers are open; ", t->resting);
    add_rest(&t->first_resting, cause);
    return true;
}

/* The sum of a queue sink is from its last sweep. */
static int64_t queue_overdue_ms(const struct sink *sink)
{
    bool known = sink->sum_ms > 0 && loop_mono_ms() - sink->sum_ms < SWEEP_OLD_MS;
    return known && sink->sum.head_ms >= 0 ? sink->sum.now_ms - sink->sum.head_ms : 0;
}

static int64_t overdue_ms(const struct route *route)
{
    int64_t oldest_ms = 0, now_ms = store_now_ms(route->bridge->store);
    EACH_SCHED (route, s)
        if (s->head_ms >= 0 && now_ms - s->head_ms > oldest_ms)
            oldest_ms = now_ms - s->head_ms;
    return oldest_ms;
}

static bool is_behind(const struct look *look, struct buf *cause)
{
    const struct route *route = look->route;
    const struct sink *sink = route->sink;
    bool queue = sink->rules != NULL;
    int64_t late_ms = queue ? queue_overdue_ms(sink) : overdue_ms(route);
    if (late_ms < (queue ? QUEUE_BEHIND_MS : BEHIND_MS))
        return false;
    buf_addf(cause, "the oldest %s job has waited for ", queue ? "ready" : "due");
    add_span(cause, late_ms);
    if (queue)
        buf_add_str(cause, "; do its consumers run?");
    else if (sink->in_flight >= sink->max_in_flight)
        buf_addf(cause, "; all %u deliveries of the sink %s are in flight",
                 sink->max_in_flight, sink->conf->name);
    else if (route->rate.per_s > 0)
        buf_addf(cause, "; its rate is %g per second", route->rate.per_s);
    return true;
}

static bool is_draining(const struct look *look, struct buf *cause)
{
    if (look->route->state != ROUTE_DRAINING)
        return false;
    buf_addf(cause,
             "an operator drains the route: it rejects new jobs; end that with: tarry "
             "resume %s",
             look->route->conf->name);
    return true;
}

/* The worst first: the first that applies decides. */
static const struct {
    enum health health;
    bool (*applies)(const struct look *look, struct buf *cause);
} checks[] = {
    {HEALTH_HELD, is_held},
    {HEALTH_STOPPED, only_target_is_stopped},
    {HEALTH_PAUSED, is_paused},
    {HEALTH_RESTING, only_target_rests},
    {HEALTH_FAILING, is_failing},
    {HEALTH_STOPPED, some_targets_are_stopped},
    {HEALTH_RESTING, some_targets_rest},
    {HEALTH_BEHIND, is_behind},
    {HEALTH_DRAINING, is_draining},
};

enum health health_of(const struct route *route, struct buf *cause)
{
    struct look look = {.route = route};
    if (route->pace)
        pace_find_trouble(route->pace, &look.trouble);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (checks[i].applies(&look, cause))
            return checks[i].health;
    return HEALTH_HEALTHY;
}

/* --- for others --- */

static const char *const names[] = {
    [HEALTH_HELD] = "held",         [HEALTH_STOPPED] = "stopped",
    [HEALTH_PAUSED] = "paused",     [HEALTH_RESTING] = "resting",
    [HEALTH_FAILING] = "failing",   [HEALTH_BEHIND] = "behind",
    [HEALTH_DRAINING] = "draining", [HEALTH_HEALTHY] = "healthy"};

const char *health_name(enum health health)
{
    return names[health];
}

bool health_blocks(const struct route *route, struct slice target, struct buf *cause)
{
    const struct look look = {.route = route};
    struct pace_target found;
    if (is_held(&look, cause) || is_paused(&look, cause))
        return true;
    if (route->pace == NULL || !pace_blocks(route->pace, target, &found))
        return false;
    if (strcmp(found.state, "stopped") == 0)
        add_stop(route, &found, cause);
    else
        add_rest(&found, cause);
    return true;
}

int64_t health_stalled(const struct route *route)
{
    int64_t n = 0;
    EACH_SCHED (route, s)
        n += s->stalled_us > 0;
    return n;
}

unsigned health_count(const struct bridge *bridge)
{
    struct buf cause = {0};
    unsigned n = 0;
    EACH_ROUTE (bridge, route) {
        buf_clear(&cause);
        n += health_of(route, &cause) != HEALTH_HEALTHY;
    }
    buf_free(&cause);
    return n;
}

void health_print(const struct bridge *bridge, struct buf *out)
{
    struct buf cause = {0};
    metric_head(out, "tarry_route_health", "gauge",
                "1 for the present health of the route; no line for the others.");
    EACH_ROUTE (bridge, route) {
        buf_clear(&cause);
        metric_number(out, "tarry_route_health",
                      LABELS({"route", route->conf->name},
                             {"health", names[health_of(route, &cause)]}),
                      1);
    }
    buf_free(&cause);
}
