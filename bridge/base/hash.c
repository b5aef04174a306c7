/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"

#include <string.h>
#include <sys/random.h>

static uint64_t swap_halves(uint64_t a)
{
    return a >> 32 | a << 32;
}

/* Combines the four partial products, so that every input bit affects all result bits
 * without integers wider than 64 bits. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t a_low = (uint32_t)a, a_high = a >> 32;
    uint64_t b_low = (uint32_t)b, b_high = b >> 32;
    return a_high * b_high ^ a_low * b_low ^ swap_halves(a_high * b_low) ^
           swap_halves(a_low * b_high);
}

uint64_t hash_fnv1a(uint64_t from, struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        from = (from ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
    return from;
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
