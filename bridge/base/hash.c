/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"

#include <string.h>
#include <sys/random.h>

/* Both halves of the product: every bit of the one counts in all bits of the result. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint32_t hash_of(const void *bytes, size_t n)
{
    static uint64_t secret[2];
    const char *p = bytes;
    uint64_t word = 0;

    if (secret[1] == 0) {
        must(getrandom(secret, sizeof(secret), 0) == (ssize_t)sizeof(secret));
        secret[1] |= 1;
    }
    uint64_t hash = secret[0] ^ n;
    for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        hash = mix(hash ^ word, secret[1]);
    }
    word = 0;
    if (n > 0)
        memcpy(&word, p, n);
    return (uint32_t)mix(hash ^ word, secret[1]);
}
