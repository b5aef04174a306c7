/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_httpd_form.c - libFuzzer: any bytes as a form, and any as a multipart body with
 * its Content-Type on the first line.
 */
#include "bridge/base/mem.h"
#include "bridge/httpd/httpd_form.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void on_param(void *arg, struct slice name, struct slice value)
{
    size_t *told = arg;
    *told += name.n + value.n;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice in = {(const char *)bytes, n}, name, value, rest = in;
    size_t told = 0;

    form_each(in, on_param, &told);
    must(told <= n);
    while (form_next(&rest, &name, &value)) {
        must(name.n + value.n <= n);
        form_is(name, "topic");
    }
    const char *line = n ? memchr(in.p, '\n', n) : NULL;
    if (line) {
        struct slice type = {in.p, (size_t)(line - in.p)};
        told = 0;
        form_type_is(type, "multipart/form-data");
        multipart_each((struct slice){line + 1, n - type.n - 1}, type, on_param, &told);
        must(told <= n);
    }
    return 0;
}
