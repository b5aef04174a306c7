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

/* Remove "123." from the start of text. */
static int take_number(struct slice *text, int64_t *n)
{
    if (text_take_digits(text, n) == 0 || *n == INT64_MAX || text->n == 0 ||
        text->p[0] != '.')
        return -1;
    *text = (struct slice){text->p + 1, text->n - 1};
    return 0;
}

/* Returns -1 if c is not a digit as cursor_add() writes it. */
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
