/* SPDX-License-Identifier: BSD-2-Clause */
/* http_job_json.c - the content of a job as JSON. */
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/http/http_job.h"

#include <stdlib.h>

/* Sorts by name; keeps the order of equal names. */
static int compare_headers(const void *one, const void *other)
{
    const struct header *a = *(const struct header *const *)one;
    const struct header *b = *(const struct header *const *)other;
    const size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int order = n ? memcmp(a->name.p, b->name.p, n) : 0;
    if (order == 0 && a->name.n != b->name.n)
        order = a->name.n < b->name.n ? -1 : 1;
    return order ? order : a < b ? -1 : 1;
}

/* next[i]: the next header with the same name, 0: none. later[i]: i is not the first of
 * its name. */
static void link_names(const struct job *job, unsigned *next, bool *later)
{
    const struct header *sorted[JOB_HEADERS_MAX];
    must(job->header_count <= JOB_HEADERS_MAX);
    for (unsigned i = 0; i < job->header_count; i++)
        sorted[i] = &job->headers[i];
    qsort(sorted, job->header_count, sizeof(sorted[0]), compare_headers);
    for (unsigned i = 1; i < job->header_count; i++) {
        if (!slice_eq(sorted[i - 1]->name, sorted[i]->name))
            continue;
        next[sorted[i - 1] - job->headers] = (unsigned)(sorted[i] - job->headers);
        later[sorted[i] - job->headers] = true;
    }
}

static void show_value(struct buf *out, struct slice value, bool base64)
{
    if (!base64 || value.p == NULL) {
        text_add_json(out, value);
        return;
    }
    buf_add_str(out, "\"");
    text_add_base64(out, value);
    buf_add_str(out, "\"");
}

/* Returns whether any value of that name is not UTF-8. */
static bool is_binary(const struct job *job, const unsigned *next, unsigned i)
{
    bool binary = !text_is_utf8(job->headers[i].value);
    for (unsigned j = next[i]; j > 0; j = next[j])
        binary |= !text_is_utf8(job->headers[j].value);
    return binary;
}

/* Appends {"name":"value","again":["a","b"]} with the headers whose values are all UTF-8;
 * base64: with the others. Returns the number of headers omitted. */
static unsigned show_some(struct buf *out, const struct job *job, const unsigned *next,
                          const bool *later, bool base64)
{
    const char *comma = "{";
    unsigned left_out = 0;
    for (unsigned i = 0; i < job->header_count; i++) {
        if (later[i])
            continue; /* written with the first of its name */
        if (is_binary(job, next, i) != base64) {
            left_out++;
            continue;
        }
        buf_add_str(out, comma);
        text_add_json(out, job->headers[i].name);
        buf_add_str(out, next[i] ? ":[" : ":");
        show_value(out, job->headers[i].value, base64);
        for (unsigned j = next[i]; j > 0; j = next[j]) {
            buf_add_str(out, ",");
            show_value(out, job->headers[j].value, base64);
        }
        buf_add_str(out, next[i] ? "]" : "");
        comma = ",";
    }
    buf_add_str(out, *comma == ',' ? "}" : "{}");
    return left_out;
}

static void show_headers(struct buf *out, const struct job *job)
{
    unsigned next[JOB_HEADERS_MAX] = {0};
    bool later[JOB_HEADERS_MAX] = {false};
    link_names(job, next, later);
    buf_add_str(out, ",\"headers\":");
    if (show_some(out, job, next, later, false) == 0)
        return;
    buf_add_str(out, ",\"headers_base64\":");
    show_some(out, job, next, later, true);
}

void http_job_members(struct buf *out, const struct job *job)
{
    text_add_json_bytes(out, "key", job->key);
    show_headers(out, job);
    text_add_json_bytes(out, "payload", job->payload);
}

void http_add_when(struct buf *out, const char *name, int64_t ms)
{
    char text[WHEN_TEXT_BYTES];
    if (ms <= 0) {
        buf_addf(out, ",\"%s\":null", name);
        return;
    }
    when_format_rfc3339(ms, text);
    buf_addf(out, ",\"%s\":\"%s\"", name, text);
}
