/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * past.c - GET /v1/admin/history: what each route did, as this instance has counted it.
 *
 * Once a minute a census counts the pending jobs, and the minute ends. At a stop the
 * history is written to the hash PREFIX:history, one field per route. The next process
 * reads and deletes it. Loop thread.
 */
#include "bridge/admin/admin.h"
#include "bridge/admin/metrics.h"
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/base/version.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    KEEP_MS = 25 * 3600 * 1000, /* of the hash in Redis */
    READS_MAX = 60              /* attempts to read it, one a second */
};
/* Fields of the hash; no route has these names. */
static const char total_field[] = "=total", marks_field[] = "=marks";

struct past {
    struct history *total;
    int64_t step;        /* number of the last minute that has ended */
    bool counting;       /* a census for the end of that minute is open */
    bool saving;         /* the write of past_save() has no answer yet */
    bool reading;        /* a read of past_read() has no answer yet */
    unsigned reads_left; /* if that fails; 0: the hash was read, or was not yet tried */
};

static int64_t now_ms(const struct bridge *bridge)
{
    return store_now_ms(bridge->store);
}

/* ------------------------------------------------------------------------ the steps */

static struct history *history_of(struct route *route)
{
    if (route->history == NULL)
        route->history = history_new(now_ms(route->bridge));
    return route->history;
}

/* For a queue, failures are released jobs and expired leases that this instance saw. */
static struct history_counts counts_of(const struct route *route, int64_t since_ms)
{
    const struct route_stats *s = &route->stats;
    return (struct history_counts){
        .in = s->stored,
        .out = s->delivered,
        .failures = s->retried + s->dead[REASON_RETRIES] + s->dead[REASON_REJECTED],
        .pending = census_knows(route, since_ms) ? route->counts.waiting : -1,
        .lateness = s->lateness};
}

/* A route whose jobs are counted with another route adds nothing. */
static void add_pending(const struct route *route, int64_t pending, int64_t *sum)
{
    if (census_of(route) != route || *sum < 0)
        return;
    *sum = pending < 0 ? -1 : *sum + pending;
}

static void end_step(struct bridge *bridge, enum history_span span, int64_t step,
                     int64_t since_ms)
{
    struct history_counts sum = {0};
    EACH_ROUTE (bridge, route) {
        struct history_counts counts = counts_of(route, since_ms);
        add_pending(route, counts.pending, &sum.pending);
        history_end_step(history_of(route), span, step, &counts, &sum);
    }
    history_put(bridge->past->total, span, step, &sum);
}

static void on_census(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole)
{
    struct past *past = bridge->past;
    int64_t end_ms = (past->step + 1) * history_step_ms(HISTORY_HOUR);
    int64_t day = history_step_at(HISTORY_DAY, end_ms);
    (void)arg, (void)whole; /* what Redis did not report is unknown */
    past->counting = false;
    end_step(bridge, HISTORY_HOUR, past->step, asked_ms);
    if (day != past->total->last[HISTORY_DAY])
        end_step(bridge, HISTORY_DAY, day, asked_ms);
}

static void read_hash(struct bridge *bridge);

/* A clock that was set back by less than a minute changes nothing. */
void past_tick(struct bridge *bridge)
{
    struct past *past = bridge->past;
    int64_t step = history_step_at(HISTORY_HOUR, now_ms(bridge));
    EACH_ROUTE (bridge, route)
        history_of(route); /* a reload may have added it */
    if (past->reads_left > 0 && !past->reading && store_is_up(bridge->store))
        read_hash(bridge);
    if (past->counting || step == past->step || step == past->step - 1)
        return;
    past->step = step;
    past->counting = true;
    census_take(bridge, on_census, NULL);
}

void past_start(struct bridge *bridge)
{
    struct past *past = mem_alloc(sizeof(*past));
    past->total = history_new(now_ms(bridge));
    past->step = past->total->last[HISTORY_HOUR];
    bridge->past = past;
    EACH_ROUTE (bridge, route)
        history_of(route);
}

void past_free(struct past *past)
{
    if (past)
        free(past->total);
    free(past);
}

/* ------------------------------------------------------------ from process to process */

static struct buf key_of(const struct bridge *bridge)
{
    struct buf key = {0};
    buf_addf(&key, "%s:history", store_prefix(bridge->store));
    return key;
}

static void load(struct bridge *bridge, struct slice field, struct slice value)
{
    struct route *route = route_of_name(bridge, field);
    if (route)
        history_load(history_of(route), value);
    else if (slice_is(field, total_field))
        history_load(bridge->past->total, value);
    else if (slice_is(field, marks_field))
        marks_load(&bridge->marks, value);
}

static void on_read(void *arg, const struct redisReply *reply)
{
    struct bridge *bridge = arg;
    struct past *past = bridge->past;
    struct slice error = redis_error_text(reply);
    past->reading = false;
    if (reply == NULL)
        error = SLICE_LIT("Redis did not reply");
    if (error.p && --past->reads_left == 0)
        log_warn("daemon", "the history of the previous process was not read: %.*s",
                 SLICE_ARG(error));
    if (error.p)
        return; /* past_tick() repeats it */
    past->reads_left = 0;
    size_t n = redis_items(reply);
    for (size_t i = 0; i + 1 < n; i += 2)
        load(bridge, redis_text(redis_item(reply, i)),
             redis_text(redis_item(reply, i + 1)));
    if (n > 0) {
        struct buf key = key_of(bridge);
        const struct slice args[] = {SLICE_LIT("DEL"), buf_slice(&key)};
        store_command(bridge->store, args, 2, NULL, NULL);
        buf_free(&key);
    }
}

static void read_hash(struct bridge *bridge)
{
    struct buf key = key_of(bridge);
    const struct slice args[] = {SLICE_LIT("HGETALL"), buf_slice(&key)};
    bridge->past->reading = true;
    store_command(bridge->store, args, 2, on_read, bridge);
    buf_free(&key);
}

void past_read(struct bridge *bridge)
{
    marks_add(&bridge->marks, now_ms(bridge) - (loop_mono_ms() - bridge->started_ms),
              MARK_RESTART, NULL, SLICE_LIT("tarry " TARRY_VERSION " has started"));
    bridge->past->reads_left = READS_MAX;
    read_hash(bridge);
}

static void on_written(void *arg, const struct redisReply *reply)
{
    struct slice error = redis_error_text(reply);
    (void)arg;
    if (reply == NULL)
        error = SLICE_LIT("Redis did not reply");
    if (error.p)
        log_warn("daemon", "the history of the routes was not saved: %.*s",
                 SLICE_ARG(error));
}

static void on_saved(void *arg, const struct redisReply *reply)
{
    struct bridge *bridge = arg;
    (void)reply;
    bridge->past->saving = false;
}

/* Write all fields: names and values follow each other in the text. */
static void write_hash(struct bridge *bridge, const struct slice *fields, unsigned n)
{
    struct buf key = key_of(bridge);
    struct slice *args = mem_alloc((n + 2) * sizeof(*args));
    char keep[24];
    args[0] = SLICE_LIT("HSET");
    args[1] = buf_slice(&key);
    memcpy(args + 2, fields, n * sizeof(*args));
    bridge->past->saving = true;
    store_command(bridge->store, args, n + 2, on_written, NULL);
    snprintf(keep, sizeof(keep), "%d", KEEP_MS);
    const struct slice expire[] = {SLICE_LIT("PEXPIRE"), buf_slice(&key), slice_of(keep)};
    store_command(bridge->store, expire, 3, on_saved, bridge);
    buf_free(&key);
    free(args);
}

void past_save(struct bridge *bridge)
{
    size_t routes = 0;
    if (!bridge->started || !store_is_up(bridge->store))
        return; /* or Redis belongs to another version */
    EACH_ROUTE (bridge, route)
        routes += route->history != NULL;
    struct slice *fields = mem_alloc((2 * routes + 4) * sizeof(*fields));
    struct buf *values = mem_alloc((routes + 2) * sizeof(*values));
    size_t n = 0;
    EACH_ROUTE (bridge, route)
        if (route->history) {
            fields[2 * n] = slice_of(route->conf->name);
            history_save(route->history, &values[n++]);
        }
    fields[2 * n] = slice_of(total_field);
    history_save(bridge->past->total, &values[n++]);
    fields[2 * n] = slice_of(marks_field);
    marks_save(&bridge->marks, &values[n++]);
    for (size_t i = 0; i < n; i++)
        fields[2 * i + 1] = buf_slice(&values[i]);
    write_hash(bridge, fields, (unsigned)(2 * n));
    for (size_t i = 0; i < n; i++)
        buf_free(&values[i]);
    free(values);
    free(fields);
}

bool past_is_saved(const struct bridge *bridge)
{
    return !bridge->past->saving;
}

/* --------------------------------------------------------------------- the endpoint */

struct past_args {
    int64_t span; /* enum history_span */
    struct slice route;
};
static const char *const span_names[] = {"hour", "day", NULL};

static void add_steps(struct buf *out, const struct history *h, enum history_span span,
                      int64_t last)
{
    static const char *const names[HISTORY_FIELDS] = {
        [HISTORY_IN] = "in",
        [HISTORY_OUT] = "out",
        [HISTORY_FAILURES] = "failures",
        [HISTORY_PENDING] = "pending",
        [HISTORY_P50_MS] = "lateness_p50_ms",
        [HISTORY_P99_MS] = "lateness_p99_ms"};
    for (enum history_field f = 0; f < HISTORY_FIELDS; f++) {
        buf_addf(out, "%s\"%s\":[", f > 0 ? "," : "", names[f]);
        for (int64_t step = last - history_steps(span) + 1; step <= last; step++) {
            uint32_t n = h ? history_value(h, span, step, f) : HISTORY_UNKNOWN;
            if (n == HISTORY_UNKNOWN)
                buf_add_str(out, "null");
            else
                text_add_decimal(out, n);
            buf_add_str(out, step < last ? "," : "]");
        }
    }
}

static void add_marks(struct buf *out, const struct bridge *bridge, int64_t from_ms,
                      const struct route *only)
{
    const struct marks *marks = &bridge->marks;
    const char *comma = "";
    buf_add_str(out, ",\"marks\":[");
    for (size_t i = 0; i < marks->n; i++) {
        const struct mark *mark = &marks->list[i];
        if (mark->at_ms < from_ms ||
            (only && mark->route && strcmp(mark->route, only->conf->name) != 0))
            continue;
        buf_addf(out, "%s{\"at_ms\":%" PRId64 ",\"kind\":\"%s\"", comma, mark->at_ms,
                 mark_kind_name(mark->kind));
        text_add_json_member(out, "text", slice_of(mark->text));
        if (mark->route)
            text_add_json_member(out, "route", slice_of(mark->route));
        buf_add_str(out, "}");
        comma = ",";
    }
    buf_add_str(out, "]");
}

static void print(const struct bridge *bridge, enum history_span span,
                  const struct route *only, struct buf *out)
{
    const struct history *total = bridge->past->total;
    int64_t last = total->last[span], step_ms = history_step_ms(span);
    int64_t from_ms = (last - history_steps(span) + 1) * step_ms;
    const char *comma = "";
    buf_addf(out,
             "{\"now_ms\":%" PRId64 ",\"span\":\"%s\",\"step_ms\":%" PRId64
             ",\"from_ms\":%" PRId64 ",\"routes\":[",
             now_ms(bridge), span_names[span], step_ms, from_ms);
    EACH_ROUTE (bridge, route) {
        if (only && route != only)
            continue;
        buf_addf(out, "%s{", comma);
        text_add_json_member(out, "route", slice_of(route->conf->name));
        buf_add_str(out, ",");
        add_steps(out, route->history, span, last);
        buf_add_str(out, "}");
        comma = ",";
    }
    buf_add_str(out, "],\"total\":{");
    add_steps(out, only ? only->history : total, span, last);
    buf_add_str(out, "}");
    add_marks(out, bridge, from_ms, only);
    buf_add_str(out, "}\n");
}

static void history_get(void *arg, struct httpd_req *req)
{
    const struct bridge *bridge = arg;
    const struct past_args *args = httpd_args(req);
    const struct route *only = NULL;
    struct buf out = {0};
    if (args->route.n > 0 && (only = admin_route(bridge, req, args->route)) == NULL)
        return;
    print(bridge, (enum history_span)args->span, only, &out);
    httpd_answer_json(req, 200, &out);
}

#define AT(field) offsetof(struct past_args, field)
static const struct http_param params[] = {
    {"span", HTTP_CHOICE, AT(span), .from = FROM_QUERY, .choices = span_names},
    ADMIN_GIVEN_ROW("route", AT(route)),
    {0}};
#undef AT

const struct httpd_route admin_past_rows[] = {
    {"GET", "/v1/admin/history", history_get, HTTPD_ADMIN,
     HTTP_ARGS(struct past_args, params)},
    {0},
};
