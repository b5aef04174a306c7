/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_delay.c - libFuzzer: lines of "name: value" as the headers of a message. A due
 * time is sane, or there is a reason in words.
 */
#include "bridge/delay.h"
#include "bridge/mem.h"
#include "bridge/when.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static struct slice take(struct slice *rest, char end)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct slice taken = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t step = taken.n + (at != NULL);
    *rest = (struct slice){rest->p + step, rest->n - step};
    return taken;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const struct delay_rules rules = {.max_delay_ms = 1 << 30, .hops_max = 8};
    struct slice rest = {(const char *)bytes, n};
    struct job *job = job_new(n);
    struct delay_read read;

    while (rest.n > 0) {
        struct slice value = take(&rest, '\n'), name = take(&value, ':');
        if (job_add_header(job, name, value, NULL) < 0)
            break;
    }
    delay_read(job, &rules, INT64_C(1769860800000), &read);
    must((read.reason == NULL) == (read.why[0] == '\0'));
    must(read.due_ms >= 0 && read.due_ms <= WHEN_LAST_MS && read.expires_ms >= 0);
    must(read.id.n <= DELAY_ID_MAX && read.to.n <= JOB_TARGET_MAX);
    job_free(job);
    return 0;
}
