/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_redact.c - libFuzzer: any text as a line of the log, with a password at its end,
 * which must be hidden whatever precedes it.
 */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/log.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    enum { OUT_BYTES = 256 };
    static const char password[] = "zQ9zQ9zQ9";
    struct buf text = {0};
    char *out = mem_alloc(OUT_BYTES); /* on the heap: the sanitizer detects an overrun */

    buf_add(&text, bytes, strnlen((const char *)bytes, n));
    const bool found = redact_finds(buf_str(&text));
    redact_text(out, OUT_BYTES, buf_str(&text));
    must(strlen(out) < OUT_BYTES);
    must(found || strncmp(out, buf_str(&text), OUT_BYTES - 1) == 0);
    const bool knows = strstr(buf_str(&text), password) != NULL;
    buf_addf(&text, " redis://u:%s@h", password);
    must(redact_finds(buf_str(&text)));
    redact_text(out, OUT_BYTES, buf_str(&text));
    must(knows || strstr(out, password) == NULL);
    free(out);
    buf_free(&text);
    return 0;
}
