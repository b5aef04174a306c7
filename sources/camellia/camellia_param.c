/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/camellia/camellia_param.h"
#include "bridge/base/text.h"

enum { TEXT_KEPT = 16 * 1024 }; /* a text that is used again keeps no more memory */

/* ------------------------------------------------------------------ texts */

/* Bytes that the first one of a character announces; 1 also for what is none. */
static size_t announced(unsigned char first)
{
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* Appends s; what is not UTF-8 becomes U+FFFD, so that an id means the same ever after.
 */
static void add_repaired(struct buf *out, struct slice s)
{
    for (size_t i = 0; i < s.n;) {
        size_t n = announced((unsigned char)s.p[i]);
        if (n <= s.n - i && text_is_utf8((struct slice){s.p + i, n})) {
            buf_add(out, s.p + i, n);
            i += n;
        } else {
            buf_add_str(out, "\xef\xbf\xbd");
            i++;
        }
    }
}

static int take_text(void *field, bool again, struct slice value)
{
    struct camellia_text *text = field;
    if (again)
        buf_add_str(&text->own, ",");
    if (text_is_utf8(value))
        buf_add_slice(&text->own, value);
    else
        add_repaired(&text->own, value);
    text->value = buf_slice(&text->own);
    return 0;
}

void camellia_text_clear(struct camellia_text *text)
{
    text->value = (struct slice){0};
    if (text->own.cap > TEXT_KEPT)
        buf_free(&text->own);
    else
        buf_clear(&text->own);
}

/* ---------------------------------------------------------------- numbers */

static struct slice trimmed(struct slice s)
{
    while (s.n > 0 && (unsigned char)s.p[0] <= ' ')
        s.p++, s.n--;
    while (s.n > 0 && (unsigned char)s.p[s.n - 1] <= ' ')
        s.n--;
    return s;
}

static bool cut(struct slice *s, const char *begin)
{
    size_t n = strlen(begin);
    if (s->n < n || strncasecmp(s->p, begin, n) != 0)
        return false;
    s->p += n;
    s->n -= n;
    return true;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

int camellia_param_integer(struct slice text, int64_t min, int64_t max, int64_t *n)
{
    struct slice s = trimmed(text);
    bool plus = cut(&s, "+"), minus = !plus && cut(&s, "-");
    int base = !plus && (cut(&s, "0x") || cut(&s, "#")) ? 16 : 10;
    int64_t value = 0; /* negative on the way: that side is larger by one */
    if (s.n == 0)
        return -1;
    for (size_t i = 0; i < s.n; i++) {
        int digit = digit_value(s.p[i]);
        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            return -1;
    }
    if (!minus && __builtin_sub_overflow(0, value, &value))
        return -1;
    if (value < min || value > max)
        return -1;
    *n = value;
    return 0;
}

static int take_bool(bool *field, struct slice value)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"1", true},  {"0", false},
                 {"yes", true},  {"no", false},    {"on", true}, {"off", false}};
    struct slice s = trimmed(value);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_is_nocase(s, words[i].word)) {
            *field = words[i].value;
            return 0;
        }
    }
    return -1;
}

int camellia_param_take(const struct camellia_param *row, void *to, bool again,
                        struct slice value)
{
    void *field = (char *)to + row->offset;
    if (row->type == CAMELLIA_TEXT)
        return take_text(field, again, value);
    if (again)
        return 0;
    if (trimmed(value).n == 0)
        return row->required ? -1 : 0;
    switch (row->type) {
    case CAMELLIA_LONG:
        return camellia_param_integer(value, INT64_MIN, INT64_MAX, field);
    case CAMELLIA_INT:
        return camellia_param_integer(value, INT32_MIN, INT32_MAX, field);
    case CAMELLIA_BOOL:
        return take_bool(field, value);
    case CAMELLIA_TEXT:
        break;
    }
    return -1;
}
