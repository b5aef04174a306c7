/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_dead.c - `tarry dead`: page after page of the daemon's answers. What was done is
 * done in Redis with each answer, so that this may be killed at any time.
 */
#include "bridge/ctl_parts.h"
#include "bridge/mem.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

enum { PAGE_MAX = 500, LIST_MAX = 100 };

struct walk {
    const struct ctl *c;
    const char *method, *part, *did;  /* did: "replayed", as the progress has it */
    void (*show)(const json_t *item); /* NULL: only counted */
    int64_t left;                     /* letters to come at most; -1: all of them */
    int64_t done, refused, looked;
    char *cursor; /* where to go on; NULL: that was all */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

/* The page on its way is waited for; a second time ends at once. */
static void catch_interrupt(void)
{
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

/* --- one page --- */

static void page_path(const struct walk *w, struct buf *path)
{
    const struct ctl *c = w->c;
    char max[24];
    snprintf(max, sizeof(max), "%" PRId64,
             w->left >= 0 && w->left < PAGE_MAX ? w->left : PAGE_MAX);
    ctl_path_add(path, c->route, w->part, NULL);
    ctl_query_add(path, "reason", c->reason);
    ctl_query_add(path, "from", c->from);
    ctl_query_add(path, "to", c->to);
    ctl_query_add(path, "id_prefix", c->id_prefix);
    ctl_query_add(path, "rate", c->rate);
    ctl_query_add(path, "dry_run", c->dry_run ? "true" : NULL);
    ctl_query_add(path, "max", max);
    ctl_query_add(path, "cursor", w->cursor);
}

static int64_t member(const json_t *answer, const char *key)
{
    return json_integer_value(json_object_get(answer, key));
}

/* Gives the exit code. */
static int take_page(struct walk *w)
{
    struct buf path = {0};
    size_t i;
    json_t *item;
    int code;
    page_path(w, &path);
    json_t *answer = ctl_http_ask(w->c->http, w->method, buf_str(&path), &code);
    buf_free(&path);
    if (answer == NULL)
        return code;
    const json_t *items = json_object_get(answer, "items");
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        if (w->show)
            w->show(item);
    }
    if (w->left >= 0)
        w->left -= (int64_t)json_array_size(items);
    w->done += member(answer, "done");
    w->refused += member(answer, "refused");
    w->looked += member(answer, "looked");
    const char *cursor = json_string_value(json_object_get(answer, "cursor"));
    free(w->cursor);
    w->cursor = cursor ? mem_strdup(cursor) : NULL;
    json_decref(answer);
    return EX_OK;
}

static void print_progress(const struct walk *w, FILE *out)
{
    fprintf(out, "%s%s %" PRId64 ", refused %" PRId64 ", looked at %" PRId64 "\n",
            w->c->dry_run ? "would have " : "", w->did, w->done, w->refused, w->looked);
}

/* Page after page, until there is none, or enough. Gives the exit code. */
static int walk(struct walk *w)
{
    int code;
    catch_interrupt();
    w->cursor = w->c->cursor ? mem_strdup(w->c->cursor) : NULL;
    do {
        code = take_page(w);
        if (w->did && w->cursor)
            print_progress(w, stderr);
    } while (code == EX_OK && w->cursor && w->left != 0 && !interrupted);
    if (w->cursor)
        fprintf(stderr, "tarry: there may be more; go on with --cursor %s\n", w->cursor);
    free(w->cursor);
    return code == EX_OK && interrupted ? CTL_INTERRUPTED : code;
}

/* --- list and show --- */

static void show_json(const json_t *item)
{
    ctl_print_json(item, JSON_COMPACT);
}

static void show_line(const json_t *item)
{
    static const char *const columns[] = {"buried", "reason", "attempts", "id", "error"};
    struct buf line = {0};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        buf_add_str(&line, i ? "\t" : "");
        ctl_member_add(&line, item, columns[i]);
    }
    puts(buf_str(&line));
    buf_free(&line);
}

int ctl_dead_list(const struct ctl *c)
{
    struct walk w = {.c = c,
                     .method = "GET",
                     .part = "dead",
                     .show = c->json ? show_json : show_line,
                     .left = c->max_letters ? c->max_letters
                             : c->all       ? -1
                                            : LIST_MAX};
    return walk(&w);
}

/* A question about one; its answer is shown whole, or only told of. */
static int ask_one(const struct ctl *c, const char *method, const char *more,
                   const char *told)
{
    struct buf path = {0};
    int code;
    ctl_path_add(&path, c->route, "dead", c->name);
    buf_add_str(&path, more);
    json_t *answer = ctl_http_ask(c->http, method, buf_str(&path), &code);
    buf_free(&path);
    if (answer == NULL)
        return code;
    if (told == NULL || c->json)
        ctl_print_json(answer, told ? JSON_COMPACT : JSON_INDENT(2));
    else
        puts(told);
    json_decref(answer);
    return EX_OK;
}

int ctl_dead_show(const struct ctl *c)
{
    return ask_one(c, "GET", "", NULL);
}

/* --- replay and drop --- */

/* Everything is meant only where that is said. */
static bool says_which(const struct ctl *c)
{
    if (c->all || c->reason || c->from || c->to || c->id_prefix || c->max || c->cursor)
        return true;
    fprintf(stderr, "tarry: which ones? Name an ID, or give --reason, --from, --to, "
                    "--id-prefix or --max; --all means every one\n");
    return false;
}

static int change(const struct ctl *c, const char *part, const char *did)
{
    struct walk w = {.c = c,
                     .method = "POST",
                     .part = part,
                     .did = did,
                     .show = c->json ? show_json : NULL,
                     .left = c->max_letters ? c->max_letters : -1};
    if (!says_which(c))
        return EX_USAGE;
    int code = walk(&w);
    print_progress(&w, c->json ? stderr : stdout);
    return code;
}

/* The filters and the pace are for many. */
static bool is_alone(const struct ctl *c)
{
    if (!(c->all || c->reason || c->from || c->to || c->id_prefix || c->max ||
          c->cursor || c->rate || c->dry_run))
        return true;
    fprintf(stderr, "tarry: with an ID there is nothing to choose: leave the options\n");
    return false;
}

int ctl_dead_replay(const struct ctl *c)
{
    if (c->name == NULL)
        return change(c, "dead/replay", "replayed");
    return is_alone(c) ? ask_one(c, "POST", "/replay", "replayed") : EX_USAGE;
}

int ctl_dead_drop(const struct ctl *c)
{
    if (c->name == NULL)
        return change(c, "dead/drop", "dropped");
    return is_alone(c) ? ask_one(c, "DELETE", "", "dropped") : EX_USAGE;
}
