/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * audit.c - one audit: loads the configuration, opens tarry's stores and routes without
 * sources, sinks or claims, and checks each bucket step by step. The loop runs until a
 * step is answered. Pauses between steps leave Redis to the daemons.
 */
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/cli/cli.h"
#include "bridge/engine/core.h"
#include "bridge/engine/meta.h"
#include "bridge/engine/queue_object.h"
#include "bridge/redis/embedded.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

enum { EXIT_FINDINGS = 1, TIMEOUT_MS = 10 * 1000 };
enum {
    STEP_MAX = 30,           /* entries per step: well below 1 ms in Redis */
    STEP_MIN = 5,            /* if jobs are large */
    STEP_BYTES = 128 * 1024, /* approximate size of the jobs read in a step */
    PAUSE_US = 700,          /* after each step; a step takes about half as long */
    CURSOR_MAX = 80,         /* bytes; the longest are those of lua/audit.lua */
};

/* --- the report: a line for each bucket, or one JSON object --- */

struct audit_report {
    const struct cli_args *args;
    struct buf list;   /* printed findings of the current bucket */
    unsigned listed;   /* number of findings in list */
    uint64_t findings; /* of the current bucket, including those not listed */
    int64_t all_jobs;  /* of all buckets so far, like the next two */
    uint64_t buckets, all_findings;
};

enum { LIST_MAX = 100 }; /* findings listed for one bucket; the others are only counted */

/* The meaning of each kind, and what --repair does. */
static const struct row {
    const char *kind, *means, *repaired;
} rows[] = {
    {"no-index", "is stored, but is in no index", "due now"},
    {"twice", "is in several indexes", "kept only in the index that delivers it"},
    {"no-body", "is in an index, but its record is lost", "removed from the index"},
    {"orphan", "data of a job that does not exist", "deleted"},
    {"order", "the order of its key is broken", "order restored"},
    {"sums", "jobs in excess of the sums", "sums reset to the jobs found"},
    {"counts", "index entries in excess of jobs", "fixed by the repairs above"},
    {"?", "found by a newer version", ""},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct row *row_of(struct slice kind)
{
    size_t i = 0;
    while (i + 1 < ROWS && !slice_is(kind, rows[i].kind))
        i++;
    return &rows[i];
}

static void print_begin(struct audit_report *p)
{
    if (p->args->json)
        fputs("{\"buckets\":[", stdout);
    else
        printf("%-32s %10s %10s %10s %10s %10s %10s %9s\n", "bucket", "jobs", "waiting",
               "in flight", "dead", "held", "ended", "findings");
}

static void add_json(struct buf *out, const struct store_audit_item *f, bool first,
                     bool repaired)
{
    buf_add_str(out, first ? "{" : ",{");
    text_add_json_member(out, "kind", f->kind);
    buf_add_str(out, ",");
    text_add_json_id(out, f->id);
    buf_add_str(out, repaired ? ",\"repaired\":true}" : "}");
}

static void add_line(struct buf *out, const struct store_audit_item *f, bool repaired)
{
    const struct row *row = row_of(f->kind);
    buf_addf(out, "  %-8.*s ", SLICE_ARG(f->kind));
    text_add_json(out, f->id); /* ids may contain any bytes */
    buf_addf(out, " %s", row->means);
    if (repaired)
        buf_addf(out, "; %s", row->repaired);
    buf_add_str(out, "\n");
}

static void print_found(struct audit_report *p, const struct store_audit_item *f)
{
    p->findings++;
    if (p->listed == LIST_MAX)
        return;
    if (p->args->json)
        add_json(&p->list, f, p->listed == 0, p->args->repair);
    else
        add_line(&p->list, f, p->args->repair);
    p->listed++;
}

static void print_json(struct audit_report *p, const char *name,
                       const struct store_audit_reply *c)
{
    struct buf quoted = {0};
    text_add_json(&quoted, slice_of(name));
    printf("%s\n{\"name\":%s,\"jobs\":%" PRId64 ",\"waiting\":%" PRId64
           ",\"in_flight\":%" PRId64 ",\"dead\":%" PRId64 ",\"held\":%" PRId64
           ",\"ended\":%" PRId64 ",\"found\":%" PRIu64 ",\"findings\":[%s]}",
           p->buckets > 0 ? "," : "", buf_str(&quoted), c->jobs, c->waiting, c->in_flight,
           c->dead, c->held, c->ended, p->findings, buf_str(&p->list));
    buf_free(&quoted);
}

static void print_lines(struct audit_report *p, const char *name,
                        const struct store_audit_reply *c)
{
    printf("%-32s %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64
           " %10" PRId64 " %9" PRIu64 "\n%s",
           name, c->jobs, c->waiting, c->in_flight, c->dead, c->held, c->ended,
           p->findings, buf_str(&p->list));
    if (p->findings > p->listed)
        printf("  and %" PRIu64 " more\n", p->findings - p->listed);
}

/* Print a finished bucket, and reset the findings for the next. */
static void print_bucket(struct audit_report *p, const char *name,
                         const struct store_audit_reply *c)
{
    if (p->args->json)
        print_json(p, name, c);
    else
        print_lines(p, name, c);
    fflush(stdout); /* so that a pipe shows the progress */
    p->all_jobs += c->jobs;
    p->buckets++;
    p->all_findings += p->findings;
    p->findings = p->listed = 0;
    buf_clear(&p->list);
}

/* why: why the audit is incomplete; NULL: it is complete. */
static void print_end(struct audit_report *p, const char *why)
{
    const char *verdict = p->all_findings == 0 ? "everything is consistent"
                          : p->args->repair    ? "repaired; run the audit again to verify"
                                               : "repair them with --repair";
    if (p->args->json)
        printf("\n],\"jobs\":%" PRId64 ",\"found\":%" PRIu64
               ",\"repaired\":%s,\"complete\":%s}\n",
               p->all_jobs, p->all_findings,
               p->args->repair && p->all_findings ? "true" : "false",
               why ? "false" : "true");
    else if (why == NULL)
        printf("%" PRIu64 " buckets, %" PRId64 " jobs, %" PRIu64 " findings: %s\n",
               p->buckets, p->all_jobs, p->all_findings, verdict);
    if (why)
        fprintf(stderr, "tarry audit: incomplete: %s\n", why);
    buf_free(&p->list);
}

/* --- the audit --- */

/* The parts of a bucket, in the order that lua/audit.lua requires. */
static const char *const parts[] = {"delay", "far",   "unack", "error", "done",
                                    "held",  "place", "lead",  "away",  "tries",
                                    "ended", "ttl",   "pool",  "sums",  NULL};

struct audit {
    const struct cli_args *args;
    struct bridge *bridge;
    struct audit_report report;
    /* The current step: */
    bool answered, good;
    char cursor[CURSOR_MAX + 1];
    unsigned step;                 /* number of entries of the next step */
    struct store_audit_reply last; /* only its numbers are valid */
    struct buf names;              /* of queues, each NUL-terminated */
    char why[200];                 /* why the audit cannot continue; "": it can */
    struct tool tool;
};

/* --- one step --- */

static void note_cursor(struct audit *a, struct slice cursor)
{
    size_t n = cursor.n < CURSOR_MAX ? cursor.n : CURSOR_MAX;
    slice_put(a->cursor, (struct slice){cursor.p, n});
    a->cursor[n] = '\0';
}

/* Read fewer entries if they are large, because the script reads all of them. */
static unsigned next_step(const struct store_audit_reply *reply)
{
    if (reply->bytes <= STEP_BYTES || reply->looked == 0)
        return STEP_MAX;
    int64_t fit = STEP_BYTES / (reply->bytes / reply->looked);
    return fit < STEP_MIN ? STEP_MIN : (unsigned)fit;
}

static void on_step(void *arg, const struct store_audit_reply *reply)
{
    struct audit *a = arg;
    a->answered = true;
    a->good = reply != NULL;
    loop_stop();
    if (reply == NULL)
        return;
    note_cursor(a, reply->cursor);
    a->last = *reply;
    if (reply->bytes > 0)
        a->step = next_step(reply);
    for (unsigned i = 0; i < reply->count; i++)
        print_found(&a->report, &reply->items[i]);
}

/* Run the loop until the reply arrives. Returns whether it was successful. */
static bool wait_answer(struct audit *a)
{
    while (!a->answered)
        loop_run();
    a->answered = false;
    return a->good;
}

/* Pause before the next try, or return -1 after TIMEOUT_MS, with the reason in
 * a->why. */
static int pause_or_fail(struct audit *a, const struct store *st, int64_t begun_ms)
{
    if (loop_mono_ms() - begun_ms < TIMEOUT_MS) {
        usleep(100 * 1000);
        return 0;
    }
    snprintf(a->why, sizeof(a->why), "Redis: %s",
             store_trouble(st)[0] ? store_trouble(st) : "no reply");
    return -1;
}

static int audit_step(struct audit *a, struct store *st, struct bucket *b,
                      const char *part)
{
    int64_t begun_ms = loop_mono_ms();
    for (;;) {
        store_audit(b, slice_of(part), slice_of(a->cursor), a->step, a->args->repair,
                    on_step, a);
        if (wait_answer(a))
            break;
        if (pause_or_fail(a, st, begun_ms) < 0)
            return -1;
    }
    usleep(PAUSE_US);
    return 0;
}

/* --- a bucket, all buckets --- */

static int audit_bucket(struct audit *a, struct store *st, struct bucket *b)
{
    for (const char *const *part = parts; *part; part++) {
        bool reads_jobs = strcmp(*part, "pool") == 0;
        a->step = reads_jobs ? STEP_MIN : STEP_MAX; /* until the size of jobs is known */
        note_cursor(a, slice_of("0"));
        do {
            if (audit_step(a, st, b, *part) < 0)
                return -1;
        } while (strcmp(a->cursor, "0") != 0);
    }
    print_bucket(&a->report, bucket_name(b), &a->last);
    return 0;
}

static int audit_route(struct audit *a, const struct route *route)
{
    EACH_SCHED (route, s)
        if (audit_bucket(a, a->bridge->store, s->bucket) < 0)
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

/* Read the next names of queues that have received a job, from a->cursor on. */
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
    } while (!wait_answer(a) && (code = pause_or_fail(a, sink->store, begun_ms)) == 0);
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
    return a->args->route == NULL || strcmp(a->args->route, route->conf->name) == 0;
}

/* True if a selected route sends to this queue sink. Several routes may. */
static bool ends_at(const struct audit *a, const struct sink *sink)
{
    EACH_ROUTE (a->bridge, route)
        if (route->sink == sink && is_meant(a, route))
            return true;
    return false;
}

static int audit_all(struct audit *a)
{
    struct bridge *bridge = a->bridge;
    EACH_ROUTE (bridge, route)
        if (is_meant(a, route) && audit_route(a, route) < 0)
            return -1;
    EACH_SINK (bridge, sink) {
        bool meant = ends_at(a, sink) || a->args->route == NULL;
        if (sink->rules && meant && audit_sink(a, sink) < 0)
            return -1;
    }
    return 0;
}

/* --- start and end --- */

/* Returns an exit code. */
static int start(struct audit *a, struct err *err)
{
    int code = tool_start(&a->tool, TIMEOUT_MS, err);
    if (code != EX_OK || a->args->route == NULL ||
        route_of_name(a->bridge, slice_of(a->args->route)))
        return code;
    err_set(err, "%s has no route \"%.60s\"", a->args->arg[0], a->args->route);
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
    print_begin(&a->report);
    bool whole = audit_all(a) == 0;
    print_end(&a->report, whole ? NULL : a->why);
    if (!whole)
        return EX_UNAVAILABLE;
    return a->report.all_findings > 0 ? EXIT_FINDINGS : EX_OK;
}

/* If the embedded Redis of a daemon is running, connect to it. Otherwise the audit starts
 * it. */
static void use_running(struct conf_redis *conf)
{
    char *url = strcmp(conf->url, "embedded") == 0 ? embedded_running(conf->dir) : NULL;
    if (url == NULL)
        return;
    free(conf->url);
    conf->url = url;
}

int cli_audit(struct cli_args *o)
{
    struct bridge bridge = {0};
    struct audit a = {
        .args = o, .bridge = &bridge, .tool = {.bridge = &bridge}, .report = {.args = o}};
    bridge.conf = conf_open(o->arg[0]);
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
