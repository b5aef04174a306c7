/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.c - operator commands with one request and one response; `tarry send` and `tarry
 * explain`, whose request is a message.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { POLL_US = 500 * 1000 }; /* between two requests of drain --wait */

static int ask_and_print(struct cli_args *o, struct buf *path)
{
    const struct ctl_view *view = o->command->view;
    int code;
    json_t *answer = ctl_http_get(o, path, &code);
    if (answer && view)
        ctl_view_print(o, view, json_object_get(answer, view->items), 0);
    else if (answer)
        ctl_answer_print(o, answer);
    json_decref(answer);
    return code;
}

int ctl_request(struct cli_args *o)
{
    struct buf path = {0};
    ctl_path_add(&path, o);
    return ask_and_print(o, &path);
}

int ctl_rewind(struct cli_args *o)
{
    return o->to ? ctl_request(o) : cli_usage_error(o, "--to is required", "");
}

/* --- status --- */

/* Prints the lines of text and escapes control characters. */
static void print_lines(struct slice text)
{
    struct buf line = {0};
    while (text.n > 0) {
        buf_clear(&line);
        ctl_text_add(&line, text_cut(&text, '\n'));
        puts(buf_str(&line));
    }
    buf_free(&line);
}

int ctl_ready(struct cli_args *o)
{
    struct slice text;
    long status;
    int code;
    if (ctl_http_text(o->http, o->command->path, &status, &text, &code) < 0)
        return code;
    print_lines(text);
    return status == 200 ? EX_OK : status == 503 ? CLI_GONE : EX_UNAVAILABLE;
}

static const struct ctl_column redis_columns[] = {{"REDIS", "name", CTL_TEXT},
                                                  {"UP", "up", CTL_TEXT},
                                                  {"ANSWERS", "answers", CTL_TEXT},
                                                  {"DURABILITY", "durability", CTL_TEXT},
                                                  {"URL", "url", CTL_TEXT},
                                                  {"TROUBLE", "trouble", CTL_TEXT},
                                                  {0}};
static const struct ctl_column instance_columns[] = {
    {"INSTANCE", "id", CTL_TEXT}, {"SELF", "self", CTL_TEXT}, {0}};
static const struct ctl_column source_columns[] = {
    {"SOURCE", "name", CTL_TEXT},      {"TYPE", "type", CTL_TEXT},
    {"STATE", "state", CTL_STATE},     {"RECEIVED", "received", CTL_COUNT},
    {"UNANSWERED", "open", CTL_COUNT}, {0}};
static const struct ctl_column sink_columns[] = {{"SINK", "name", CTL_TEXT},
                                                 {"TYPE", "type", CTL_TEXT},
                                                 {"IN FLIGHT", "in_flight", CTL_COUNT},
                                                 {"OF", "max_in_flight", CTL_COUNT},
                                                 {"DELIVERED", "delivered", CTL_COUNT},
                                                 {"FAILED", "failed", CTL_ALARM},
                                                 {0}};
static const struct ctl_view parts[] = {{"redis", redis_columns, 0, NULL},
                                        {"instances", instance_columns, 0, NULL},
                                        {"sources", source_columns, 0, NULL},
                                        {"sinks", sink_columns, 0, NULL}};

/* Prints the warnings about a Redis, such as that it does not persist the jobs. */
static void print_warnings(const json_t *status)
{
    const json_t *redis, *warning;
    size_t i, k;
    struct buf line = {0};
    json_array_foreach(json_object_get(status, "redis"), i, redis)
    {
        json_array_foreach(json_object_get(redis, "warnings"), k, warning)
        {
            buf_clear(&line);
            ctl_text_add(&line,
                         slice_of(json_string_value(json_object_get(redis, "name"))));
            buf_add_str(&line, ": ");
            ctl_text_add(&line, slice_of(json_string_value(warning)));
            printf("warning: %s\n", buf_str(&line));
        }
    }
    buf_free(&line);
}

/* Prints the single values first, then the tables and the warnings. */
static void print_status(const struct cli_args *o, json_t *status)
{
    json_t *rest = json_copy(status);
    json_object_del(rest, "now_ms"); /* only a reference for the times shown */
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        json_object_del(rest, parts[i].items);
    ctl_answer_print(o, rest);
    json_decref(rest);
    int64_t now_ms = json_integer_value(json_object_get(status, "now_ms"));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const json_t *items = json_object_get(status, parts[i].items);
        if (json_array_size(items) == 0)
            continue;
        putchar('\n');
        ctl_view_print(o, &parts[i], items, now_ms);
        if (i == 0)
            print_warnings(status);
    }
}

/* Returns CODE; EX_UNAVAILABLE if it is EX_OK and a Redis does not answer. */
static int status_code(const json_t *status, int code)
{
    const json_t *redis;
    size_t i;
    json_array_foreach(json_object_get(status, "redis"), i, redis)
    {
        if (code == EX_OK && json_is_false(json_object_get(redis, "answers")))
            code = EX_UNAVAILABLE;
    }
    return code;
}

int ctl_status(struct cli_args *o)
{
    struct buf path = {0};
    int code;
    ctl_path_add(&path, o);
    json_t *status = ctl_http_get(o, &path, &code);
    if (status && o->human)
        print_status(o, status);
    else if (status)
        ctl_answer_print(o, status);
    code = status_code(status, code);
    json_decref(status);
    return code;
}

static void add_route_path(struct buf *path, const char *route)
{
    const struct cli_command one = {.path = "/v1/admin/routes/{}"};
    ctl_path_add(path, &(struct cli_args){.command = &one, .arg = {route}});
}

int ctl_complain_trouble(const json_t *answer, int code)
{
    const char *trouble = json_string_value(json_object_get(answer, "trouble"));
    struct buf line = {0};
    if (trouble == NULL || *trouble == '\0')
        return code;
    ctl_text_add(&line, slice_of(trouble));
    fflush(stdout);
    fprintf(stderr, "tarry: %s\n", buf_str(&line));
    buf_free(&line);
    return code == EX_OK ? EX_UNAVAILABLE : code;
}

int ctl_routes(struct cli_args *o)
{
    struct buf path = {0};
    int code;
    if (o->ahead)
        return ctl_ahead(o);
    if (o->arg_count > 0)
        add_route_path(&path, o->arg[0]);
    else
        ctl_path_add(&path, o);
    json_t *answer = ctl_http_get(o, &path, &code);
    const json_t *routes = json_object_get(answer, "routes");
    if (answer && o->arg_count > 0)
        ctl_answer_print(o, json_array_get(routes, 0));
    else if (answer)
        ctl_view_print(o, o->command->view, routes,
                       json_integer_value(json_object_get(answer, "now_ms")));
    code = ctl_complain_trouble(answer, code);
    json_decref(answer);
    return code;
}

/* --- pause, resume, drain --- */

struct wait {
    struct cli_args *o;
    int code;
    bool drains[CLI_ARGS_MAX]; /* a response has shown "draining"; before that, another
                                * state may be old */
    int64_t left;              /* jobs at the last poll; -1: not known */
};

/* Sets w->code if a route that was draining has another state: it might never drain. */
static void check_state(struct wait *w, unsigned i, const char *state)
{
    bool known = state && strcmp(state, "unknown") != 0;
    bool drains = known && strcmp(state, "draining") == 0;
    if (known && !drains && w->drains[i]) {
        ctl_progress(NULL);
        fprintf(stderr, "tarry: %s is no longer draining; its state is %s\n",
                w->o->arg[i], state);
        w->code = CLI_GONE;
    }
    w->drains[i] |= drains;
}

/* Returns the number of pending and in-flight jobs of a route; -1: Redis has not counted
 * them, or w->code is an error. *drained: no instance has jobs left. */
static int64_t jobs_left(struct wait *w, unsigned i, bool *drained)
{
    struct buf path = {0};
    add_route_path(&path, w->o->arg[i]);
    json_t *answer = ctl_http_request(
        w->o->http, &(struct ctl_request){.method = "GET", .path = buf_str(&path)},
        &w->code);
    const json_t *found = json_array_get(json_object_get(answer, "routes"), 0),
                 *pending = json_object_get(found, "pending"),
                 *in_flight = json_object_get(found, "in_flight");
    int64_t n = json_is_integer(pending) && json_is_integer(in_flight)
                    ? json_integer_value(pending) + json_integer_value(in_flight)
                    : -1;
    *drained = json_is_true(json_object_get(found, "drained"));
    check_state(w, i, json_string_value(json_object_get(found, "state")));
    buf_free(&path);
    json_decref(answer);
    return n;
}

/* Shows the progress. Returns whether all routes are drained. */
static bool all_drained(struct wait *w)
{
    char text[64];
    int64_t left = 0;
    bool all = true, drained;
    for (unsigned i = 0; i < w->o->arg_count && w->code == EX_OK; i++) {
        int64_t n = jobs_left(w, i, &drained);
        left = n < 0 || left < 0 ? -1 : left + n;
        all = all && drained;
    }
    w->left = left;
    snprintf(text, sizeof(text), "%" PRId64 " jobs left", left);
    ctl_progress(left < 0    ? "the number of remaining jobs is not known yet"
                 : left == 0 ? "no jobs left; waiting for all instances to see the drain"
                             : text);
    return all;
}

static int report_timeout(const struct wait *w)
{
    const struct cli_args *o = w->o;
    char left[64] = "the number of remaining jobs is not known";
    if (w->left >= 0)
        snprintf(left, sizeof(left), "%" PRId64 " jobs left", w->left);
    fprintf(stderr,
            "tarry: %s%s not drained after %s: %s; the drain continues until tarry "
            "resume\n",
            o->arg[0], o->arg_count > 1 ? " and others are" : " is", o->timeout, left);
    return EX_TEMPFAIL;
}

static int wait_for_end(struct cli_args *o, int64_t timeout_ms)
{
    struct wait w = {.o = o, .code = EX_OK};
    int64_t until_ms = ctl_mono_ms() + timeout_ms;
    bool drained, late;
    ctl_catch_interrupt();
    do {
        drained = all_drained(&w);
        late = timeout_ms > 0 && ctl_mono_ms() + POLL_US / 1000 > until_ms;
    } while (w.code == EX_OK && !drained && !late && !ctl_interrupted() &&
             usleep(POLL_US) == 0);
    ctl_progress(NULL);
    if (w.code != EX_OK || drained)
        return w.code;
    return late && !ctl_interrupted() ? report_timeout(&w) : CLI_INTERRUPTED;
}

/* Reads --timeout into *ms; 0: none. Returns an exit code. */
static int read_timeout(struct cli_args *o, int64_t *ms)
{
    struct err err;
    *ms = 0;
    if (o->timeout == NULL)
        return EX_OK;
    if (!o->wait)
        return cli_usage_error(o, "--timeout requires --wait", "");
    if (when_duration_ms(slice_of(o->timeout), WHEN_NO_UNIT, ms, &err) < 0 || *ms <= 0)
        return cli_usage_error(o, "--timeout must be a duration such as 60s, not ",
                               o->timeout);
    return EX_OK;
}

int ctl_control(struct cli_args *o)
{
    struct buf path = {0}, also = {0};
    int64_t timeout_ms;
    int wrong = read_timeout(o, &timeout_ms);
    if (wrong != EX_OK)
        return wrong;
    for (unsigned i = 1; i < o->arg_count; i++)
        buf_addf(&also, "%s%s", i > 1 ? "," : "", o->arg[i]);
    ctl_path_add(&path, o);
    ctl_query_add(&path, "also", also.n > 0 ? buf_str(&also) : NULL);
    buf_free(&also);
    int code = ask_and_print(o, &path);
    fflush(stdout);
    return code == EX_OK && o->wait ? wait_for_end(o, timeout_ms) : code;
}

/* --- messages --- */

enum { CHUNK = 65536, MESSAGE_MAX = 64 * 1024 * 1024 };

static int read_all(FILE *in, const char *name, struct buf *out)
{
    size_t n = 1;
    while (n > 0 && out->n <= MESSAGE_MAX) {
        n = fread(buf_room(out, CHUNK), 1, CHUNK, in);
        buf_grew(out, n);
    }
    if (!ferror(in) && out->n <= MESSAGE_MAX)
        return EX_OK;
    if (ferror(in))
        fprintf(stderr, "tarry: %.200s: %s\n", name, strerror(errno));
    else
        fprintf(stderr, "tarry: %.200s: more than %d MiB, which is too large for a job\n",
                name, MESSAGE_MAX / (1024 * 1024));
    return EX_NOINPUT;
}

static int read_file(const char *path, struct buf *out)
{
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        fprintf(stderr, "tarry: %.200s: %s\n", path, strerror(errno));
        return EX_NOINPUT;
    }
    int code = read_all(in, path, out);
    fclose(in);
    return code;
}

/* Reads a payload. text: the payload itself, @FILE, or - (standard input); NULL: none. */
static int read_payload(const char *text, struct buf *out)
{
    if (text == NULL)
        return EX_OK;
    if (strcmp(text, "-") == 0)
        return read_all(stdin, "standard input", out);
    if (text[0] == '@')
        return read_file(text + 1, out);
    buf_add_str(out, text);
    return EX_OK;
}

/* Checks --header, and adds the headers for --after, --at, --id and --key. */
static int add_headers(struct cli_args *o)
{
    const struct {
        const char *name, *value;
    } flags[] = {{"deliver-after", o->after},
                 {"deliver-at", o->at},
                 {"delay-id", o->id},
                 {"delay-key", o->key}};
    const size_t count = sizeof(flags) / sizeof(flags[0]);
    for (size_t i = 0; i < o->headers.n; i++) {
        const char *line = o->headers.v[i], *colon = strchr(line, ':');
        if (colon == NULL || colon == line || colon[1 + strspn(colon + 1, " ")] == '\0' ||
            strpbrk(line, "\r\n"))
            return cli_usage_error(o, "a header must be NAME:VALUE on one line, not ",
                                   line);
    }
    if (o->headers.n + count >= CLI_LIST_MAX)
        return cli_usage_error(o, "too many of ", "--header");
    for (size_t i = 0; i < count; i++) {
        struct buf line = {0};
        if (flags[i].value == NULL)
            continue;
        if (strpbrk(flags[i].value, "\r\n"))
            return cli_usage_error(
                o, "the value must not contain a line break: ", flags[i].value);
        buf_addf(&line, "%s: %s", flags[i].name, flags[i].value);
        opt_list_add(&o->headers, buf_str(&line));
        buf_free(&line);
    }
    return EX_OK;
}

static int post(struct cli_args *o, const char *text)
{
    struct buf payload = {0}, path = {0};
    json_t *answer = NULL;
    int code = read_payload(text, &payload);
    if (code == EX_OK)
        code = add_headers(o);
    ctl_path_add(&path, o);
    if (code == EX_OK)
        answer = ctl_http_request(o->http,
                                  &(struct ctl_request){.method = o->command->method,
                                                        .path = buf_str(&path),
                                                        .body = buf_slice(&payload),
                                                        .headers = &o->headers},
                                  &code);
    if (answer)
        ctl_answer_print(o, answer);
    if (answer && json_is_false(json_object_get(answer, "accepted")))
        code = CLI_GONE;
    json_decref(answer);
    buf_free(&path);
    buf_free(&payload);
    return code;
}

int ctl_send(struct cli_args *o)
{
    if (o->arg_count < 2 && isatty(STDIN_FILENO))
        return cli_usage_error(o, "missing PAYLOAD; - reads it from the terminal", "");
    return post(o, o->arg_count < 2 ? "-" : o->arg[1]);
}

int ctl_explain(struct cli_args *o)
{
    return post(o, o->arg_count < 2 ? NULL : o->arg[1]);
}
