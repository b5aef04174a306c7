/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_dead_cursor.c - libFuzzer: any bytes as the cursor of a run through dead letters,
 * and as any cursor: what is taken is written again as a text that means the same.
 */
#include "bridge/admin/cursor.h"
#include "bridge/admin/dead.h"
#include "bridge/base/mem.h"
#include "bridge/job/job.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void check_again(const struct dead_cursor *c)
{
    struct dead_cursor again = {0};
    struct buf text = {0};
    must(c->bucket >= 0 && c->end_ms >= 0 && c->next_us >= 0 && c->after_ms >= 0);
    must(c->after.n <= JOB_ID_MAX);
    dead_cursor_add(c, &text);
    must(dead_cursor_read(buf_slice(&text), &again) == 0);
    must(again.bucket == c->bucket && again.end_ms == c->end_ms);
    must(again.next_us == c->next_us && again.after_ms == c->after_ms);
    must(slice_eq(buf_slice(&again.after), buf_slice(&c->after)));
    buf_free(&again.after);
    buf_free(&text);
}

static void check_any(struct slice text)
{
    enum { NUMBERS = 3, MOST = 64 };
    int64_t numbers[NUMBERS], again[NUMBERS];
    struct buf bytes = {0}, same = {0}, written = {0};

    if (cursor_read(text, numbers, NUMBERS, MOST, &bytes) == 0) {
        must(bytes.n <= MOST);
        cursor_add(&written, numbers, NUMBERS, buf_slice(&bytes));
        must(cursor_read(buf_slice(&written), again, NUMBERS, MOST, &same) == 0);
        must(memcmp(numbers, again, sizeof(numbers)) == 0);
        must(slice_eq(buf_slice(&bytes), buf_slice(&same)));
    }
    buf_free(&bytes);
    buf_free(&same);
    buf_free(&written);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct dead_cursor c = {0};
    check_any((struct slice){(const char *)bytes, n});
    if (dead_cursor_read((struct slice){(const char *)bytes, n}, &c) == 0)
        check_again(&c);
    buf_free(&c.after);
    return 0;
}
