/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * audit.c - one audit from its start to its end: the configuration, tarry's stores and
 * routes without sources, sinks or claims, and then bucket by bucket, step by step. The
 * loop runs until a step is answered; between two there is a pause, so that daemons are
 * not held up.
 */
#include "bridge/cli/audit.h"
#include "bridge/bridge.h"
#include "bridge/cli/cli_parts.h"
#include "bridge/core_tool.h"
#include "bridge/engine/meta_keep.h"
#include "bridge/queue/queue_place.h"
#include "bridge/redis/embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>

enum { EXIT_FINDINGS = 1, PATIENCE_MS = 10 * 1000 };
enum {
    STEP_MAX = 30,           /* entries of a step: well below a ms of Redis' time */
    STEP_MIN = 5,            /* where jobs are large */
    STEP_BYTES = 128 * 1024, /* of jobs read in a step, about */
    PAUSE_US = 700,          /* after each; a step takes about half as long */
    CURSOR_MAX = 80,         /* bytes; longest in lua/lib/far_audit.lua */
};

struct audit {
    const struct audit_order *order;
    struct bridge *bridge;
    struct audit_paper paper;
    /* The step that was asked for: */
    bool answered, good;
    char cursor[CURSOR_MAX + 1];
    unsigned step; /* entries to look at next */
    struct audit_counts counts;
    struct buf names; /* of queues, each ended by a NUL */
    char why[200];    /* it can't go on; "" it can */
    struct tool tool;
};

static void pause_us(int64_t us)
{
    const struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* --- one step --- */

static void note_cursor(struct audit *a, struct slice cursor)
{
    size_t n = cursor.n < CURSOR_MAX ? cursor.n : CURSOR_MAX;
    slice_put(a->cursor, (struct slice){cursor.p, n});
    a->cursor[n] = '\0';
}

/* Fewer of large ones: the script reads them all. */
static unsigned next_step(const struct audit_reply *reply)
{
    if (reply->bytes <= STEP_BYTES || reply->looked == 0)
        return STEP_MAX;
    int64_t fit = STEP_BYTES / (reply->bytes / reply->looked);
    return fit < STEP_MIN ? STEP_MIN : (unsigned)fit;
}

static void on_step(void *arg, const struct audit_reply *reply)
{
    struct audit *a = arg;
    a->answered = true;
    a->good = reply != NULL;
    loop_stop();
    if (reply == NULL)
        return;
    note_cursor(a, reply->cursor);
    if (reply->counts)
        a->counts = *reply->counts;
    if (reply->bytes > 0)
        a->step = next_step(reply);
    for (unsigned i = 0; i < reply->count; i++)
        audit_print_found(&a->paper, &reply->findings[i]);
}

/* Runs the loop until what was asked for is answered. Says whether it was well. */
static bool wait_answer(struct audit *a)
{
    while (!a->answered)
        loop_run();
    a->answered = false;
    return a->good;
}

/* -1: Redis does not answer; a->why says so. */
static int give_up_after(struct audit *a, const struct store *st, int64_t begun_ms)
{
    if (loop_mono_ms() - begun_ms < PATIENCE_MS) {
        pause_us(INT64_C(100) * 1000);
        return 0;
    }
    snprintf(a->why, sizeof(a->why), "Redis: %s",
             store_trouble(st)[0] ? store_trouble(st) : "it does not answer");
    return -1;
}

static int look(struct audit *a, struct store *st, struct bucket *b, enum audit_part part)
{
    int64_t begun_ms = loop_mono_ms();
    for (;;) {
        store_audit(b, part, slice_of(a->cursor), a->step, a->order->repair, on_step, a);
        if (wait_answer(a))
            break;
        if (give_up_after(a, st, begun_ms) < 0)
            return -1;
    }
    pause_us(PAUSE_US);
    return 0;
}

/* --- a bucket, all buckets --- */

static int audit_bucket(struct audit *a, struct store *st, struct bucket *b)
{
    for (int part = 0; part < AUDIT_PARTS; part++) {
        a->step =
            part == AUDIT_POOL ? STEP_MIN : STEP_MAX; /* until their size is known */
        note_cursor(a, slice_of("0"));
        do {
            if (look(a, st, b, (enum audit_part)part) < 0)
                return -1;
        } while (strcmp(a->cursor, "0") != 0);
    }
    audit_print_bucket(&a->paper, bucket_name(b), &a->counts);
    return 0;
}

static int audit_route(struct audit *a, const struct route *route)
{
    for (int64_t i = 0; i < route->bucket_count; i++)
        if (audit_bucket(a, a->bridge->store, route->scheds[i]->bucket) < 0)
            return -1;
    return 0;
}

static void on_names(void *arg, const struct redisReply *reply)
{
    struct audit *a = arg;
    const struct redisReply *list = redis_item(reply, 1);
    a->answered = true;
    a->good = reply != NULL;
    loop_stop();
    if (redis_items(reply) != 2)
        return;
    note_cursor(a, redis_text(redis_item(reply, 0)));
    for (size_t i = 0; i + 1 < redis_items(list); i += 2) {
        struct slice name = redis_text(redis_item(list, i));
        if (queue_name_is_good(name)) {
            buf_add_slice(&a->names, name);
            buf_add(&a->names, "", 1);
        }
    }
}

/* The queues of a sink that a job has come to, from a->cursor on. */
static int ask_names(struct audit *a, struct sink *sink)
{
    int64_t begun_ms = loop_mono_ms();
    struct buf key = {0};
    char cursor[CURSOR_MAX + 1];
    snprintf(cursor, sizeof(cursor), "%s", a->cursor);
    queue_sink_key(sink, "queues", &key);
    const struct slice args[] = {SLICE_LIT("ZSCAN"), buf_slice(&key), slice_of(cursor),
                                 SLICE_LIT("COUNT"), SLICE_LIT("500")};
    int code = 0;
    buf_clear(&a->names);
    do {
        store_command(sink->store, args, 5, on_names, a);
    } while (!wait_answer(a) && (code = give_up_after(a, sink->store, begun_ms)) == 0);
    buf_free(&key);
    return code;
}

static int audit_sink(struct audit *a, struct sink *sink)
{
    char cursor[CURSOR_MAX + 1] = "0";
    do {
        note_cursor(a, slice_of(cursor));
        if (ask_names(a, sink) < 0)
            return -1;
        snprintf(cursor, sizeof(cursor), "%s", a->cursor);
        const char *end = a->names.p + a->names.n;
        for (const char *name = a->names.p; name < end; name += strlen(name) + 1) {
            struct queue *q = queue_borrow(sink, slice_of(name));
            if (audit_bucket(a, sink->store, q->bucket) < 0)
                return -1;
        }
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

static bool is_meant(const struct audit *a, const struct route *route)
{
    return a->order->route == NULL || strcmp(a->order->route, route->conf->name) == 0;
}

/* Several routes may end at one queue sink. */
static bool ends_at(const struct audit *a, const struct sink *sink)
{
    for (size_t i = 0; i < a->bridge->route_count; i++)
        if (a->bridge->routes[i]->sink == sink && is_meant(a, a->bridge->routes[i]))
            return true;
    return false;
}

static int audit_all(struct audit *a)
{
    struct bridge *bridge = a->bridge;
    for (size_t i = 0; i < bridge->route_count; i++)
        if (is_meant(a, bridge->routes[i]) && audit_route(a, bridge->routes[i]) < 0)
            return -1;
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct sink *sink = bridge->sinks[i];
        bool meant = ends_at(a, sink) || a->order->route == NULL;
        if (sink->rules && meant && audit_sink(a, sink) < 0)
            return -1;
    }
    return 0;
}

/* --- start and end --- */

static bool has_route(const struct bridge *bridge, const char *name)
{
    for (size_t i = 0; i < bridge->route_count; i++)
        if (strcmp(bridge->routes[i]->conf->name, name) == 0)
            return true;
    return false;
}

/* Gives an exit code. */
static int start(struct audit *a, struct err *err)
{
    int code = tool_start(&a->tool, PATIENCE_MS, err);
    if (code != EX_OK || a->order->route == NULL || has_route(a->bridge, a->order->route))
        return code;
    err_set(err, "%s has no route \"%.60s\"", a->order->conf_file, a->order->route);
    return EX_USAGE;
}

static int run(struct audit *a)
{
    struct err err = {""};
    int code = start(a, &err);
    if (code != EX_OK) {
        fprintf(stderr, "tarry audit: %s\n", err.text);
        return code;
    }
    audit_print_begin(&a->paper);
    bool whole = audit_all(a) == 0;
    audit_print_end(&a->paper, whole ? NULL : a->why);
    if (!whole)
        return EX_UNAVAILABLE;
    return a->paper.sums.findings > 0 ? EXIT_FINDINGS : EX_OK;
}

/* A daemon's own Redis: while that runs it is asked; else it is started for the audit. */
static void use_running(struct conf_redis *conf)
{
    char *url = strcmp(conf->url, "embedded") == 0 ? embedded_running(conf->dir) : NULL;
    if (url == NULL)
        return;
    free(conf->url);
    conf->url = url;
}

static int audit(const struct audit_order *order)
{
    struct bridge bridge = {0};
    struct audit a = {.order = order,
                      .bridge = &bridge,
                      .tool = {.bridge = &bridge},
                      .paper = {.order = order}};
    bridge.conf = conf_open(order->conf_file);
    if (bridge.conf == NULL)
        return EX_CONFIG;
    use_running(&bridge.conf->redis);
    log_set_level(LOG_WARN);
    loop_init();
    int code = run(&a);
    tool_end(&a.tool);
    buf_free(&a.names);
    conf_free(bridge.conf);
    loop_fini();
    return code;
}

/* --- the command --- */

int audit_main(struct cli_order *o)
{
    return audit(&(struct audit_order){.conf_file = o->place[0],
                                       .route = o->route,
                                       .json = o->json,
                                       .repair = o->repair});
}
