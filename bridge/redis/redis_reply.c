/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/redis.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

struct slice redis_text(const struct redisReply *r)
{
    if (r == NULL || r->type != REDIS_REPLY_STRING)
        return (struct slice){NULL, 0};
    return (struct slice){r->str, (size_t)r->len};
}

struct slice redis_error_text(const struct redisReply *r)
{
    if (r == NULL || r->type != REDIS_REPLY_ERROR)
        return (struct slice){NULL, 0};
    return (struct slice){r->str, (size_t)r->len};
}

int64_t redis_score(const struct redisReply *r)
{
    const double exact = 9007199254740992.0; /* as far as a double counts in ones */
    struct slice text = redis_text(r);
    double score = text.p ? strtod(text.p, NULL) : 0;
    return score > -exact && score < exact ? (int64_t)score : 0;
}

size_t redis_items(const struct redisReply *r)
{
    return r && r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
}

char redis_letter(const struct redisReply *r)
{
    struct slice text = redis_text(r);
    return text.n > 0 ? text.p[0] : 0;
}

int64_t redis_integer(const struct redisReply *r)
{
    return r && r->type == REDIS_REPLY_INTEGER ? r->integer : 0;
}

const struct redisReply *redis_item(const struct redisReply *r, size_t i)
{
    return i < redis_items(r) ? r->element[i] : NULL;
}
