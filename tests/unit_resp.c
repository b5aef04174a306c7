/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_resp.c - commands as Redis reads them, numbers in them, and replies in one block.
 */
#include "bridge/base/text.h"
#include "bridge/redis/resp.h"
#include "tests/unit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

/* ---------------------------------------------------------------------- numbers */

static void same_as_printf(int64_t n)
{
    char expected[32], found[TEXT_DECIMAL_MAX + 1];
    snprintf(expected, sizeof(expected), "%" PRId64, n);
    memset(found, 'x', sizeof(found));
    size_t length = text_put_decimal(found, n);
    assert_int_equal(found[length], 'x'); /* nothing is written after it */
    found[length] = '\0';
    assert_string_equal(found, expected);
}

static void numbers_are_written_as_printf_does(void **state)
{
    (void)state;
    static const int64_t ends[] = {0, -1, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        same_as_printf(ends[i]);
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10) {
        const int64_t near[] = {power - 1, power, power + 1, 5 * power + 7};
        for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
            same_as_printf(near[i]);
            same_as_printf(-near[i]);
        }
    }
    for (int64_t n = -1100; n < 1100; n++)
        same_as_printf(n);
}

static void numbers_are_appended(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_add_str(&b, "topic/");
    text_add_decimal(&b, 17);
    buf_add_str(&b, "/");
    text_add_decimal(&b, -9000);
    assert_string_equal(buf_str(&b), "topic/17/-9000");
    buf_free(&b);
}

/* --------------------------------------------------------------------- commands */

static void assert_bytes(struct slice found, const char *expected)
{
    assert_int_equal(found.n, strlen(expected));
    assert_memory_equal(found.p, expected, found.n);
}

static void a_command_is_encoded_as_words_with_their_lengths(void **state)
{
    (void)state;
    struct resp c = {0};
    resp_begin(&c);
    resp_add(&c, SLICE_LIT("SET"));
    resp_add(&c, SLICE_LIT("a\r\nb"));
    resp_add_number(&c, -1234567890123);
    resp_add(&c, (struct slice){NULL, 0});
    assert_bytes(resp_end(&c), "*4\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n"
                               "$14\r\n-1234567890123\r\n$0\r\n\r\n");
    resp_begin(&c); /* nothing of the previous command remains */
    resp_add(&c, SLICE_LIT("PING"));
    assert_bytes(resp_end(&c), "*1\r\n$4\r\nPING\r\n");
    resp_free(&c);
}

static void a_large_command_frees_its_memory(void **state)
{
    (void)state;
    enum { WORDS = 12345, BYTES = 1000 };
    struct resp c = {0};
    char *word = calloc(1, BYTES);
    resp_begin(&c);
    for (unsigned i = 0; i < WORDS; i++)
        resp_add(&c, (struct slice){word, BYTES});
    struct slice all = resp_end(&c);
    assert_int_equal(all.n, strlen("*12345\r\n") + WORDS * (7 + BYTES + 2));
    assert_memory_equal(all.p, "*12345\r\n$1000\r\n", 15);
    assert_true(c.bytes.cap > all.n);
    resp_begin(&c);
    assert_true(c.bytes.cap < 1024 * 1024);
    resp_free(&c);
    free(word);
}

/* ---------------------------------------------------------------------- replies */

/* Parse one reply, byte by byte. */
static const redisReply *read_reply(redisReader *reader, const char *bytes, size_t n)
{
    void *reply = NULL;
    for (size_t i = 0; i < n; i++) {
        assert_null(reply);
        assert_int_equal(redisReaderFeed(reader, bytes + i, 1), REDIS_OK);
        assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    }
    assert_non_null(reply);
    return reply;
}

static void check_nested(redisReader *reader)
{
    static const char bytes[] = "*5\r\n:-77\r\n$4\r\na\r\nb\r\n$-1\r\n"
                                "*2\r\n+OK\r\n*0\r\n$0\r\n\r\n";
    const redisReply *r = read_reply(reader, bytes, sizeof(bytes) - 1);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 5);
    assert_int_equal(r->element[0]->type, REDIS_REPLY_INTEGER);
    assert_int_equal(r->element[0]->integer, -77);
    assert_int_equal(r->element[1]->type, REDIS_REPLY_STRING);
    assert_int_equal(r->element[1]->len, 4);
    assert_string_equal(r->element[1]->str, "a\r\nb");
    assert_int_equal(r->element[2]->type, REDIS_REPLY_NIL);
    assert_int_equal(r->element[3]->elements, 2);
    assert_int_equal(r->element[3]->element[0]->type, REDIS_REPLY_STATUS);
    assert_string_equal(r->element[3]->element[0]->str, "OK");
    assert_int_equal(r->element[3]->element[1]->elements, 0);
    assert_int_equal(r->element[4]->len, 0);
    assert_string_equal(r->element[4]->str, "");
}

/* Parse an array of n numbered strings. All of them remain valid until the end. */
static void check_long(redisReader *reader, unsigned n)
{
    struct buf bytes = {0};
    void *read = NULL;
    buf_addf(&bytes, "*%u\r\n", n);
    for (unsigned i = 0; i < n; i++)
        buf_addf(&bytes, "$6\r\n%06u\r\n", i);
    assert_int_equal(redisReaderFeed(reader, bytes.p, bytes.n), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &read), REDIS_OK);
    const redisReply *r = read;
    assert_int_equal(r->elements, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(atoi(r->element[i]->str), i);
    buf_free(&bytes);
}

static void replies_lie_in_a_pool(void **state)
{
    (void)state;
    struct redis_pool pool = {0};
    redisReader *reader = redis_pool_reader(&pool);
    redis_pool_clear(&pool); /* with an empty pool */
    for (int i = 0; i < 3; i++) {
        check_nested(reader);
        redis_pool_clear(&pool);
        check_long(reader, 3000);
        redis_pool_clear(&pool);
        assert_non_null(pool.newest); /* a block remains */
    }
    check_long(reader, 200000); /* about 20 MB */
    redis_pool_clear(&pool);
    const char half[] = "*2\r\n$3\r\nabc\r\n"; /* and then the connection is lost */
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, half, sizeof(half) - 1), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_null(reply);
    redisReaderFree(reader);
    redis_pool_clear(&pool);
    reader = redis_pool_reader(&pool);
    check_nested(reader);
    redisReaderFree(reader);
    redis_pool_clear(&pool);
    free(pool.newest); /* redis_pool_free() needs a loop */
}

static void is_no_reply(const char *bytes)
{
    struct redis_pool pool = {0};
    redisReader *reader = redis_pool_reader(&pool);
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
    assert_null(reply);
    redisReaderFree(reader);
    redis_pool_clear(&pool);
    free(pool.newest);
}

/* Its memory would have to be allocated before the first element arrives. */
static void a_list_with_a_huge_count_is_rejected(void **state)
{
    (void)state;
    is_no_reply("*2000000000\r\n");
}

static void too_deeply_nested_lists_are_rejected(void **state)
{
    char deep[4 * 40 + 1];
    (void)state;
    for (size_t i = 0; i < 40; i++)
        memcpy(deep + 4 * i, "*1\r\n", 5);
    is_no_reply(deep);
}

/* hiredis 1.0 and later parse them, and call our functions to create them. */
static void doubles_and_booleans_of_resp3_are_rejected(void **state)
{
    (void)state;
    is_no_reply(",1.5\r\n");
    is_no_reply("#t\r\n");
    is_no_reply("*2\r\n:1\r\n,1.5\r\n");
    is_no_reply("*2\r\n:1\r\n#f\r\n");
}

UNIT(resp)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_as_printf_does),
        cmocka_unit_test(numbers_are_appended),
        cmocka_unit_test(a_command_is_encoded_as_words_with_their_lengths),
        cmocka_unit_test(a_large_command_frees_its_memory),
        cmocka_unit_test(replies_lie_in_a_pool),
        cmocka_unit_test(a_list_with_a_huge_count_is_rejected),
        cmocka_unit_test(too_deeply_nested_lists_are_rejected),
        cmocka_unit_test(doubles_and_booleans_of_resp3_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
