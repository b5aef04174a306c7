/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_tmpl.c - templates of targets: compiling, rendering, and rejected templates. */
#include "bridge/job/tmpl.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static const struct slice captures[] = {SLICE_LIT("north"), SLICE_LIT("a/b"),
                                        SLICE_LIT("")};

static struct job *sample(void)
{
    struct job *job = job_new(0);
    job->id = SLICE_LIT("id-1");
    job->topic = SLICE_LIT("in/topic");
    job->key = SLICE_LIT("k");
    job_add_header(job, SLICE_LIT("Reply-To"), SLICE_LIT("answers"), NULL);
    job_add_header(job, SLICE_LIT("empty"), SLICE_LIT(""), NULL);
    job_add_header(job, SLICE_LIT("none"), (struct slice){NULL, 0}, NULL);
    job_add_header(job, SLICE_LIT("crlf"), SLICE_LIT("a\r\nEvil: b"), NULL);
    job_add_header(job, SLICE_LIT("nul"), SLICE_LIT("a\0b"), NULL);
    return job;
}

static int render(const char *text, const struct job *job, struct buf *out,
                  struct err *err)
{
    struct tmpl *t = tmpl_compile(text, err);
    if (t == NULL)
        fail_msg("\"%s\": %s", text, err->text);
    int rc =
        tmpl_render(t, job, captures, COUNT(captures), SLICE_LIT("devices"), out, err);
    tmpl_free(t);
    return rc;
}

static void fields_are_filled_in(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"orders", "orders"},
        {"", ""},
        {"{topic}", "in/topic"},
        {"{key}", "k"},
        {"{id}", "id-1"},
        {"{route}", "devices"},
        {"{1}", "north"},
        {"x/{1}/{2}/{3}y", "x/north/a/b/y"},
        {"{header.reply-to}", "answers"},
        {"{header.REPLY-TO}{header.empty}", "answers"},
        {"{{{key}}}", "{k}"},
        {"{{key}}", "{key}"},
        {"{{}}", "{}"},
        {"}}{{", "}{"},
        {"https://x.example/{route}/{id}?a=%7B", "https://x.example/devices/id-1?a=%7B"},
    };
    struct job *job = sample();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out = {0};
        struct err err = {""};
        buf_add_str(&out, "before:");
        if (render(rows[i].text, job, &out, &err) < 0)
            fail_msg("\"%s\": %s", rows[i].text, err.text);
        assert_string_equal(buf_str(&out) + 7, rows[i].want);
        buf_free(&out);
    }
    job_free(job);
}

static void a_missing_field_is_an_error_and_writes_no_target(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "x{4}",           "x{9}",          "x{header.absent}", "x{header.none}",
        "{header.empty}", "{header.crlf}", "{header.nul}",     "{3}{header.empty}",
    };
    struct job *job = sample();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out = {0};
        struct err err = {""};
        buf_add_str(&out, "before:");
        if (render(rows[i], job, &out, &err) == 0 || err.text[0] == '\0')
            fail_msg("\"%s\" renders", rows[i]);
        if (rows[i][0] == 'x' && rows[i][2] != 'h')
            assert_non_null(strstr(err.text, "the topic of the message matches only 3 "));
        assert_string_equal(buf_str(&out), "before:");
        buf_free(&out);
    }
    job_free(job);
    job = job_new(0);
    static const char *const bare[] = {"x{topic}", "x{key}", "x{id}"};
    for (size_t i = 0; i < COUNT(bare); i++) {
        struct buf out = {0};
        struct err err = {""};
        assert_int_equal(render(bare[i], job, &out, &err), -1);
        assert_int_equal(out.n, 0);
        buf_free(&out);
    }
    job_free(job);
}

static void a_target_has_a_greatest_length(void **state)
{
    (void)state;
    static char long_key[JOB_TARGET_MAX];
    struct job *job = job_new(0);
    struct buf out = {0};
    struct err err = {""};
    memset(long_key, 'k', sizeof(long_key));
    job->key = (struct slice){long_key, sizeof(long_key)};
    assert_int_equal(render("{key}", job, &out, &err), 0);
    assert_int_equal(out.n, JOB_TARGET_MAX);
    buf_clear(&out);
    assert_int_equal(render("{key}x", job, &out, &err), -1);
    assert_int_equal(render("{key}{key}", job, &out, &err), -1);
    assert_int_equal(out.n, 0);
    buf_free(&out);
    job_free(job);
}

static void a_wrong_template_is_refused_when_compiled(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{topics}", "{header.NAME}"},
        {"{}", "unknown"},
        {"{0}", "unknown"},
        {"{10}", "unknown"},
        {"{header.}", "unknown"},
        {"{header}", "unknown"},
        {"{Topic}", "unknown"},
        {"{ topic}", "unknown"},
        {"a{", "unpaired {"},
        {"a}", "unpaired }"},
        {"{topic", "unpaired {"},
        {"{to{pic}", "unpaired {"},
        {"{topic}}", "unpaired }"},
        {"a\nb", "control"},
        {"a\x7f", "control"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err err = {""};
        if (tmpl_compile(rows[i].text, &err) || strstr(err.text, rows[i].says) == NULL)
            fail_msg("\"%s\": %s", rows[i].text, err.text);
    }
    char text[JOB_TARGET_MAX + 2];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_null(tmpl_compile(text, NULL));
}

static void a_template_without_fields_is_constant(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool constant;
    } rows[] = {
        {"", true}, {"orders", true}, {"{{a}}", true}, {"{key}", false}, {"a{1}", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tmpl *t = tmpl_compile(rows[i].text, NULL);
        assert_non_null(t);
        assert_int_equal(tmpl_is_constant(t), rows[i].constant);
        tmpl_free(t);
    }
    tmpl_free(NULL);
}

static void a_queues_name_may_contain_control_characters_but_no_nul(void **state)
{
    (void)state;
    struct job *job = sample();
    struct buf out = {0};
    struct err err;
    const char *const texts[] = {"{header.crlf}", "{header.nul}"};
    for (int i = 0; i < 2; i++) {
        struct tmpl *t = tmpl_compile(texts[i], &err);
        assert_int_equal(tmpl_render(t, job, NULL, 0, SLICE_LIT("r"), &out, &err), -1);
        tmpl_names_queue(t);
        assert_int_equal(tmpl_render(t, job, NULL, 0, SLICE_LIT("r"), &out, &err), -i);
        tmpl_free(t);
    }
    assert_string_equal(buf_str(&out), "a\r\nEvil: b");
    buf_free(&out);
    job_free(job);
}

static void a_template_separates_topics_by_the_topic_or_by_every_capture(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned captures;
        bool separates;
    } rows[] = {{"orders", 0, false},   {"{key}", 2, false},      {"{topic}", 0, true},
                {"x-{topic}", 2, true}, {"{1}", 1, true},         {"{1}", 2, false},
                {"{2}/{1}", 2, true},   {"{1}{3}{2}", 3, true},   {"{1}{1}", 2, false},
                {"{1}", 0, false},      {"{1}{2}{3}", 100, false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tmpl *t = tmpl_compile(rows[i].text, NULL);
        assert_non_null(t);
        assert_int_equal(tmpl_separates_topics(t, rows[i].captures), rows[i].separates);
        tmpl_free(t);
    }
}

UNIT(tmpl)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_filled_in),
        cmocka_unit_test(a_missing_field_is_an_error_and_writes_no_target),
        cmocka_unit_test(a_target_has_a_greatest_length),
        cmocka_unit_test(a_wrong_template_is_refused_when_compiled),
        cmocka_unit_test(a_template_without_fields_is_constant),
        cmocka_unit_test(a_queues_name_may_contain_control_characters_but_no_nul),
        cmocka_unit_test(a_template_separates_topics_by_the_topic_or_by_every_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
