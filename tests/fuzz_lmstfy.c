/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_lmstfy.c - libFuzzer: any bytes as a path, a token, a topic, an id and a
 * header of a request to the lmstfy source.
 */
#include "sources/lmstfy/lmstfy.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void read_names(struct slice in)
{
    struct slice a, b, c, took[3];
    struct buf topic = {0};
    lmstfy_split_token(in, &a, &b);
    must(a.n + b.n <= in.n + sizeof("default"));
    if (lmstfy_split_topic(in, &a, &b, &c) == 0) {
        lmstfy_add_topic(&topic, a, b, c);
        must(slice_eq(buf_slice(&topic), in) || slice_is(a, "default"));
    }
    if (lmstfy_route(lmstfy_rows, "PUT", in, took) ||
        lmstfy_route(lmstfy_rows, "GET", in, took))
        must(took[0].n > 0 && took[1].n > 0);
    buf_free(&topic);
}

/* Each line is a header. */
static void read_attributes(struct slice in)
{
    struct job *job = job_new(0);
    while (in.n > 0) {
        const char *end = memchr(in.p, '\n', in.n), *colon;
        struct slice line = {in.p, end ? (size_t)(end - in.p) : in.n};
        in.p += line.n + (end ? 1 : 0);
        in.n -= line.n + (end ? 1 : 0);
        colon = line.n ? memchr(line.p, ':', line.n) : NULL;
        if (colon == NULL)
            continue;
        size_t n = (size_t)(colon - line.p);
        lmstfy_attr_add(job, (struct slice){line.p, n},
                        (struct slice){colon + 1, line.n - n - 1});
    }
    must(job->header_count <= LMSTFY_ATTRS + 1);
    job_free(job);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice in = {(const char *)bytes, n};
    read_names(in);
    read_attributes(in);
    must(lmstfy_id_ms(in) >= -1);
    return 0;
}
