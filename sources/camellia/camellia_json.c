/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/camellia/camellia_json.h"
#include "bridge/base/text.h"

#include <stdio.h>
#include <stdlib.h>

static void add_unit(struct buf *out, unsigned unit)
{
    static const char hex[] = "0123456789ABCDEF";
    char text[6] = {'\\',
                    'u',
                    hex[unit >> 12 & 15],
                    hex[unit >> 8 & 15],
                    hex[unit >> 4 & 15],
                    hex[unit & 15]};
    buf_add(out, text, sizeof(text));
}

static void add_escape(struct buf *out, unsigned char c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *l = letters; *l; l += 2) {
        if ((unsigned char)l[0] == c) {
            buf_add(out, (char[]){'\\', l[1]}, 2);
            return;
        }
    }
    add_unit(out, c);
}

/* The character at p and its length; length 0: there is none. */
static unsigned character(const char *p, size_t left, size_t *length)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc0 ? 2 : 1;
    *length = 0;
    if (n > left || !text_is_utf8((struct slice){p, n}))
        return 0;
    *length = n;
    unsigned c = n == 1 ? u[0] : u[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (u[i] & 0x3fU);
    return c;
}

/* What begins with a byte above 0x7e. Gives how many bytes were taken. */
static size_t add_wide(struct buf *out, const char *p, size_t left,
                       enum camellia_json how)
{
    size_t n;
    unsigned c = character(p, left, &n);
    bool escaped = how == CAMELLIA_SORTED &&
                   ((c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029);
    if (n == 0) {
        buf_add_str(out, "\xef\xbf\xbd");
        return 1;
    }
    if (escaped) {
        add_unit(out, c);
    } else if (c > 0xffff && how == CAMELLIA_PLAIN) {
        add_unit(out, 0xd800 + ((c - 0x10000) >> 10));
        add_unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
        buf_add(out, p, n);
    }
    return n;
}

void camellia_add_text(struct buf *out, struct slice s, enum camellia_json how)
{
    size_t plain = 0; /* where the bytes begin that need no change */
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        buf_add(out, s.p + plain, i - plain);
        if (c < 0x7f) {
            add_escape(out, c);
            i++;
        } else {
            i += add_wide(out, s.p + i, s.n - i, how);
        }
        plain = i;
    }
    buf_add(out, s.p + plain, s.n - plain);
    buf_add(out, "\"", 1);
}

void camellia_add_int(struct buf *out, int64_t n)
{
    char text[24], *p = text + sizeof(text);
    uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (n < 0)
        *--p = '-';
    buf_add(out, p, (size_t)(text + sizeof(text) - p));
}

void camellia_add_real(struct buf *out, double x)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    buf_add_str(out, text);
    if (strpbrk(text, ".en") == NULL)
        buf_add_str(out, ".0");
}

/* ---------------------------------------------------------------- messages */

enum field_type { TEXT, NUMBER, STATUS };
struct field {
    const char *before; /* its name, and what stands between it and the one before */
    enum field_type type;
    size_t offset;
};
#define AT(field) offsetof(struct camellia_msg, field)
static const struct field plain_fields[] = {
    {"{\"topic\":", TEXT, AT(topic)},
    {",\"msgId\":", TEXT, AT(id)},
    {",\"msg\":", TEXT, AT(msg)},
    {",\"produceTime\":", NUMBER, AT(produce_ms)},
    {",\"triggerTime\":", NUMBER, AT(trigger_ms)},
    {",\"expireTime\":", NUMBER, AT(expire_ms)},
    {",\"maxRetry\":", NUMBER, AT(max_retry)},
    {",\"retry\":", NUMBER, AT(retry)},
    {",\"status\":", STATUS, AT(status)},
    {0},
};
static const struct field sorted_fields[] = {
    {"{\"expireTime\":", NUMBER, AT(expire_ms)},
    {",\"maxRetry\":", NUMBER, AT(max_retry)},
    {",\"msg\":", TEXT, AT(msg)},
    {",\"msgId\":", TEXT, AT(id)},
    {",\"produceTime\":", NUMBER, AT(produce_ms)},
    {",\"retry\":", NUMBER, AT(retry)},
    {",\"status\":", STATUS, AT(status)},
    {",\"topic\":", TEXT, AT(topic)},
    {",\"triggerTime\":", NUMBER, AT(trigger_ms)},
    {0},
};
#undef AT

void camellia_add_msg(struct buf *out, const struct camellia_msg *m,
                      enum camellia_json how)
{
    const struct field *f = how == CAMELLIA_PLAIN ? plain_fields : sorted_fields;
    for (; f->before; f++) {
        const void *value = (const char *)m + f->offset;
        buf_add_str(out, f->before);
        switch (f->type) {
        case TEXT:
            camellia_add_text(out, *(const struct slice *)value, how);
            break;
        case NUMBER:
            camellia_add_int(out, *(const int64_t *)value);
            break;
        case STATUS:
            camellia_add_int(out, (int64_t)m->status);
            break;
        }
    }
    buf_add(out, "}", 1);
}
