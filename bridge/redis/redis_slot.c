/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_slot.c - CRC16/XMODEM of a key's hash tag, modulo the slots. Pure.
 */
#include "bridge/redis/redis_slot.h"

unsigned redis_slot(struct slice key)
{
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL;
    if (open) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', (size_t)(key.p + key.n - tag));
        if (close && close > tag)
            key = (struct slice){tag, (size_t)(close - tag)};
    }
    unsigned crc = 0;
    for (size_t i = 0; i < key.n; i++) {
        crc ^= (unsigned)(unsigned char)key.p[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return crc % REDIS_SLOTS;
}
