/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_tap.c - `tarry tap`: one long poll after the other, an event on each line.
 */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/cli/ctl_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { WAIT_MS = 10000, WHAT_WIDTH = 14 };

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

/* 12:00:01.123 delivered  ID  attempt=1  target=... */
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
    buf_addf(&line, "%.12s %-*s ", when + strlen("2026-01-31T"), WHAT_WIDTH,
             what ? what : "");
    ctl_value_add(&line, json_object_get(event, "id"), CTL_TEXT, at_ms);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        add_member(&line, event, members[i].name, members[i].kind, at_ms);
    puts(buf_str(&line));
    buf_free(&line);
}

/* Gives how many were printed. */
static int64_t print_events(const struct cli_order *o, const json_t *answer, int64_t most)
{
    const json_t *events = json_object_get(answer, "events"), *event;
    int64_t missed = json_integer_value(json_object_get(answer, "missed"));
    size_t i;
    if (missed > 0)
        fprintf(stderr, "tarry: %lld events were missed; --sample takes fewer\n",
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

static json_t *poll_once(struct cli_order *o, const char *cursor, int *code)
{
    struct buf path = {0};
    char wait[24];
    snprintf(wait, sizeof(wait), "%dms", WAIT_MS);
    ctl_path_add(&path, o);
    ctl_query_add(&path, "payload", o->payload ? "true" : NULL);
    ctl_query_add(&path, "wait", wait);
    ctl_query_add(&path, "cursor", cursor);
    json_t *answer =
        ctl_http_ask(o->http,
                     &(struct ctl_ask){
                         .method = "GET", .path = buf_str(&path), .patience_ms = WAIT_MS},
                     code);
    buf_free(&path);
    return answer;
}

int ctl_tap(struct cli_order *o)
{
    int code = EX_OK;
    int64_t left = o->limit;
    char *cursor = NULL;
    do {
        json_t *answer = poll_once(o, cursor, &code);
        const char *next = json_string_value(json_object_get(answer, "cursor"));
        free(cursor);
        cursor = next ? mem_strdup(next) : NULL;
        if (answer) {
            int64_t n = print_events(o, answer, o->limit ? left : -1);
            left -= n < left ? n : left;
        }
        json_decref(answer);
    } while (code == EX_OK && cursor && (o->limit == 0 || left > 0));
    free(cursor);
    return code;
}
