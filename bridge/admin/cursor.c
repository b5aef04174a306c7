/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/cursor.h"
#include "bridge/base/text.h"

#include <inttypes.h>

void cursor_add(struct buf *out, const int64_t *numbers, unsigned n, struct slice bytes)
{
    for (unsigned i = 0; i < n; i++)
        buf_addf(out, "%" PRId64 ".", numbers[i]);
    for (size_t i = 0; i < bytes.n; i++)
        buf_addf(out, "%02x", (unsigned char)bytes.p[i]);
}

/* Takes "123." off text. */
static int take_number(struct slice *text, int64_t *n)
{
    size_t i = 0;
    *n = 0;
    while (i < text->n && text->p[i] >= '0' && text->p[i] <= '9') {
        if (__builtin_mul_overflow(*n, 10, n) ||
            __builtin_add_overflow(*n, text->p[i] - '0', n))
            return -1;
        i++;
    }
    if (i == 0 || i == text->n || text->p[i] != '.')
        return -1;
    *text = (struct slice){text->p + i + 1, text->n - i - 1};
    return 0;
}

/* -1: no digit, or not as cursor_add() writes it. */
static int digit(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : text_hex_digit(c);
}

int cursor_read(struct slice text, int64_t *numbers, unsigned n, size_t most,
                struct buf *bytes)
{
    for (unsigned i = 0; i < n; i++)
        if (take_number(&text, &numbers[i]) < 0)
            return -1;
    if (text.n % 2 != 0 || text.n / 2 > most)
        return -1;
    for (size_t i = 0; i < text.n; i += 2) {
        int high = digit(text.p[i]), low = digit(text.p[i + 1]);
        if (high < 0 || low < 0)
            return -1;
        buf_add(bytes, &(char){(char)(high * 16 + low)}, 1);
    }
    return 0;
}
