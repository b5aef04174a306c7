/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_reply.c - accessors of a reply, the class of an error reply, and the slots of a
 * cluster. Pure.
 *
 * Only the first word of an error counts. Redis 7 appends " script: ..." to errors from
 * Lua. Redis 6.2 puts the position of the error before it, which is skipped.
 */
#include "bridge/redis/redis.h"

#include <stdio.h>
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
    const double exact = 9007199254740992.0; /* 2^53: up to here a double is exact */
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

/* ---------------------------------------------------------------------- errors */

static const struct {
    const char *begin; /* one or more whole words */
    enum redis_error meaning;
} table[] = {
    {"NOSCRIPT", REDIS_NO_SCRIPT},
    {"LOADING", REDIS_WAIT},
    {"BUSY", REDIS_WAIT},
    {"UNKILLABLE", REDIS_WAIT},
    {"NOREPLICAS", REDIS_WAIT},
    {"MISCONF", REDIS_WAIT},
    {"CLUSTERDOWN", REDIS_WAIT},
    {"TRYAGAIN", REDIS_MOVING},
    {"ASK", REDIS_MOVING},
    {"MOVED", REDIS_ELSEWHERE},
    {"ERR max number of clients", REDIS_WAIT},
    {"OOM", REDIS_FULL},
    {"READONLY", REDIS_MOVED_AWAY},
    {"MASTERDOWN", REDIS_MOVED_AWAY},
    {"UNBLOCKED", REDIS_MOVED_AWAY},
    {"FENCED", REDIS_FENCED},
    {"NOAUTH", REDIS_DENIED},
    {"WRONGPASS", REDIS_DENIED},
    {"NOPERM", REDIS_DENIED},
    {"DENIED", REDIS_DENIED}, /* protected mode */
    {"ERR The user executing the script can't", REDIS_DENIED},
    {"The user executing the script can't", REDIS_DENIED}, /* Redis 6.2 */
    {"ERR invalid password", REDIS_DENIED},                /* before Redis 6 */
    {"ERR Client sent AUTH, but no password is set", REDIS_DENIED},
    {"ERR AUTH <password> called without any password configured", REDIS_DENIED},
    {"ERR operation not permitted", REDIS_DENIED},
};

static bool begins(const char *text, size_t n, const char *begin)
{
    size_t len = strlen(begin);
    return n >= len && memcmp(text, begin, len) == 0 &&
           (n == len || strchr(" ,.:", text[len]) != NULL);
}

/* Redis 6.2 returns "ERR Error running script (call to f_...): @user_script:1:
 * @user_script: 1: -READONLY ...". Return the text after the last position. */
static struct slice unwrapped(struct slice text)
{
    static const char place[] = "@user_script:", dots[] = " 0123456789:";
    const char *at, *end = text.p + text.n;
    if (!begins(text.p, text.n, "ERR Error running script"))
        return text;
    while ((at = memmem(text.p, text.n, place, strlen(place))) != NULL) {
        at += strlen(place);
        while (at < end && memchr(dots, *at, sizeof(dots) - 1) != NULL)
            at++;
        text = (struct slice){at, (size_t)(end - at)};
    }
    return text.n > 0 && *text.p == '-' ? (struct slice){text.p + 1, text.n - 1} : text;
}

enum redis_error redis_error(const struct redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return REDIS_NO_ERROR;
    struct slice text = unwrapped((struct slice){reply->str, (size_t)reply->len});
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (begins(text.p, text.n, table[i].begin))
            return table[i].meaning;
    return REDIS_WRONG;
}

/* ----------------------------------------------------------------------- slots */

/* CRC16/XMODEM */
unsigned redis_slot(struct slice key)
{
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL;
    if (open) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', (size_t)(key.p + key.n - tag));
        if (close && close > tag)
            key = (struct slice){tag, (size_t)(close - tag)};
    }
    unsigned crc = 0;
    for (size_t i = 0; i < key.n; i++) {
        crc ^= (unsigned)(unsigned char)key.p[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return crc % REDIS_SLOTS;
}

/* Row: {FIRST, LAST, {HOST, PORT, ...} of the master, ...}. An empty or nil host means
 * the node that was asked, because a single node does not know its address. "?" means
 * that the name is not announced. */
int redis_slots_read(const struct redisReply *row, struct redis_slots *out)
{
    const struct redisReply *master = redis_item(row, 2);
    const int64_t first = redis_integer(redis_item(row, 0)),
                  last = redis_integer(redis_item(row, 1)),
                  port = redis_integer(redis_item(master, 1));
    const struct slice host = redis_text(redis_item(master, 0));
    *out = (struct redis_slots){.host = host.n > 0 ? host.p : "",
                                .nameless = slice_is(host, "?")};
    if (redis_items(master) < 2 || out->nameless || first < 0 || last < first ||
        last >= REDIS_SLOTS || port <= 0 || port > UINT16_MAX)
        return -1;
    out->first = (unsigned)first;
    out->last = (unsigned)last;
    snprintf(out->port, sizeof(out->port), "%u", (unsigned)port);
    return 0;
}
