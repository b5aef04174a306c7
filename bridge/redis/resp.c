/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/resp.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

enum {
    HEAD_BYTES = 1 + TEXT_DECIMAL_MAX + 2, /* room for the header: the number of words is
                                            * known last */
    KEEP_BYTES = 1024 * 1024,              /* free memory above this size */
    RING_FIRST = 64,                       /* commands */
    BLOCK_BYTES = 16 * 1024, /* first block of replies; each further one is twice as
                              * large */
    ITEMS_MAX = 4 << 20,     /* of one list: its memory is allocated before the items
                              * arrive */
    DEPTH_MAX = 8,           /* of nested lists, each of which may allocate
                              * ITEMS_MAX */
    ALIGN = _Alignof(max_align_t)
};

static char *put_end(char *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

void resp_begin(struct resp *c)
{
    if (c->bytes.cap > KEEP_BYTES)
        buf_free(&c->bytes);
    buf_clear(&c->bytes);
    buf_room(&c->bytes, HEAD_BYTES);
    buf_grew(&c->bytes, HEAD_BYTES);
    c->words = 0;
}

void resp_add(struct resp *c, struct slice word)
{
    char *begin = buf_room(&c->bytes, HEAD_BYTES + word.n + 2), *at = begin;
    *at++ = '$';
    at = put_end(at + text_put_decimal(at, (int64_t)word.n));
    if (word.n > 0)
        memcpy(at, word.p, word.n);
    at = put_end(at + word.n);
    buf_grew(&c->bytes, (size_t)(at - begin));
    c->words++;
}

void resp_add_number(struct resp *c, int64_t n)
{
    char digits[TEXT_DECIMAL_MAX];
    resp_add(c, (struct slice){digits, text_put_decimal(digits, n)});
}

struct slice resp_end(struct resp *c)
{
    char head[HEAD_BYTES];
    head[0] = '*';
    size_t n = 1 + text_put_decimal(head + 1, c->words);
    n = (size_t)(put_end(head + n) - head);
    char *begin = c->bytes.p + HEAD_BYTES - n;
    memcpy(begin, head, n);
    return (struct slice){begin, c->bytes.n - (size_t)(begin - c->bytes.p)};
}

void resp_free(struct resp *c)
{
    buf_free(&c->bytes);
}

/* -------------------------------------------------------------- queue of open
 * commands */

static void grow(struct redis_queue *q)
{
    unsigned cap = q->cap ? q->cap * 2 : RING_FIRST;
    struct redis_waiting *ring = mem_alloc(cap * sizeof(*ring));
    for (unsigned i = 0; i < q->count; i++)
        ring[i] = q->ring[(q->first + i) & (q->cap - 1)];
    free(q->ring);
    q->ring = ring;
    q->first = 0;
    q->cap = cap;
}

void redis_queue_add(struct redis_queue *q, const struct redis_waiting *command)
{
    if (q->count == q->cap)
        grow(q);
    q->ring[(q->first + q->count++) & (q->cap - 1)] = *command;
}

struct redis_waiting redis_queue_take(struct redis_queue *q)
{
    must(q->count > 0);
    struct redis_waiting oldest = q->ring[q->first];
    q->first = (q->first + 1) & (q->cap - 1);
    q->count--;
    return oldest;
}

void redis_queue_free(struct redis_queue *q)
{
    free(q->ring);
    *q = (struct redis_queue){0};
}

/* -------------------------------------------------------------- memory of replies */

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

/* Allocate n bytes, not zeroed. */
static void *take(struct redis_pool *pool, size_t n)
{
    struct pool_block *block = pool->newest;
    must(n < SIZE_MAX / 4);
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (block == NULL || block->size - block->used < n) {
        size_t size = block ? 2 * block->size : BLOCK_BYTES;
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

/* Return the number of lists around the task. */
static unsigned depth_of(const redisReadTask *task)
{
    unsigned depth = 0;
    while ((task = task->parent))
        depth++;
    return depth;
}

/* Returns NULL, which closes the connection, if the list is too long or nested too deeply
 * for a healthy Redis. */
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
    r->type = REDIS_REPLY_NIL; /* replaced by the task of a string or an array */
    return r;
}

#if HIREDIS_MAJOR >= 1
/* Double and the types below belong to RESP3, which tarry does not request. Without these
 * functions hiredis would invent a pointer. */
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

/* Nothing to do: the pool frees all replies together. */
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

/* Keep the largest block that is not too large; free the others. */
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
