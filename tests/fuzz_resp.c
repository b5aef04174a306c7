/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_resp.c - libFuzzer: a byte for the size of the pieces, then any bytes from Redis.
 * A valid reply is inspected, written as a command and read again.
 */
#include "bridge/redis/redis.h"
#include "bridge/redis/resp.h"
#include "tests/fuzz.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

static void look(const redisReply *r, struct resp *words)
{
    struct slice text = redis_text(r);

    must(redis_items(r) == 0 || r->type == REDIS_REPLY_ARRAY);
    redis_error(r);
    must(redis_error_text(r).p == NULL || r->type == REDIS_REPLY_ERROR);
    if (text.p) {
        must(text.p[text.n] == '\0');
        resp_add(words, text);
    }
    for (size_t i = 0; i < redis_items(r); i++)
        look(redis_item(r, i), words);
    must(redis_item(r, redis_items(r)) == NULL);
}

/* The command must be read back as the list of its words. */
static void check_again(struct resp *words)
{
    struct redis_pool pool = {NULL};
    redisReader *reader = redis_pool_reader(&pool);
    struct slice bytes = resp_end(words);
    void *reply = NULL;

    must(redisReaderFeed(reader, bytes.p, bytes.n) == REDIS_OK);
    must(redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL);
    must(redis_items(reply) == words->words);
    redisReaderFree(reader);
    redis_pool_clear(&pool);
    free(pool.newest);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice rest = {(const char *)bytes, n};
    size_t step = fuzz_byte(&rest) + 1u;
    struct redis_pool pool = {NULL};
    struct resp words = {.words = 0};
    redisReader *reader = redis_pool_reader(&pool);
    bool good = true;

    resp_begin(&words);
    resp_add(&words, SLICE_LIT("ECHO"));
    while (good && rest.n > 0) {
        size_t fed = step < rest.n ? step : rest.n;
        void *reply = NULL;
        redisReaderFeed(reader, rest.p, fed);
        rest = (struct slice){rest.p + fed, rest.n - fed};
        while ((good = redisReaderGetReply(reader, &reply) == REDIS_OK) && reply) {
            look(reply, &words);
            redis_pool_clear(&pool);
        }
    }
    check_again(&words);
    resp_free(&words);
    redisReaderFree(reader);
    redis_pool_clear(&pool);
    free(pool.newest);
    return 0;
}
