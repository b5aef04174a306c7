/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_change.c - changes of one job or many: cancel, move, run now, replay, drop, purge.
 *
 * Changes of many jobs are counted first, and the operator confirms the number. The
 * daemon keeps no state of them: an interrupted command prints the cursor of its next
 * page.
 */
#include "bridge/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { RATE_DEFAULT = 20000 /* jobs per second: a third of the time of Redis */ };

/* A kind of change. */
struct change_kind {
    const char *verb, *did;   /* "cancel", "cancelled" */
    const char *what;         /* "jobs" */
    const char *method, *one; /* the request for a single item */
    const char *in_flight;    /* what happens to jobs in flight; NULL: there are none */
};

static const struct change_kind cancel = {"cancel",
                                          "cancelled",
                                          "jobs",
                                          "DELETE",
                                          "/v1/routes/{}/jobs/{}",
                                          "are in flight: tarry does not retry them"},
                                move = {"move",
                                        "moved",
                                        "jobs",
                                        "POST",
                                        "/v1/admin/routes/{}/jobs/{}/move",
                                        "are in flight and stay"},
                                now = {"run now",
                                       "made due",
                                       "jobs",
                                       "POST",
                                       "/v1/admin/routes/{}/jobs/{}/now",
                                       "are in flight already"},
                                replay = {"replay",
                                          "replayed",
                                          "dead letters",
                                          "POST",
                                          "/v1/routes/{}/dead/{}/replay",
                                          NULL},
                                drop = {"delete",
                                        "dropped",
                                        "dead letters",
                                        "DELETE",
                                        "/v1/routes/{}/dead/{}",
                                        NULL};

/* ------------------------------------------------------------------------- questions */

static bool has_filter(const struct cli_args *o)
{
    return o->all || o->reason || o->from || o->to || o->id_prefix || o->target ||
           o->state || o->max || o->cursor;
}

static bool is_bulk(const struct cli_args *o)
{
    return (o->command->sets & CLI_BULK) != 0;
}

static int require_filter(const struct cli_args *o, const struct change_kind *kind)
{
    fprintf(
        stderr,
        "tarry: choose %s: pass an ID, or %s--from, --to, --id-prefix or --max; --all "
        "selects all\n",
        kind->what, is_bulk(o) ? "--target, --state, " : "--reason, ");
    return EX_USAGE;
}

/* Returns whether the operator typed yes. */
static bool is_confirmed(const struct change_kind *kind, const struct ctl_walk *counted)
{
    char line[16];
    const struct cli_args *o = counted->o;
    const char *queue = o->queue ? o->queue : o->arg_count > 1 ? o->arg[1] : NULL;
    fprintf(stderr, "%s %" PRId64 " %s of %s%s%s?", kind->verb, counted->done, kind->what,
            o->arg[0], queue ? ", queue " : "", queue ? queue : "");
    if (kind->in_flight && counted->in_flight > 0)
        fprintf(stderr, " %" PRId64 " more %s.", counted->in_flight, kind->in_flight);
    fprintf(stderr, " [y/N] ");
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* Counts the items, then asks. Returns an exit code; *total: the count, 0 if it was not
 * needed; *go: the change may start. */
static int count_and_ask(struct cli_args *o, const struct change_kind *kind,
                         int64_t *total, bool *go)
{
    struct ctl_walk counted = {.o = o, .did = kind->did, .left = o->max ? o->max : -1};
    bool json = o->json;
    *go = o->yes || o->dry_run || o->cursor || (!is_bulk(o) && !isatty(STDIN_FILENO));
    if (*go)
        return EX_OK;
    if (!isatty(STDIN_FILENO)) {
        fprintf(stderr,
                "tarry: standard input is not a terminal; pass --yes to %s without a "
                "question, or --dry-run to count\n",
                kind->verb);
        return EX_USAGE;
    }
    o->dry_run = true;
    o->json = false; /* do not print the items twice */
    int code = ctl_walk(&counted);
    o->dry_run = false;
    o->json = json;
    if (code != EX_OK)
        return code;
    if (o->max > 0 && counted.done > o->max)
        counted.done = o->max;
    *total = counted.done;
    *go = counted.done + counted.in_flight > 0 ? is_confirmed(kind, &counted) : true;
    if (!*go)
        fprintf(stderr, "tarry: nothing was changed\n");
    return EX_OK;
}

/* ---------------------------------------------------------------------------- changes */

/* In JSON it is the last line, after those of the items. */
static void print_sum(const struct ctl_walk *w, const struct change_kind *kind)
{
    const struct cli_args *o = w->o;
    struct buf text = {0};
    if (o->human) {
        ctl_walk_sum(w, &text);
    } else {
        buf_addf(&text, "{\"%s\":%" PRId64, is_bulk(o) ? "done" : kind->did, w->done);
        if (is_bulk(o))
            buf_addf(&text, ",\"in_flight\":%" PRId64 ",\"skipped\":%" PRId64,
                     w->in_flight, w->skipped);
        else
            buf_addf(&text, ",\"refused\":%" PRId64, w->refused);
        buf_addf(&text, ",\"looked\":%" PRId64 ",\"dry_run\":%s}", w->looked,
                 o->dry_run ? "true" : "false");
    }
    puts(buf_str(&text));
    buf_free(&text);
}

static int change_many(struct cli_args *o, const struct change_kind *kind)
{
    struct ctl_walk w = {.o = o, .did = kind->did, .left = o->max ? o->max : -1};
    char *end = NULL;
    bool go;
    if (is_bulk(o)) /* the daemon applies that of a replay */
        w.rate = o->rate ? strtod(o->rate, &end) : RATE_DEFAULT;
    if (end && (*end != '\0' || !(w.rate >= 0.001 && w.rate <= 1e6)))
        return cli_usage_error(o, "--rate must be a number from 0.001 to 1000000, not ",
                               o->rate);
    int code = count_and_ask(o, kind, &w.total, &go);
    if (code != EX_OK || !go)
        return code == EX_OK ? CLI_GONE : code;
    code = ctl_walk(&w);
    w.total = 0;
    print_sum(&w, kind);
    return code;
}

/* Filters and --rate apply only to many items. */
static int change_one(struct cli_args *o, const struct change_kind *kind)
{
    struct cli_command one = *o->command;
    if (has_filter(o) || o->rate || o->dry_run) {
        fprintf(stderr,
                "tarry: an ID cannot be combined with filters, --rate or --dry-run\n");
        return EX_USAGE;
    }
    one.method = kind->method;
    one.path = kind->one;
    if (kind == &cancel && o->queue) {
        one.path = "/v1/queues/{}/jobs/{}";
        one.sets &= ~(unsigned)CLI_QUEUED;
        o->arg[0] = o->queue;
    }
    o->command = &one;
    return ctl_request(o);
}

static int change(struct cli_args *o, const struct change_kind *kind)
{
    if (o->arg_count > 1)
        return change_one(o, kind);
    return has_filter(o) ? change_many(o, kind) : require_filter(o, kind);
}

int ctl_dead_replay(struct cli_args *o)
{
    return change(o, &replay);
}

int ctl_dead_drop(struct cli_args *o)
{
    return change(o, &drop);
}

int ctl_jobs_cancel(struct cli_args *o)
{
    return change(o, &cancel);
}

int ctl_jobs_now(struct cli_args *o)
{
    return change(o, &now);
}

int ctl_jobs_move(struct cli_args *o)
{
    if ((o->at == NULL) == (o->after == NULL))
        return cli_usage_error(o, "exactly one of --at and --after is required", "");
    return change(o, &move);
}

int ctl_queues_purge(struct cli_args *o)
{
    return change_many(o, &cancel);
}

/* ------------------------------------------------------- dead letters by their error */

static bool is_same(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key)) == 1;
}

/* Adds the count of a group to that of an earlier page. */
static void merge(json_t *groups, json_t *group)
{
    json_t *known;
    size_t i;
    json_array_foreach(groups, i, known)
    {
        if (!is_same(known, group, "error") || !is_same(known, group, "reason"))
            continue;
        int64_t count = json_integer_value(json_object_get(known, "count")) +
                        json_integer_value(json_object_get(group, "count"));
        json_object_set_new(known, "count", json_integer(count));
        json_object_set(known, "last", json_object_get(group, "last"));
        return;
    }
    json_array_append(groups, group);
}

static void merge_page(struct ctl_walk *w, const json_t *answer)
{
    json_t *group;
    size_t i;
    json_array_foreach(json_object_get(answer, "groups"), i, group)
        merge(w->groups, group);
    w->refused += json_integer_value(json_object_get(answer, "others"));
}

static int by_count(const void *a, const void *b)
{
    const json_t *const *one = a, *const *other = b;
    int64_t n = json_integer_value(json_object_get(*one, "count")),
            m = json_integer_value(json_object_get(*other, "count"));
    return n == m ? 0 : n > m ? -1 : 1;
}

static json_t *sorted(const json_t *groups)
{
    size_t n = json_array_size(groups);
    json_t **rows = malloc((n + 1) * sizeof(json_t *)), *out = json_array();
    for (size_t i = 0; rows && i < n; i++)
        rows[i] = json_array_get(groups, i);
    if (rows && n > 0)
        qsort(rows, n, sizeof(json_t *), by_count);
    for (size_t i = 0; rows && i < n; i++)
        json_array_append(out, rows[i]);
    free(rows);
    return out;
}

static int list_groups(struct cli_args *o)
{
    struct ctl_walk w = {.o = o, .left = -1, .each = merge_page, .groups = json_array()};
    int code = ctl_walk(&w);
    json_t *groups = sorted(w.groups);
    ctl_view_print(o, &ctl_view_groups, groups, 0);
    if (w.refused > 0)
        fprintf(stderr, "tarry: %" PRId64 " more have other errors\n", w.refused);
    json_decref(groups);
    json_decref(w.groups);
    return code;
}

int ctl_dead_list(struct cli_args *o)
{
    return o->group ? list_groups(o) : ctl_list(o);
}
