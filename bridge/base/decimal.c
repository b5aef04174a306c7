/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/decimal.h"

/* Two digits are divided off at a time: half the divisions. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

static unsigned digits_of(uint64_t n)
{
    unsigned count = 1;
    for (; n >= 10000; n /= 10000)
        count += 4;
    return count + (n >= 10) + (n >= 100) + (n >= 1000);
}

size_t decimal_put(char *at, int64_t n)
{
    uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
    char *first = at + (n < 0), *p = first + digits_of(left), *const end = p;
    for (; left >= 10; left /= 100)
        memcpy(p -= 2, pairs + 2 * (left % 100), 2);
    if (p > first)
        *--p = (char)('0' + left);
    if (n < 0)
        *at = '-';
    return (size_t)(end - at);
}

void decimal_add(struct buf *out, int64_t n)
{
    buf_grew(out, decimal_put(buf_room(out, DECIMAL_MAX), n));
}
