/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/resp.h"
#include "bridge/base/text.h"
#include "bridge/base/mem.h"

enum {
    HEAD_BYTES =
        1 + TEXT_DECIMAL_MAX + 2, /* room before the words: how many is known last */
    KEEP_BYTES = 1024 * 1024      /* memory above this is given back */
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
