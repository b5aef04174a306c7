/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_list.c - listings and `tarry tap`; the walk that requests page after page from the
 * daemon, for listings and for the changes of ctl_change.c.
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
#include <time.h>
#include <unistd.h>

enum { PAGE_MAX = 500, LIST_MAX = 100, PACE_MS = 200 };

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

/* With a rate, a page contains the items of PACE_MS at most. */
static int64_t page_size(const struct ctl_walk *w)
{
    int64_t n = w->left >= 0 && w->left < PAGE_MAX ? w->left : PAGE_MAX;
    double paced = w->rate * PACE_MS / 1000;
    return w->rate > 0 && paced < (double)n ? paced < 1 ? 1 : (int64_t)paced : n;
}

static void page_path(const struct ctl_walk *w, struct buf *path)
{
    char max[24];
    ctl_path_add(path, w->o);
    if (!(w->o->command->sets & CLI_MANY))
        return;
    snprintf(max, sizeof(max), "%" PRId64, page_size(w));
    ctl_query_add(path, "max", max);
    ctl_query_add(path, "all",
                  w->o->all && (w->o->command->sets & CLI_SELECTS) ? "true" : NULL);
    ctl_query_add(path, "cursor", w->cursor);
}

static int64_t member(const json_t *answer, const char *key)
{
    return json_integer_value(json_object_get(answer, key));
}

static const json_t *items_of(const struct ctl_walk *w, const json_t *answer)
{
    const struct ctl_view *view = w->o->command->view;
    return json_object_get(answer, view ? view->items : "items");
}

/* Print changed items only with --json. */
static void show(const struct ctl_walk *w, const json_t *answer)
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

/* Read one page. Returns an exit code. */
static int take_page(struct ctl_walk *w)
{
    struct buf path = {0};
    int code;
    page_path(w, &path);
    json_t *answer = ctl_http_get(w->o, &path, &code);
    if (answer == NULL)
        return code;
    if (w->each)
        w->each(w, answer);
    else
        show(w, answer);
    const json_t *items = items_of(w, answer);
    if (w->left >= 0)
        w->left -= items ? (int64_t)json_array_size(items) : member(answer, "done");
    w->left = w->limited && w->left < 0 ? 0 : w->left;
    w->done += member(answer, "done");
    w->refused += member(answer, "refused");
    w->in_flight += member(answer, "in_flight");
    w->skipped += member(answer, "skipped");
    w->looked += member(answer, "looked");
    const char *cursor = json_string_value(json_object_get(answer, "cursor"));
    free(w->cursor);
    w->cursor = cursor ? mem_strdup(cursor) : NULL;
    json_decref(answer);
    return EX_OK;
}

/* --- all pages --- */

int64_t ctl_mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits until the items so far fit the rate. A signal ends the wait. */
static void keep_rate(const struct ctl_walk *w, int64_t started_ms)
{
    double items = (double)(w->done + w->in_flight + w->skipped);
    int64_t until_ms = started_ms + (int64_t)(items * 1000 / w->rate);
    for (int64_t now_ms; (now_ms = ctl_mono_ms()) < until_ms && !interrupted;) {
        int64_t wait_ms = until_ms - now_ms < PACE_MS ? until_ms - now_ms : PACE_MS;
        usleep((useconds_t)wait_ms * 1000);
    }
}

void ctl_walk_sum(const struct ctl_walk *w, struct buf *out)
{
    buf_addf(out, "%s%s %" PRId64, w->o->dry_run ? "would have " : "", w->did, w->done);
    if (w->total > 0)
        buf_addf(out, " of %" PRId64, w->total);
    if (w->o->command->sets & CLI_BULK)
        buf_addf(out, ", in flight %" PRId64 ", skipped %" PRId64, w->in_flight,
                 w->skipped);
    else
        buf_addf(out, ", refused %" PRId64, w->refused);
    buf_addf(out, ", examined %" PRId64, w->looked);
}

static void show_progress(const struct ctl_walk *w)
{
    struct buf text = {0};
    if (w->did)
        ctl_walk_sum(w, &text);
    if (w->did && w->cursor)
        ctl_progress(buf_str(&text));
    buf_free(&text);
}

int ctl_walk(struct ctl_walk *w)
{
    int64_t started_ms = ctl_mono_ms();
    int code;
    ctl_catch_interrupt();
    w->limited = w->left >= 0;
    w->cursor = w->o->cursor ? mem_strdup(w->o->cursor) : NULL;
    do {
        code = take_page(w);
        show_progress(w);
        if (code == EX_OK && w->rate > 0 && w->cursor)
            keep_rate(w, started_ms);
    } while (code == EX_OK && w->cursor && w->left != 0 && !interrupted);
    ctl_progress(NULL);
    if (w->cursor)
        fprintf(stderr, "tarry: there may be more; continue with --cursor %s\n",
                w->cursor);
    free(w->cursor);
    w->cursor = NULL;
    return code == EX_OK && interrupted ? CLI_INTERRUPTED : code;
}

int ctl_list(struct cli_args *o)
{
    struct ctl_walk w = {.o = o, .left = o->max ? o->max : o->all ? -1 : LIST_MAX};
    return ctl_walk(&w);
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
