/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/decimal.h"

/* Two digits are divided off at a time: half the divisions. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

size_t decimal_put(char *at, int64_t n)
{
    char digits[DECIMAL_MAX];
    unsigned first = DECIMAL_MAX;
    uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
    for (; left >= 10; left /= 100)
        memcpy(digits + (first -= 2), pairs + 2 * (left % 100), 2);
    if (left > 0 || first == DECIMAL_MAX)
        digits[--first] = (char)('0' + left);
    if (n < 0)
        digits[--first] = '-';
    memcpy(at, digits + first, DECIMAL_MAX - first);
    return DECIMAL_MAX - first;
}

void decimal_add(struct buf *out, int64_t n)
{
    buf_grew(out, decimal_put(buf_room(out, DECIMAL_MAX), n));
}
