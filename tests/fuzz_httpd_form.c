/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_httpd_form.c - libFuzzer: any bytes as a form, as a multipart body with its
 * Content-Type on the first line, as a path, and as a parameter value.
 */
#include "bridge/base/when.h"
#include "bridge/http/http_args.h"
#include "bridge/http/httpd_url.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static void on_param(void *arg, struct slice name, struct slice value)
{
    size_t *total = arg;
    *total += name.n + value.n;
}

static void check_path(struct slice raw)
{
    static const char *const patterns[] = {"/a/{}", "/{}/{}/b", "/a/{*}", "/"};
    char *room = mem_alloc(raw.n + 1);
    struct httpd_path path;

    if (httpd_path_split(&path, raw, room) == 0)
        for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
            struct slice took[HTTPD_PATH_PARAMS_MAX];
            struct httpd_pattern pattern;
            httpd_pattern_init(&pattern, patterns[i]);
            int count = httpd_pattern_match(&pattern, &path, took);
            must(count == -1 || count == (int)pattern.takes);
            for (int k = 0; k < count; k++)
                must(took[k].p && took[k].n <= raw.n);
        }
    free(room);
}

static void check_value(struct slice value)
{
    static const char *const words[] = {"low", "middle", "high", NULL};
    struct params {
        int64_t ms, n, yes, when, word;
        double number;
    } p = {.ms = 1};
#define AT(field) offsetof(struct params, field)
    static const struct http_param rows[] = {
        {"ms", HTTP_MS, AT(ms), .from = FROM_QUERY, .min = 1, .max = 1000},
        {"n", HTTP_INT, AT(n), .from = FROM_QUERY, .min = -5, .max = 100},
        {"yes", HTTP_BOOL, AT(yes), .from = FROM_QUERY},
        {"when", HTTP_WHEN, AT(when), .from = FROM_QUERY},
        {"word", HTTP_CHOICE, AT(word), .from = FROM_QUERY, .choices = words},
        {"number", HTTP_NUMBER, AT(number), .from = FROM_QUERY, .max = 1000}};
#undef AT

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = {""};
        must((http_param_set(&rows[i], value, &p, &err) < 0) == (err.text[0] != '\0'));
    }
    must(p.ms >= 1 && p.ms <= 1000 && p.n >= 0 && p.n <= 100 && p.yes >= 0 && p.yes < 2);
    must(p.when >= 0 && p.when <= WHEN_LAST_MS && p.word >= 0 && p.word < 3);
    must(p.number >= 0 && p.number <= 1000);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice in = {(const char *)bytes, n}, name, value, rest = in;
    size_t total = 0;

    check_path(in);
    check_value(in);
    form_each(in, on_param, &total);
    must(total <= n);
    while (form_next(&rest, &name, &value)) {
        must(name.n + value.n <= n);
        form_is(name, "topic");
    }
    const char *line = n ? memchr(in.p, '\n', n) : NULL;
    if (line) {
        struct slice type = {in.p, (size_t)(line - in.p)};
        total = 0;
        form_type_is(type, "multipart/form-data");
        multipart_each((struct slice){line + 1, n - type.n - 1}, type, on_param, &total);
        must(total <= n);
    }
    return 0;
}
