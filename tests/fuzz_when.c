/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_when.c - libFuzzer: a byte of rules, then a text as a duration, an instant, and an
 * option's duration and size. An accepted value must be written as a text with the same
 * meaning.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/opt.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static void check_instant(struct slice text)
{
    char again[WHEN_TEXT_BYTES];
    int64_t ms, back;
    struct err err = {""};

    if (when_instant_ms(text, &ms, &err) < 0) {
        must(err.text[0] != '\0');
        return;
    }
    must(ms <= WHEN_LAST_MS);
    when_format_rfc3339(ms, again);
    if (ms >= INT64_C(-62167219200000)) { /* year 0: earlier years are not written */
        must(when_instant_ms(slice_of(again), &back, &err) == 0);
        must(back == ms);
    }
}

static void check_options(const char *text)
{
    char again[OPT_TEXT_SIZE];
    int64_t n, back;
    struct err err = {""};

    if (opt_parse_ms(text, &n, &err) == 0) {
        must(n >= 0);
        must(opt_parse_ms(opt_text_ms(n, again), &back, &err) == 0 && back == n);
    }
    if (text_parse_bytes(text, &n, &err) == 0) {
        must(n >= 0);
        must(text_parse_bytes(opt_text_bytes(n, again), &back, &err) == 0 && back == n);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice text = {(const char *)bytes, n};
    enum when_unit bare = (enum when_unit)(fuzz_byte(&text) % 3);
    struct err err = {""};
    int64_t ms = -1;

    if (when_duration_ms(text, bare, &ms, &err) == 0)
        must(ms >= 0);
    else
        must(ms == -1 && err.text[0] != '\0');
    check_instant(text);
    char *option = fuzz_text(text);
    check_options(option);
    free(option);
    return 0;
}
