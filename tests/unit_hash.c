/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_hash.c - the hash of tables whose keys come from outside. */
#include "bridge/base/hash.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 8, PAIRS = 10, NAMES = 1 << PAIRS, NAME_BYTES = PAIRS * BLOCK };

/* ------------------------------------------------------- names with the same FNV-1a
 * hash */

struct block {
    uint32_t hash; /* of everything up to its end */
    char text[BLOCK + 1];
};

static uint32_t fnv(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash;
}

static int by_hash(const void *a, const void *b)
{
    uint32_t one = ((const struct block *)a)->hash,
             other = ((const struct block *)b)->hash;
    return (one > other) - (one < other);
}

/* Find two blocks with the same hash after `from`. Returns that hash. */
static uint32_t find_pair(uint32_t from, struct block pair[2])
{
    enum { TRIES = 300000 }; /* among 2^16 random values of 2^32, two are likely equal */
    struct block *tried = calloc(TRIES, sizeof(*tried));
    uint32_t found = 0;

    for (unsigned i = 0; i < TRIES; i++) {
        snprintf(tried[i].text, sizeof(tried[i].text), "%08x", i * 0x9e3779b1U);
        tried[i].hash = fnv(from, tried[i].text);
    }
    qsort(tried, TRIES, sizeof(*tried), by_hash);
    for (unsigned i = 1; i < TRIES && found == 0; i++) {
        if (tried[i].hash != tried[i - 1].hash)
            continue;
        pair[0] = tried[i - 1];
        pair[1] = tried[i];
        found = tried[i].hash;
    }
    free(tried);
    assert_int_not_equal(found, 0);
    return found;
}

/* One of each pair, in every combination: ten pairs make 1024 names. */
static void make_names(char (*names)[NAME_BYTES + 1])
{
    uint32_t hash = 2166136261U;
    for (unsigned i = 0; i < PAIRS; i++) {
        struct block pair[2];
        hash = find_pair(hash, pair);
        for (unsigned n = 0; n < NAMES; n++)
            memcpy(names[n] + (size_t)i * BLOCK, pair[n >> i & 1].text, BLOCK + 1);
    }
    for (unsigned n = 0; n < NAMES; n++)
        assert_int_equal(fnv(2166136261U, names[n]), hash);
}

struct item {
    UT_hash_handle hh;
};

static void crafted_names_do_not_collide_in_the_hash(void **state)
{
    (void)state;
    static char names[NAMES][NAME_BYTES + 1];
    struct item *table = NULL, *items = calloc(NAMES, sizeof(*items)), *found;
    unsigned longest = 0;

    make_names(names);
    for (unsigned i = 0; i < NAMES; i++)
        HASH_ADD_KEYPTR(hh, table, names[i], NAME_BYTES, &items[i]);
    for (unsigned i = 0; i < table->hh.tbl->num_buckets; i++)
        if (table->hh.tbl->buckets[i].count > longest)
            longest = table->hh.tbl->buckets[i].count;
    assert_within(longest, 1, 30); /* above ten entries the table adds buckets */
    for (unsigned i = 0; i < NAMES; i++) {
        HASH_FIND(hh, table, names[i], NAME_BYTES, found);
        assert_ptr_equal(found, &items[i]);
    }
    HASH_CLEAR(hh, table);
    free(items);
}

/* ------------------------------------------------------------------------------ texts */

static void each_byte_and_the_length_count(void **state)
{
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        char text[41] = "";
        memset(text, 'a', n);
        uint32_t hash = hash_of(text, n);
        assert_int_equal(hash, hash_of(text, n));
        assert_int_not_equal(hash, hash_of(text, n + 1)); /* a NUL more */
        for (size_t i = 0; i < n; i++) {
            text[i] ^= 1;
            assert_int_not_equal(hash, hash_of(text, n));
            text[i] ^= 1;
        }
    }
    assert_int_equal(hash_of(NULL, 0), hash_of("", 0));
}

UNIT(hash)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crafted_names_do_not_collide_in_the_hash),
        cmocka_unit_test(each_byte_and_the_length_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
