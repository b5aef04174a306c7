/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_dead_cursor.c - libFuzzer: any bytes as the cursor of a run through dead letters:
 * what is taken is written again as a text that means the same.
 */
#include "bridge/dead_cursor.h"
#include "bridge/job.h"
#include "bridge/mem.h"

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

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct dead_cursor c = {0};
    if (dead_cursor_read((struct slice){(const char *)bytes, n}, &c) == 0)
        check_again(&c);
    buf_free(&c.after);
    return 0;
}
