/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_delay.c - libFuzzer: three bytes of rules and lines of "name: value" as the
 * headers of a message; "name" alone has a null value. The due time is valid, or there is
 * a textual reason.
 */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/job/delay.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static struct slice take(struct slice *rest, char end)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct slice taken = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t step = taken.n + (at != NULL);
    *rest = (struct slice){rest->p + step, rest->n - step};
    return taken;
}

/* The first bytes: which header sets are enabled, and how the message was received. */
static void set_rules(struct delay_rules *rules, struct job *job, struct slice *rest)
{
    unsigned char given[3] = {0};
    for (size_t i = 0; i < sizeof(given) && rest->n > 0; i++, rest->p++, rest->n--)
        given[i] = (unsigned char)rest->p[0];
    rules->compat = given[0];
    rules->binary_ints = given[1] & 1;
    rules->key_is_id = given[1] & 2;
    rules->clamp = given[1] & 4;
    rules->max_delay_ms = given[1] & 8 ? 0 : 1 << 30;
    rules->default_delay_ms = given[1] & 16 ? 5000 : 0;
    rules->bare_unit = given[1] >> 5 & 1 ? WHEN_MS : given[1] >> 6 & 1 ? WHEN_S : 0;
    job->tombstone = given[2] & 1;
    job->timestamp_ms = given[2] & 2 ? INT64_C(1769860790000) : 0;
    if (given[2] & 4)
        job->key = SLICE_LIT("key");
    else if (given[2] & 8)
        job->key = SLICE_LIT("k\n");
}

static void check(const struct delay_read *read, const struct job *job)
{
    must((read->reason == NULL) == (read->why[0] == '\0'));
    must(read->due_ms >= 0 && read->due_ms <= WHEN_LAST_MS && read->expires_ms >= 0);
    must(read->id.n <= DELAY_ID_MAX && read->to.n <= JOB_TARGET_MAX);
    must(read->repeat.n <= REPEAT_MAX && read->repeat_count >= 0);
    must(read->repeat_until_ms >= 0 && read->repeat_until_ms <= WHEN_LAST_MS);
    must(read->attempts >= 0 && read->attempts <= 1000000);
    if (read->reason)
        return;
    must(read->op == DELAY_ADD || read->id.n > 0);
    must(read->repeat.p || (read->repeat_count == 0 && read->repeat_until_ms == 0));
    must(!job->tombstone || job->header_count > 0 || read->op == DELAY_CANCEL);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice rest = {(const char *)bytes, n};
    struct delay_rules rules = {.hops_max = 8};
    struct job *job = job_new(n);
    struct delay_read read;

    set_rules(&rules, job, &rest);
    while (rest.n > 0) {
        struct slice value = take(&rest, '\n'), line = value, name = take(&value, ':');
        if (name.n == line.n)
            value = (struct slice){NULL, 0};
        if (job_add_header(job, name, value, NULL) < 0)
            break;
    }
    delay_read(job, &rules, INT64_C(1769860800000), &read);
    check(&read, job);
    for (unsigned i = 0; i < job->header_count; i++)
        delay_is_control(job->headers[i].name, &rules);
    job_free(job);
    return 0;
}
