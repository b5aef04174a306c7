/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_params.h"
#include "bridge/base/when.h"

#include <inttypes.h>

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
        return err_set(err, "%s: from %" PRId64 " to %" PRId64 " ms", row->name, row->min,
                       row->max);
    *(int64_t *)field = ms;
    return 0;
}

/* The value of plain decimal digits; -1: they are none, or too many. */
static int64_t number_of(struct slice digits)
{
    int64_t n = 0;
    if (digits.n == 0)
        return -1;
    for (size_t i = 0; i < digits.n; i++) {
        char c = digits.p[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, c - '0', &n))
            return -1;
    }
    return n;
}

static int set_int(const struct http_param *row, struct slice value, void *field,
                   struct err *err)
{
    int64_t n = number_of(value);
    if (n < 0 || n < row->min || n > row->max)
        return err_set(err, "%s: an integer from %" PRId64 " to %" PRId64, row->name,
                       row->min, row->max);
    *(int64_t *)field = n;
    return 0;
}

static int set_when(const struct http_param *row, struct slice value, void *field,
                    struct err *err)
{
    struct err why;
    int64_t ms = 0;
    if (when_instant_ms(value, &ms, &why) < 0)
        return err_set(err, "%s: %s", row->name, why.text);
    if (ms < 0)
        return err_set(err, "%s: not before 1970", row->name);
    *(int64_t *)field = ms;
    return 0;
}

/* Digits, and perhaps a point and more digits: no sign, no exponent, no locale. */
static int set_number(const struct http_param *row, struct slice value, void *field,
                      struct err *err)
{
    double n = 0, unit = 1;
    bool point = false, good = value.n > 0 && value.n < NUMBER_BYTES_MAX;
    for (size_t i = 0; good && i < value.n; i++) {
        char c = value.p[i];
        if (c == '.') {
            good = !point && i > 0 && i + 1 < value.n;
            point = true;
            continue;
        }
        good = c >= '0' && c <= '9';
        n = point ? n + (c - '0') * (unit /= 10) : n * 10 + (c - '0');
    }
    if (!good || n > (double)row->max || n < NUMBER_LEAST)
        return err_set(err, "%s: a number up to %" PRId64 ", such as 2.5", row->name,
                       row->max);
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
    const char *third = choices[2];
    return err_set(err, "%s: %s%s%s or %s", row->name, choices[0], third ? ", " : "",
                   third ? choices[1] : "", third ? third : choices[1]);
}

static int set_text(const struct http_param *row, struct slice value, void *field,
                    struct err *err)
{
    (void)row;
    (void)err;
    *(struct slice *)field = value;
    return 0;
}

int http_param_set(const struct http_param *row, struct slice value, void *to,
                   struct err *err)
{
    static int (*const set[])(const struct http_param *, struct slice, void *,
                              struct err *) = {
        [HTTP_PARAM_MS] = set_ms,         [HTTP_PARAM_INT] = set_int,
        [HTTP_PARAM_BOOL] = set_choice,   [HTTP_PARAM_WHEN] = set_when,
        [HTTP_PARAM_NUMBER] = set_number, [HTTP_PARAM_CHOICE] = set_choice,
        [HTTP_PARAM_TEXT] = set_text};
    return set[row->type](row, value, (char *)to + row->offset, err);
}

static bool is_known(const struct http_param *rows, struct slice name)
{
    for (const struct http_param *row = rows; row->name; row++) {
        if (slice_is(name, row->name))
            return true;
    }
    return false;
}

static int check_names(struct slice query, const struct http_param *rows, struct err *err)
{
    const char *end = query.p + query.n;
    for (const char *p = query.p; p && p < end;) {
        const char *stop = memchr(p, '&', (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        const char *equals = memchr(p, '=', (size_t)(stop - p));
        struct slice name = {p, (size_t)((equals ? equals : stop) - p)};
        if (stop > p && !is_known(rows, name))
            return err_set(err, "unknown parameter \"%.*s\"",
                           (int)(name.n < 100 ? name.n : 100), name.p);
        p = stop + 1;
    }
    return 0;
}

static void set_default(const struct http_param *row, void *to)
{
    void *field = (char *)to + row->offset;
    if (row->type == HTTP_PARAM_TEXT)
        *(struct slice *)field = (struct slice){0};
    else if (row->type == HTTP_PARAM_NUMBER)
        *(double *)field = (double)row->def;
    else
        *(int64_t *)field = row->def;
}

int http_params_read(const struct httpd_req *req, const struct http_param *rows, void *to,
                     struct err *err)
{
    if (check_names(httpd_query_text(req), rows, err) < 0)
        return -1;
    for (const struct http_param *row = rows; row->name; row++) {
        struct slice value = httpd_query(req, row->name);
        set_default(row, to);
        if (value.p == NULL && row->required)
            return err_set(err, "%s is missing", row->name);
        if (value.p && http_param_set(row, value, to, err) < 0)
            return -1;
    }
    return 0;
}
