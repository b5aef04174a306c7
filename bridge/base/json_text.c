/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/json_text.h"
#include "bridge/base/json.h"
#include "bridge/base/text.h"

enum { REPLACEMENT = 0xfffd };

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long json_hex4(const char *p, const char *end)
{
    long n = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(p[i]);
        if (digit < 0)
            return -1;
        n = n * 16 + digit;
    }
    return n;
}

/* What stands for a control character, a quote or a backslash: letter, meaning. */
static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

static const char *letter_find(char c)
{
    for (const char *l = letters; *l; l += 2) {
        if (*l == c)
            return l;
    }
    return NULL;
}

bool json_is_letter(char c)
{
    return letter_find(c) != NULL;
}

/* Bytes of the UTF-8 character at the start of s (not empty); 0: there is none. */
static size_t char_bytes(struct slice s)
{
    unsigned char first = (unsigned char)s.p[0];
    size_t n = 1u + (first >= 0xc0) + (first >= 0xe0) + (first >= 0xf0);
    return n <= s.n && text_is_utf8((struct slice){s.p, n}) ? n : 0;
}

/* Gives the number of bytes written. */
static size_t put_utf8(unsigned long c, char *out)
{
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = 1u + (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(leads[n] | c);
    return n;
}

/* The character of \uXXXX at p, of which the grammar is right; passes it, and the second
 * half of a pair, too. */
static unsigned long take_unicode(const char **p, const char *end)
{
    unsigned long c = (unsigned long)json_hex4(*p + 2, end);
    *p += 6;
    if (c < 0xd800 || c > 0xdfff)
        return c;
    if (c > 0xdbff || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
        return REPLACEMENT;
    unsigned long low = (unsigned long)json_hex4(*p + 2, end);
    if (low < 0xdc00 || low > 0xdfff)
        return REPLACEMENT;
    *p += 6;
    return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

/* An escape is never shorter than what it means; a byte that is broken is. */
size_t json_decoded_max(const struct json_quoted *s)
{
    return s->plain || text_is_utf8(s->raw) ? s->raw.n : 3 * s->raw.n;
}

size_t json_decode(const struct json_quoted *s, char *out)
{
    const char *p = s->raw.p, *end = p + s->raw.n;
    size_t n = 0;
    if (s->plain) {
        memcpy(out, p, s->raw.n);
        return s->raw.n;
    }
    while (p < end) {
        if ((unsigned char)*p < 0x80 && *p != '\\') {
            out[n++] = *p++;
        } else if (*p == '\\' && p[1] == 'u') {
            n += put_utf8(take_unicode(&p, end), out + n);
        } else if (*p == '\\') {
            out[n++] = letter_find(p[1])[1];
            p += 2;
        } else {
            size_t bytes = char_bytes((struct slice){p, (size_t)(end - p)});
            if (bytes == 0)
                n += put_utf8(REPLACEMENT, out + n);
            else
                memcpy(out + n, p, bytes);
            n += bytes;
            p += bytes ? bytes : 1;
        }
    }
    return n;
}

/* --------------------------------------------------------------------- writing */

static void add_escape(struct buf *out, unsigned char c)
{
    for (const char *l = letters; *l; l += 2) {
        if ((unsigned char)l[1] == c) {
            buf_add(out, (char[]){'\\', *l}, 2);
            return;
        }
    }
    buf_addf(out, "\\u%04x", c);
}

void json_add_go(struct buf *out, struct slice s)
{
    size_t plain = 0; /* where the bytes begin that need no change */
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        struct slice rest = {s.p + i, s.n - i};
        size_t bytes = c < 0x80 ? 1 : char_bytes(rest);
        bool line_end = bytes == 3 && (memcmp(rest.p, "\xe2\x80\xa8", 3) == 0 ||
                                       memcmp(rest.p, "\xe2\x80\xa9", 3) == 0);
        if (bytes > 0 && !line_end && c >= 0x20 && !strchr("\"\\<>&", c)) {
            i += bytes;
            continue;
        }
        buf_add(out, s.p + plain, i - plain);
        if (bytes == 0)
            buf_add_str(out, "\\ufffd");
        else if (line_end)
            buf_addf(out, "\\u202%c", rest.p[2] == '\xa8' ? '8' : '9');
        else
            add_escape(out, c);
        i += bytes ? bytes : 1;
        plain = i;
    }
    buf_add(out, s.p + plain, s.n - plain);
    buf_add(out, "\"", 1);
}
