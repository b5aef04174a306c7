/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_cloudevent.c - libFuzzer: any bytes as the headers of an event, with each binding.
 * An event that a binding writes must be read back unchanged.
 */
#include "bridge/base/mem.h"
#include "bridge/job/cloudevent.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void add(struct job *job, struct slice line)
{
    const char *sign = memchr(line.p, '=', line.n);
    size_t name = sign ? (size_t)(sign - line.p) : line.n;
    struct slice value = {NULL, 0};

    if (sign)
        value = (struct slice){sign + 1, line.n - name - 1};
    job_add_header(job, (struct slice){line.p, name}, value, NULL);
}

/* The first four make it an event more often than chance would. */
static struct job *job_of(struct slice text, const char *prefix)
{
    static const char *const required[] = {"id", "source", "type", "specversion"};
    struct job *job = job_new(0);

    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
        job_add_header(job, job_format(job, "%s%s", prefix, required[i]), SLICE_LIT("1"),
                       NULL);
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end ? (size_t)(end - text.p) : text.n;
        add(job, (struct slice){text.p, n});
        n += end != NULL;
        text = (struct slice){text.p + n, text.n - n};
    }
    return job;
}

/* The content type has two names, and a null value becomes an empty one. */
static bool comes_back(const struct header *h)
{
    struct buf name = {0}, value = {0};
    bool attribute = cloudevent_out(h, CE_HTTP, &name, &value);

    buf_free(&name);
    buf_free(&value);
    return attribute && h->value.p && !slice_is(h->name, "ce_datacontenttype");
}

/* From one tarry to the next. The next one may reject a value that is not UTF-8. */
static void check_round(const struct job *job, enum ce_binding binding)
{
    struct job *next = job_new(0);
    struct buf name = {0}, value = {0};

    for (unsigned i = 0; i < job->header_count; i++) {
        struct header h = job->headers[i];
        buf_clear(&name);
        buf_clear(&value);
        if (cloudevent_out(&h, binding, &name, &value))
            h = (struct header){buf_slice(&name), buf_slice(&value)};
        job_add_header(next, h.name, h.value, NULL);
    }
    cloudevent_in(next, binding);
    for (unsigned i = 0; binding == CE_HTTP && i < job->header_count; i++) {
        if (!cloudevent_is(next) || next->header_count != job->header_count)
            break;
        if (comes_back(&job->headers[i]))
            must(slice_eq(next->headers[i].name, job->headers[i].name) &&
                 slice_eq(next->headers[i].value, job->headers[i].value));
    }
    must(cloudevent_expires_ms(next) >= 0);
    buf_free(&name);
    buf_free(&value);
    job_free(next);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    static const char *const prefixes[] = {
        [CE_KAFKA] = "ce_", [CE_HTTP] = "ce-", [CE_MQTT] = ""};

    for (unsigned b = 0; b < sizeof(prefixes) / sizeof(prefixes[0]); b++) {
        struct job *job = job_of((struct slice){(const char *)bytes, n}, prefixes[b]);
        unsigned before = job->header_count;
        cloudevent_in(job, (enum ce_binding)b);
        must(job->header_count <= before);
        if (cloudevent_is(job)) {
            check_round(job, CE_HTTP);
            check_round(job, CE_MQTT);
        }
        job_free(job);
    }
    return 0;
}
