/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_args.h"
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/http/httpd_internal.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NUMBER_BYTES_MAX = 20 };
#define NUMBER_LEAST 0.001

static int set_ms(const struct http_param *row, struct slice value, void *field,
                  struct err *err)
{
    struct err why;
    int64_t ms = 0;
    if (!slice_is(value, "0") && when_duration_ms(value, WHEN_NO_UNIT, &ms, &why) < 0)
        return err_set(err, "%s: %s", row->name, why.text);
    if (ms < row->min || ms > row->max)
        return err_set(err, "%s must be from %" PRId64 " to %" PRId64 " ms", row->name,
                       row->min, row->max);
    *(int64_t *)field = ms;
    return 0;
}

static int bad_int(const struct http_param *row, struct err *err)
{
    return err_set(err, "%s must be an integer from %" PRId64 " to %" PRId64, row->name,
                   row->min, row->max);
}

static int put_int(const struct http_param *row, int64_t n, void *field, struct err *err)
{
    if (row->min < row->max && (n < row->min || n > row->max))
        return bad_int(row, err);
    *(int64_t *)field = n;
    return 0;
}

static int set_int(const struct http_param *row, struct slice value, void *field,
                   struct err *err)
{
    int64_t n = text_whole_number(value);
    return n < 0 ? bad_int(row, err) : put_int(row, n, field, err);
}

static int set_when(const struct http_param *row, struct slice value, void *field,
                    struct err *err)
{
    struct err why;
    int64_t ms = 0;
    if (when_instant_ms(value, &ms, &why) < 0)
        return err_set(err, "%s: %s", row->name, why.text);
    if (ms < 0)
        return err_set(err, "%s must not be before 1970", row->name);
    *(int64_t *)field = ms;
    return 0;
}

/* Accepts digits with an optional decimal point: no sign, no exponent. */
static int set_number(const struct http_param *row, struct slice value, void *field,
                      struct err *err)
{
    char text[NUMBER_BYTES_MAX] = "";
    bool good = value.n > 0 && value.n < sizeof(text);
    slice_put(text, good ? value : SLICE_LIT(""));
    size_t whole = strspn(text, "0123456789"), point = text[whole] == '.';
    size_t rest = strspn(text + whole + point, "0123456789");
    double n = strtod(text, NULL);
    if (!good || whole == 0 || (point && rest == 0) || whole + point + rest != value.n ||
        n > (double)row->max || n < NUMBER_LEAST)
        return err_set(err, "%s must be a positive number up to %" PRId64 ", such as 2.5",
                       row->name, row->max);
    *(double *)field = n;
    return 0;
}

static int set_choice(const struct http_param *row, struct slice value, void *field,
                      struct err *err)
{
    static const char *const truths[] = {"false", "true", NULL};
    const char *const *choices = row->choices ? row->choices : truths;
    for (int64_t i = 0; choices[i]; i++) {
        if (slice_is(value, choices[i])) {
            *(int64_t *)field = i;
            return 0;
        }
    }
    char names[128];
    size_t n = 0;
    for (size_t i = 0; choices[i] && n < sizeof(names); i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
                              i == 0           ? ""
                              : choices[i + 1] ? ", "
                                               : " or ",
                              choices[i]);
    return err_set(err, "%s must be %s", row->name, names);
}

static int set_text(const struct http_param *row, struct slice value, void *field,
                    struct err *err)
{
    (void)row;
    (void)err;
    *(struct slice *)field = value;
    return 0;
}

static int check_bytes(const struct http_param *row, const struct slice *text,
                       struct err *err)
{
    int64_t n = (int64_t)text->n, min = row->min > 0 ? row->min : 1;
    if (n >= row->min && (row->max == 0 || n <= row->max))
        return 0;
    return err_set(err, "%s must have from %" PRId64 " to %" PRId64 " bytes", row->name,
                   min, row->max);
}

static http_set *const native[HTTP_TYPES] = {
    [HTTP_TEXT] = set_text,     [HTTP_INT] = set_int,   [HTTP_MS] = set_ms,
    [HTTP_BOOL] = set_choice,   [HTTP_WHEN] = set_when, [HTTP_NUMBER] = set_number,
    [HTTP_CHOICE] = set_choice,
};
static const struct http_dialect native_dialect;

/* Returns rc. On an error, replaces the message by the row's own. */
static int failed(const struct http_param *row, int rc, struct err *err)
{
    return rc < 0 && row->wrong ? err_set(err, "%s", row->wrong) : rc;
}

static int set_value(const struct http_dialect *dialect, const struct http_param *row,
                     struct slice value, void *to, struct err *err)
{
    void *field = (char *)to + row->offset;
    http_set *set = dialect->set[row->type] ? dialect->set[row->type] : native[row->type];
    int rc = set(row, value, field, err);
    if (rc == 0 && row->type == HTTP_TEXT)
        rc = check_bytes(row, field, err);
    return failed(row, rc, err);
}

int http_param_set(const struct http_param *row, struct slice value, void *to,
                   struct err *err)
{
    return set_value(&native_dialect, row, value, to, err);
}

static int missing(const struct http_param *row, struct err *err)
{
    err_set(err, "%s is missing", row->name);
    return failed(row, -1, err);
}

static int check_names(struct slice query, const struct http_param *rows, struct err *err)
{
    struct slice name, value;
    while (form_next(&query, &name, &value)) {
        const struct http_param *row = rows;
        while (row->name && (row->from != FROM_QUERY || !slice_is(name, row->name)))
            row++;
        if (row->name == NULL)
            return err_set(err, "unknown parameter \"%.*s\"",
                           (int)(name.n < 100 ? name.n : 100), name.p);
    }
    return 0;
}

static void set_defaults(const struct http_param *rows, void *to)
{
    for (const struct http_param *row = rows; row->name; row++) {
        void *field = (char *)to + row->offset;
        if (row->type == HTTP_NUMBER)
            *(double *)field = (double)row->def;
        else if (row->type != HTTP_TEXT)
            *(int64_t *)field = row->def;
    }
}

static bool has(const struct http_param *rows, enum http_from from)
{
    while (rows->name && rows->from != from)
        rows++;
    return rows->name != NULL;
}

/* Returns n empty buffers, which live as long as the request. */
static struct buf *new_texts(struct httpd_req *req, unsigned n)
{
    must(req->texts == NULL);
    req->texts = mem_alloc(n * sizeof(*req->texts));
    req->texts_n = n;
    return req->texts;
}

/* -------------------------------------------------------------------------- JSON */

int http_args_read_json(const struct http_args *args, const struct http_dialect *dialect,
                        struct slice body, void *to, struct buf *room, struct err *err)
{
    union {
        struct slice text;
        int64_t n;
    } values[HTTP_PARAMS_MAX] = {{{0}}};
    struct json_field fields[HTTP_PARAMS_MAX + 1] = {{0}}, *f = fields;
    const struct http_param *rows = args->params;
    for (size_t i = 0; rows[i].name; i++) {
        must(i < HTTP_PARAMS_MAX);
        if (rows[i].from == FROM_JSON)
            *f++ = (struct json_field){rows[i].name,
                                       rows[i].type == HTTP_TEXT ? JSON_TEXT : JSON_INT,
                                       i * sizeof(values[0]), 0, 0};
    }
    if (json_read(body, fields, values, room) < 0)
        return err_set(err, "%s",
                       dialect->bad_body ? dialect->bad_body
                                         : "the body is not valid JSON for this call");
    for (size_t i = 0; rows[i].name; i++) {
        int rc = 0;
        if (rows[i].from == FROM_JSON && rows[i].type == HTTP_TEXT)
            rc = set_value(dialect, &rows[i],
                           values[i].text.p ? values[i].text : SLICE_LIT(""), to, err);
        else if (rows[i].from == FROM_JSON)
            rc = failed(&rows[i],
                        put_int(&rows[i], values[i].n, (char *)to + rows[i].offset, err),
                        err);
        if (rc < 0)
            return -1;
    }
    return args->check ? args->check(to, err) : 0;
}

/* -------------------------------------------------------------------------- forms */

struct form {
    const struct http_param *rows;
    const struct http_dialect *dialect;
    void *to;
    struct buf *texts; /* of each row */
    struct err *err;
    bool failed, seen[HTTP_PARAMS_MAX];
};

static void add_text(const struct form *f, struct buf *text, bool again,
                     struct slice value)
{
    buf_add_str(text, again ? "," : "");
    if (f->dialect->add_text)
        f->dialect->add_text(text, value);
    else
        buf_add_slice(text, value);
}

static void on_form(void *arg, struct slice name, struct slice value)
{
    struct form *f = arg;
    const struct http_param *rows = f->rows;
    size_t i = 0;
    while (rows[i].name && (rows[i].from != FROM_FORM || !slice_is(name, rows[i].name)))
        i++;
    if (rows[i].name == NULL || f->failed)
        return;
    if (rows[i].type == HTTP_TEXT)
        add_text(f, &f->texts[i], f->seen[i], value);
    else if (!f->seen[i])
        f->failed = set_value(f->dialect, &rows[i], value, f->to, f->err) < 0;
    f->seen[i] = true;
}

/* Sets the texts, which are complete now. */
static int set_texts(struct form *f)
{
    for (size_t i = 0; f->rows[i].name; i++) {
        const struct http_param *row = &f->rows[i];
        if (row->from == FROM_FORM && row->required && !f->seen[i])
            return missing(row, f->err);
        if (f->seen[i] && row->type == HTTP_TEXT &&
            set_value(f->dialect, row, buf_slice(&f->texts[i]), f->to, f->err) < 0)
            return -1;
    }
    return 0;
}

static int read_form(struct httpd_req *req, const struct http_args *args,
                     const struct http_dialect *dialect, struct err *err)
{
    struct form f = {.rows = args->params,
                     .dialect = dialect,
                     .to = httpd_args(req),
                     .texts = new_texts(req, HTTP_PARAMS_MAX),
                     .err = err};
    bool parsed = httpd_each_param(req, on_form, &f) == 0;
    int rc = set_texts(&f);
    if (!parsed)
        return err_set(err, "%s",
                       dialect->bad_body ? dialect->bad_body
                                         : "the parameters cannot be read");
    return f.failed ? -1 : rc;
}

/* ----------------------------------------------------------------------- requests */

static int read_rows(const struct httpd_req *req, const struct http_param *rows, void *to,
                     const struct http_dialect *dialect, struct err *err)
{
    unsigned segment = 0;
    for (const struct http_param *row = rows; row->name; row++) {
        if (row->from == FROM_JSON || row->from == FROM_FORM)
            continue;
        struct slice value = row->from == FROM_PATH    ? httpd_segment(req, segment++)
                             : row->from == FROM_QUERY ? httpd_query(req, row->name)
                                                       : httpd_header(req, row->name);
        if (value.p == NULL && row->required)
            return missing(row, err);
        if (value.p && set_value(dialect, row, value, to, err) < 0)
            return -1;
    }
    return 0;
}

int httpd_read_args(struct httpd_req *req, const struct http_args *args, struct err *err)
{
    const struct http_dialect *dialect = httpd_dialect(req->h);
    const struct http_param *rows = args->params;
    buf_clear(&req->args);
    memset(buf_room(&req->args, args->size), 0, args->size);
    buf_grew(&req->args, args->size);
    set_defaults(rows, httpd_args(req));
    if ((!args->others && check_names(httpd_query_text(req), rows, err) < 0) ||
        read_rows(req, rows, httpd_args(req), dialect, err) < 0)
        return -1;
    if (has(rows, FROM_FORM) && read_form(req, args, dialect, err) < 0)
        return -1;
    if (has(rows, FROM_JSON))
        return http_args_read_json(args, dialect, httpd_body(req), httpd_args(req),
                                   new_texts(req, 1), err);
    return args->check ? args->check(httpd_args(req), err) : 0;
}

void *httpd_args(const struct httpd_req *req)
{
    return req->args.p;
}

void httpd_set_dialect(struct httpd *h, const struct http_dialect *dialect, void *arg)
{
    h->dialect = dialect;
    h->dialect_arg = arg;
}

const struct http_dialect *httpd_dialect(const struct httpd *h)
{
    return h->dialect ? h->dialect : &native_dialect;
}
