/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_tmpl.c - libFuzzer: lines with a template, a topic filter, and a job's topic, key,
 * id and header. The rendered text must be a valid target: not empty, not too long, no
 * control character.
 */
#include "bridge/job/tmpl.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static void check_target(const struct tmpl *t, struct slice target)
{
    struct slice prefix = tmpl_prefix(t);

    must(target.n <= JOB_TARGET_MAX && (target.n > 0 || tmpl_is_constant(t)));
    for (size_t i = 0; i < target.n; i++)
        must((unsigned char)target.p[i] >= ' ' && target.p[i] != 0x7f);
    must(target.n >= prefix.n && memcmp(target.p, prefix.p, prefix.n) == 0);
    if (tmpl_is_constant(t))
        must(slice_eq(target, prefix));
}

static void render(const char *template, const struct job *job,
                   const struct slice *captures, unsigned n)
{
    struct err err = {""};
    struct buf out = {0};
    struct tmpl *t = tmpl_compile(template, &err);

    if (t == NULL) {
        must(err.text[0] != '\0');
        return;
    }
    buf_add_str(&out, "before");
    if (tmpl_render(t, job, captures, n, SLICE_LIT("route"), &out, &err) == 0)
        check_target(t, (struct slice){out.p + 6, out.n - 6});
    else
        must(slice_is(buf_slice(&out), "before") && err.text[0] != '\0');
    buf_free(&out);
    tmpl_free(t);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice rest = {(const char *)bytes, n}, captures[MATCH_CAPTURES_MAX];
    char *template = fuzz_text(fuzz_take(&rest, '\n'));
    char *filter = fuzz_text(fuzz_take(&rest, '\n'));
    struct job *job = job_new(n);
    unsigned count = 0;
    struct err err = {""};

    job->topic = job_copy_slice(job, fuzz_take(&rest, '\n'));
    job->key = job_copy_slice(job, fuzz_take(&rest, '\n'));
    job->id = job_copy_slice(job, fuzz_take(&rest, '\n'));
    struct slice name = fuzz_take(&rest, '=');
    job_add_header(job, name, rest, NULL);
    if (match_filter_check(filter, &err) == 0 &&
        match_topic(filter, job->topic, captures, &count)) {
        must(count <= MATCH_CAPTURES_MAX);
        for (unsigned i = 0; i < count; i++)
            must(captures[i].p >= job->topic.p &&
                 captures[i].p + captures[i].n <= job->topic.p + job->topic.n);
    }
    render(template, job, captures, count);
    job_free(job);
    free(template);
    free(filter);
    return 0;
}
