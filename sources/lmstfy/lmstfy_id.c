/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_id.h"

#include <errno.h>
#include <sys/random.h>

enum { BITS = 5, TIME_BYTES = 6, RANDOM_BYTES = 6, ULID_BYTES = 16 };

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* The digit's value; -1: it is none. */
static int value_of(char c)
{
    const char *d = c ? strchr(digits, c) : NULL;
    return d ? (int)(d - digits) : -1;
}

/* 128 bits in 130: the first digit has but three of its own. */
void lmstfy_ulid_write(const unsigned char bytes[ULID_BYTES], char out[LMSTFY_ULID])
{
    uint32_t bits = 0;
    int have = 2, n = 0; /* the two that are always zero */
    for (int i = 0; i < ULID_BYTES; i++) {
        bits = bits << 8 | bytes[i];
        for (have += 8; have >= BITS; have -= BITS)
            out[n++] = digits[bits >> (have - BITS) & 31];
    }
}

int lmstfy_ulid_read(const char text[LMSTFY_ULID], unsigned char bytes[ULID_BYTES])
{
    uint32_t bits = 0;
    int have = -2, n = 0;
    if (value_of(text[0]) > 7)
        return -1;
    for (int i = 0; i < LMSTFY_ULID; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return -1;
        bits = bits << BITS | (uint32_t)value;
        have += BITS;
        if (have >= 8) {
            have -= 8;
            bytes[n++] = (unsigned char)(bits >> have);
        }
    }
    return 0;
}

static void take_random(struct lmstfy_ids *ids, unsigned char *to, size_t n)
{
    if (ids->left < n) {
        /* More than 256 bytes may come in parts. */
        for (size_t have = 0; have < sizeof(ids->random);) {
            ssize_t got = getrandom(ids->random + have, sizeof(ids->random) - have, 0);
            must(got > 0 || (got < 0 && errno == EINTR));
            have += got > 0 ? (size_t)got : 0;
        }
        ids->left = sizeof(ids->random);
    }
    ids->left -= n;
    memcpy(to, ids->random + ids->left, n);
}

static void put_time(unsigned char bytes[ULID_BYTES], int64_t now_ms)
{
    for (int i = 0; i < TIME_BYTES; i++)
        bytes[i] = (unsigned char)(now_ms >> (8 * (TIME_BYTES - 1 - i)));
}

struct slice lmstfy_job_id(struct lmstfy_ids *ids, int64_t now_ms, uint32_t delay_s,
                           bool with_version, char out[LMSTFY_JOB_ID])
{
    unsigned char bytes[ULID_BYTES];
    size_t n = with_version ? 1 : 0;
    put_time(bytes, now_ms);
    take_random(ids, bytes + TIME_BYTES, RANDOM_BYTES);
    for (int i = 0; i < 4; i++)
        bytes[TIME_BYTES + RANDOM_BYTES + i] = (unsigned char)(delay_s >> (8 * i));
    out[0] = '1';
    lmstfy_ulid_write(bytes, out + n);
    return (struct slice){out, LMSTFY_ULID + n};
}

void lmstfy_ulid(struct lmstfy *l, char out[LMSTFY_ULID])
{
    unsigned char bytes[ULID_BYTES];
    put_time(bytes, source_now_ms(l->src, (struct slice){NULL, 0}));
    take_random(l->ids, bytes + TIME_BYTES, ULID_BYTES - TIME_BYTES);
    lmstfy_ulid_write(bytes, out);
}

bool lmstfy_id_has_version(struct slice id)
{
    return id.n == LMSTFY_JOB_ID && id.p[0] == '1';
}

int64_t lmstfy_id_ms(struct slice id)
{
    unsigned char bytes[ULID_BYTES];
    int64_t ms = 0;
    size_t skip = lmstfy_id_has_version(id) ? 1 : 0;
    if (id.n - skip != LMSTFY_ULID || lmstfy_ulid_read(id.p + skip, bytes) < 0)
        return -1;
    for (int i = 0; i < TIME_BYTES; i++)
        ms = ms << 8 | bytes[i];
    return ms;
}

int64_t lmstfy_id_due_ms(struct slice id)
{
    unsigned char bytes[ULID_BYTES];
    uint32_t delay_s = 0;
    int64_t made_ms = lmstfy_id_ms(id);
    if (made_ms < 0 || lmstfy_ulid_read(id.p + (id.n - LMSTFY_ULID), bytes) < 0)
        return -1;
    for (int i = ULID_BYTES - 1; i >= TIME_BYTES + RANDOM_BYTES; i--)
        delay_s = delay_s << 8 | bytes[i];
    return delay_s > 0 ? made_ms + (int64_t)delay_s * 1000 : 0;
}
