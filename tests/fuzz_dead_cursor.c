/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_dead_cursor.c - libFuzzer: any bytes as a cursor. An accepted cursor must be
 * written as a text with the same meaning.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/mem.h"
#include "bridge/job/job.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

enum { NUMBERS_MAX = 7 };

static void check(struct slice text, unsigned n, size_t most)
{
    int64_t numbers[NUMBERS_MAX] = {0}, again[NUMBERS_MAX] = {0};
    struct buf bytes = {0}, same = {0}, written = {0};

    if (cursor_read(text, numbers, n, most, &bytes) == 0) {
        must(bytes.n <= most);
        for (unsigned i = 0; i < n; i++)
            must(numbers[i] >= 0);
        cursor_add(&written, numbers, n, buf_slice(&bytes));
        must(cursor_read(buf_slice(&written), again, n, most, &same) == 0);
        must(memcmp(numbers, again, sizeof(numbers)) == 0);
        must(slice_eq(buf_slice(&bytes), buf_slice(&same)));
    }
    buf_free(&bytes);
    buf_free(&same);
    buf_free(&written);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    const struct slice text = {(const char *)bytes, n};
    check(text, 3, 64);
    check(text, 4, JOB_ID_MAX);           /* of dead letters and job lists */
    check(text, NUMBERS_MAX, JOB_ID_MAX); /* of changes of many jobs */
    return 0;
}
