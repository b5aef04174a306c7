/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/redis_pool.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

enum {
    FIRST_BYTES = 16 * 1024,  /* of a block; each further one has twice as many */
    KEEP_BYTES = 1024 * 1024, /* the block that stays is not larger */
    ITEMS_MAX = 4 << 20,      /* of one list: its memory is taken before they come */
    DEPTH_MAX = 8,            /* of lists in lists, each of which may claim so much */
    ALIGN = _Alignof(max_align_t)
};

struct pool_block {
    struct pool_block *older;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
};

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

/* Not zeroed. */
static void *take(struct redis_pool *pool, size_t n)
{
    struct pool_block *block = pool->newest;
    must(n < SIZE_MAX / 4);
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (block == NULL || block->size - block->used < n) {
        size_t size = block ? 2 * block->size : FIRST_BYTES;
        size = size > n ? size : n;
        struct pool_block *added = mem_realloc(NULL, sizeof(*added) + size);
        *added = (struct pool_block){.older = block, .size = size};
        pool->newest = block = added;
    }
    void *at = block->bytes + block->used;
    block->used += n;
    return at;
}

static redisReply *reply_new(const redisReadTask *task)
{
    redisReply *r = take(task->privdata, sizeof(*r));
    *r = (redisReply){.type = task->type};
    if (task->parent)
        ((redisReply *)task->parent->obj)->element[task->idx] = r;
    return r;
}

static void *new_string(const redisReadTask *task, char *bytes, size_t n)
{
    redisReply *r = reply_new(task);
    r->str = take(task->privdata, n + 1);
    memcpy(r->str, bytes, n);
    r->str[n] = '\0';
    r->len = n;
    return r;
}

/* Of lists around it. */
static unsigned depth_of(const redisReadTask *task)
{
    unsigned depth = 0;
    while ((task = task->parent))
        depth++;
    return depth;
}

/* NULL ends the connection: what claims so much is no Redis, or not as it should be. */
static void *new_array(const redisReadTask *task, array_size n)
{
    if ((size_t)n > ITEMS_MAX || depth_of(task) > DEPTH_MAX)
        return NULL;
    redisReply *r = reply_new(task);
    r->element = take(task->privdata, (size_t)n * sizeof(redisReply *));
    r->elements = (size_t)n;
    return r;
}

static void *new_integer(const redisReadTask *task, long long n)
{
    redisReply *r = reply_new(task);
    r->integer = n;
    return r;
}

static void *new_nil(const redisReadTask *task)
{
    redisReply *r = reply_new(task);
    r->type = REDIS_REPLY_NIL; /* its task is one of a string, or of an array */
    return r;
}

#if HIREDIS_MAJOR >= 1
/* Of RESP3, for which nobody asked. Without these hiredis would make up a pointer. */
static void *no_double(const redisReadTask *task, double value, char *bytes, size_t n)
{
    (void)task, (void)value, (void)bytes, (void)n;
    return NULL;
}

static void *no_bool(const redisReadTask *task, int value)
{
    (void)task, (void)value;
    return NULL;
}
#endif

/* It goes with the pool's content. */
static void drop(void *reply)
{
    (void)reply;
}

struct redisReader *redis_pool_reader(struct redis_pool *pool)
{
    static redisReplyObjectFunctions functions = {.createString = new_string,
                                                  .createArray = new_array,
                                                  .createInteger = new_integer,
                                                  .createNil = new_nil,
                                                  .freeObject = drop};
#if HIREDIS_MAJOR >= 1
    functions.createDouble = no_double;
    functions.createBool = no_bool;
#endif
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    must(reader != NULL);
    reader->privdata = pool;
    return reader;
}

/* The largest that is not too large stays. */
void redis_pool_clear(struct redis_pool *pool)
{
    struct pool_block *kept = NULL;
    for (struct pool_block *block = pool->newest, *older; block; block = older) {
        older = block->older;
        if (kept || block->size > KEEP_BYTES)
            free(block);
        else
            kept = block;
    }
    pool->newest = kept;
    if (kept) {
        kept->older = NULL;
        kept->used = 0;
    }
}

void redis_pool_free(struct redis_pool *pool)
{
    for (struct pool_block *block = pool->newest, *older; block; block = older) {
        older = block->older;
        loop_defer_free(block);
    }
    pool->newest = NULL;
}
