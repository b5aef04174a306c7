/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_list.c - listings, changes of many jobs, and `tarry tap`: they request page after
 * page from the daemon.
 *
 * Redis has stored the changes of each page before its response, so the command may be
 * killed at any time.
 */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { PAGE_MAX = 500, LIST_MAX = 100 };

struct walk {
    struct cli_args *o;
    const char *did; /* verb for the sum, such as "replayed"; NULL: only list */
    int64_t left;    /* maximum of further items; -1: no limit */
    int64_t done, refused, looked;
    char *cursor; /* where to continue; NULL: finished */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

/* The first signal ends the command after the current page, the second immediately. */
void ctl_catch_interrupt(void)
{
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

bool ctl_interrupted(void)
{
    return interrupted;
}

/* --- a page --- */

static void page_path(const struct walk *w, struct buf *path)
{
    char max[24];
    ctl_path_add(path, w->o);
    if (!(w->o->command->sets & CLI_MANY))
        return;
    snprintf(max, sizeof(max), "%" PRId64,
             w->left >= 0 && w->left < PAGE_MAX ? w->left : PAGE_MAX);
    ctl_query_add(path, "max", max);
    ctl_query_add(path, "cursor", w->cursor);
}

static int64_t member(const json_t *answer, const char *key)
{
    return json_integer_value(json_object_get(answer, key));
}

static const json_t *items_of(const struct walk *w, const json_t *answer)
{
    const struct ctl_view *view = w->o->command->view;
    return json_object_get(answer, view ? view->items : "items");
}

/* Print changed items only with --json. */
static void show(const struct walk *w, const json_t *answer)
{
    const json_t *items = items_of(w, answer), *item;
    size_t i;
    if (w->did == NULL)
        ctl_view_print(w->o, w->o->command->view, items, member(answer, "now_ms"));
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        if (w->did && w->o->json)
            ctl_print_json(item, JSON_COMPACT);
    }
}

/* Read and print one page. Returns an exit code. */
static int take_page(struct walk *w)
{
    struct buf path = {0};
    int code;
    page_path(w, &path);
    json_t *answer = ctl_http_get(w->o, &path, &code);
    if (answer == NULL)
        return code;
    show(w, answer);
    if (w->left >= 0)
        w->left -= (int64_t)json_array_size(items_of(w, answer));
    w->done += member(answer, "done");
    w->refused += member(answer, "refused");
    w->looked += member(answer, "looked");
    const char *cursor = json_string_value(json_object_get(answer, "cursor"));
    free(w->cursor);
    w->cursor = cursor ? mem_strdup(cursor) : NULL;
    json_decref(answer);
    return EX_OK;
}

/* --- all pages --- */

static void add_sum(const struct walk *w, struct buf *out)
{
    buf_addf(out, "%s%s %" PRId64 ", refused %" PRId64 ", examined %" PRId64,
             w->o->dry_run ? "would have " : "", w->did, w->done, w->refused, w->looked);
}

static void show_progress(const struct walk *w)
{
    struct buf text = {0};
    if (w->did)
        add_sum(w, &text);
    if (w->did && w->cursor)
        ctl_progress(buf_str(&text));
    buf_free(&text);
}

/* Read pages until the last, the limit or a signal. Returns an exit code. */
static int walk(struct walk *w)
{
    int code;
    ctl_catch_interrupt();
    w->cursor = w->o->cursor ? mem_strdup(w->o->cursor) : NULL;
    do {
        code = take_page(w);
        show_progress(w);
    } while (code == EX_OK && w->cursor && w->left != 0 && !interrupted);
    ctl_progress(NULL);
    if (w->cursor)
        fprintf(stderr, "tarry: there may be more; continue with --cursor %s\n",
                w->cursor);
    free(w->cursor);
    return code == EX_OK && interrupted ? CLI_INTERRUPTED : code;
}

int ctl_list(struct cli_args *o)
{
    struct walk w = {.o = o, .left = o->max ? o->max : o->all ? -1 : LIST_MAX};
    return walk(&w);
}

/* --- replay and drop --- */

static bool has_filter(const struct cli_args *o)
{
    return o->all || o->reason || o->from || o->to || o->id_prefix || o->max || o->cursor;
}

/* In JSON it is the last line, after those of the items. */
static void print_sum(const struct walk *w)
{
    struct buf text = {0};
    add_sum(w, &text);
    if (w->o->human)
        puts(buf_str(&text));
    else
        printf("{\"%s\":%" PRId64 ",\"refused\":%" PRId64 ",\"looked\":%" PRId64
               ",\"dry_run\":%s}\n",
               w->did, w->done, w->refused, w->looked, w->o->dry_run ? "true" : "false");
    buf_free(&text);
}

/* Require --all or a filter. */
static int change_many(struct cli_args *o, const char *did)
{
    struct walk w = {.o = o, .did = did, .left = o->max ? o->max : -1};
    if (!has_filter(o)) {
        fprintf(stderr, "tarry: choose dead letters: pass an ID, or --reason, --from, "
                        "--to, --id-prefix or --max; --all selects all\n");
        return EX_USAGE;
    }
    int code = walk(&w);
    print_sum(&w);
    return code;
}

/* The filters and --rate apply only to many items. */
static int change(struct cli_args *o, const char *did, const char *method,
                  const char *path)
{
    struct cli_command one = *o->command;
    if (o->arg_count < 2)
        return change_many(o, did);
    if (has_filter(o) || o->rate || o->dry_run) {
        fprintf(stderr,
                "tarry: an ID cannot be combined with filters, --rate or --dry-run\n");
        return EX_USAGE;
    }
    one.method = method;
    one.path = path;
    o->command = &one;
    return ctl_request(o);
}

int ctl_dead_replay(struct cli_args *o)
{
    return change(o, "replayed", "POST", "/v1/routes/{}/dead/{}/replay");
}

int ctl_dead_drop(struct cli_args *o)
{
    return change(o, "dropped", "DELETE", "/v1/routes/{}/dead/{}");
}

/* --- tap: repeated long polls; prints one event per line --- */

enum { WHAT_WIDTH = 14 };

static void add_member(struct buf *line, const json_t *event, const char *name,
                       enum ctl_kind kind, int64_t at_ms)
{
    const json_t *v = json_object_get(event, name);
    if (v == NULL)
        return;
    struct slice shown = ctl_name_shown(name, v);
    buf_addf(line, "  %.*s=", SLICE_ARG(shown));
    ctl_value_add(line, v, kind, at_ms);
}

/* 12:00:01.123Z delivered  ID  attempt=1  target=... */
static void print_event(const json_t *event)
{
    static const struct {
        const char *name;
        enum ctl_kind kind;
    } members[] = {
        {"due_ms", CTL_WHEN}, {"attempt", CTL_COUNT}, {"reason", CTL_TEXT},
        {"source", CTL_TEXT}, {"target", CTL_TEXT},   {"key", CTL_TEXT},
        {"bytes", CTL_BYTES}, {"payload", CTL_TEXT},  {"payload_base64", CTL_TEXT}};
    int64_t at_ms = json_integer_value(json_object_get(event, "at_ms"));
    const char *what = json_string_value(json_object_get(event, "what"));
    char when[WHEN_TEXT_BYTES];
    struct buf line = {0};
    when_format_rfc3339(at_ms, when);
    buf_addf(&line, "%s %-*s ", when + strlen("2026-01-31T"), WHAT_WIDTH,
             what ? what : "");
    ctl_value_add(&line, json_object_get(event, "id"), CTL_TEXT, at_ms);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        add_member(&line, event, members[i].name, members[i].kind, at_ms);
    puts(buf_str(&line));
    buf_free(&line);
}

/* Returns the number of events printed. */
static int64_t print_events(const struct cli_args *o, const json_t *answer, int64_t most)
{
    const json_t *events = json_object_get(answer, "events"), *event;
    int64_t missed = json_integer_value(json_object_get(answer, "missed"));
    size_t i;
    if (missed > 0)
        fprintf(stderr, "tarry: %lld events were missed; --sample N shows fewer\n",
                (long long)missed);
    json_array_foreach((json_t *)(uintptr_t)events, i, event)
    {
        if ((int64_t)i == most)
            break;
        if (o->human)
            print_event(event);
        else
            ctl_print_json(event, JSON_COMPACT);
    }
    fflush(stdout);
    return (int64_t)json_array_size(events);
}

static json_t *poll_once(struct cli_args *o, const char *cursor, int *code)
{
    struct buf path = {0};
    char wait[24];
    snprintf(wait, sizeof(wait), "%dms", CTL_TAP_WAIT_MS);
    ctl_path_add(&path, o);
    ctl_query_add(&path, "wait", wait);
    ctl_query_add(&path, "cursor", cursor);
    return ctl_http_get(o, &path, code);
}

int ctl_tap(struct cli_args *o)
{
    int code = EX_OK;
    int64_t left = o->max;
    char *cursor = NULL;
    do {
        json_t *answer = poll_once(o, cursor, &code);
        const char *next = json_string_value(json_object_get(answer, "cursor"));
        free(cursor);
        cursor = next ? mem_strdup(next) : NULL;
        if (answer) {
            int64_t n = print_events(o, answer, o->max ? left : -1);
            left -= n < left ? n : left;
        }
        json_decref(answer);
    } while (code == EX_OK && cursor && (o->max == 0 || left > 0));
    free(cursor);
    return code;
}
