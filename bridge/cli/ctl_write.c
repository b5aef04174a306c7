/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_write.c - messages from the command line: `tarry send` and `tarry explain`.
 */
#include "bridge/cli/ctl_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

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
        fprintf(stderr,
                "tarry: %.200s: more than %d MiB, which no daemon takes as a job\n", name,
                MESSAGE_MAX / (1024 * 1024));
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

/* The text itself, @FILE, or - for standard input; text NULL: nothing. */
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

struct message {
    struct buf payload, lines[4];
    struct cli_list headers;
};

/* A flag that becomes a header. */
static void add_header(struct message *m, size_t i, const char *name, const char *value)
{
    if (value == NULL)
        return;
    buf_addf(&m->lines[i], "%s: %s", name, value);
    m->headers.v[m->headers.n++] = buf_str(&m->lines[i]);
}

static int add_headers(struct cli_order *o, struct message *m)
{
    for (size_t i = 0; i < o->headers.n; i++) {
        const char *line = o->headers.v[i], *colon = strchr(line, ':');
        if (colon == NULL || colon == line || colon[1 + strspn(colon + 1, " ")] == '\0' ||
            strpbrk(line, "\r\n"))
            return cli_wrong(o, "a header is NAME:VALUE on one line, not ", line);
        if (m->headers.n + sizeof(m->lines) / sizeof(m->lines[0]) >= CLI_LIST_MAX)
            return cli_wrong(o, "too many of ", "--header");
        m->headers.v[m->headers.n++] = line;
    }
    const char *const values[] = {o->after, o->at, o->id, o->key};
    static const char *const names[] = {"deliver-after", "deliver-at", "delay-id",
                                        "delay-key"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (values[i] && strpbrk(values[i], "\r\n"))
            return cli_wrong(o, "no line may end within ", values[i]);
        add_header(m, i, names[i], values[i]);
    }
    return EX_OK;
}

static int post(struct cli_order *o, const char *payload)
{
    struct message m = {0};
    struct buf path = {0};
    json_t *answer = NULL;
    int code = read_payload(payload, &m.payload);
    if (code == EX_OK)
        code = add_headers(o, &m);
    ctl_path_add(&path, o);
    if (code == EX_OK)
        answer = ctl_http_ask(o->http,
                              &(struct ctl_ask){.method = o->command->method,
                                                .path = buf_str(&path),
                                                .body = buf_slice(&m.payload),
                                                .headers = &m.headers},
                              &code);
    if (answer)
        ctl_answer_print(o, answer);
    if (answer && json_is_false(json_object_get(answer, "accepted")))
        code = CLI_GONE;
    json_decref(answer);
    buf_free(&path);
    buf_free(&m.payload);
    for (size_t i = 0; i < sizeof(m.lines) / sizeof(m.lines[0]); i++)
        buf_free(&m.lines[i]);
    return code;
}

int ctl_send(struct cli_order *o)
{
    if (o->place_count < 2 && isatty(STDIN_FILENO))
        return cli_wrong(o, "PAYLOAD is missing; - reads it from here", "");
    return post(o, o->place_count < 2 ? "-" : o->place[1]);
}

int ctl_explain(struct cli_order *o)
{
    return post(o, o->place_count < 2 ? NULL : o->place[1]);
}
