/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_repeat.c - libFuzzer: 8 bytes of an instant, then the text of a repeat. Either
 * there is a textual reason, or the runs are in ascending order.
 */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/job/delay.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct repeat r;
    struct err err = {""};
    int64_t at = 0;

    if (n < sizeof(at))
        return 0;
    memcpy(&at, bytes, sizeof(at));
    struct slice text = {(const char *)bytes + sizeof(at), n - sizeof(at)};
    if (repeat_parse(text, &r, &err) < 0) {
        must(err.text[0] != '\0');
        return 0;
    }
    must(repeat_least_ms(&r) > 0);
    for (int i = 0; i < 4; i++) {
        int64_t next = repeat_next_ms(&r, at, at);
        if (next < 0)
            break;
        must(next > at && next <= WHEN_LAST_MS);
        /* There is no run between the two. */
        must(at < 0 || repeat_next_ms(&r, at, next - 1) == next);
        at = next;
    }
    return 0;
}
