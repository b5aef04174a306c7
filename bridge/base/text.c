/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"

#include <stdint.h>

static const char hex_digits[] = "0123456789ABCDEF";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

long text_percent_decode(struct slice s, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '%') {
            out[n++] = s.p[i];
            continue;
        }
        if (s.n - i < 3 || hex_value(s.p[i + 1]) < 0 || hex_value(s.p[i + 2]) < 0)
            return -1;
        out[n++] = (char)(hex_value(s.p[i + 1]) * 16 + hex_value(s.p[i + 2]));
        i += 2;
    }
    return (long)n;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void text_add_percent(struct buf *out, struct slice s, const char *keep)
{
    char *p = buf_room(out, s.n * 3);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (is_alnum(s.p[i]) || c == '-' || c == '_' || (c != 0 && strchr(keep, c))) {
            p[n++] = s.p[i];
        } else {
            p[n++] = '%';
            p[n++] = hex_digits[c >> 4];
            p[n++] = hex_digits[c & 15];
        }
    }
    buf_grew(out, n);
}

/* Bytes of the UTF-8 character at p (n > 0); 0: there is none. By table 3-7 of Unicode.
 */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char first, last, low, high, length;
    } rows[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
                {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                {0xf4, 0xf4, 0x80, 0x8f, 4}};
    size_t row = 0, rows_n = sizeof(rows) / sizeof(rows[0]);
    while (row < rows_n && (p[0] < rows[row].first || p[0] > rows[row].last))
        row++;
    if (row == rows_n || rows[row].length > n)
        return 0;
    for (size_t i = 1; i < rows[row].length; i++) {
        unsigned char low = i == 1 ? rows[row].low : 0x80;
        unsigned char high = i == 1 ? rows[row].high : 0xbf;
        if (p[i] < low || p[i] > high)
            return 0;
    }
    return rows[row].length;
}

bool text_is_utf8(struct slice s)
{
    for (size_t i = 0; i < s.n;) {
        size_t n = utf8_length((const unsigned char *)s.p + i, s.n - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

static void add_json_escape(struct buf *out, unsigned char c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *l = letters; *l; l += 2) {
        if ((unsigned char)l[0] == c) {
            buf_add(out, (char[]){'\\', l[1]}, 2);
            return;
        }
    }
    buf_add(out, "\\u00", 4);
    buf_add(out, (char[]){hex_digits[c >> 4], hex_digits[c & 15]}, 2);
}

void text_add_json(struct buf *out, struct slice s)
{
    if (s.p == NULL) {
        buf_add_str(out, "null");
        return;
    }
    size_t plain = 0; /* where the bytes begin that need no change */
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        bool ordinary = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        size_t n = 1;
        if (!ordinary && c >= 0x80)
            n = utf8_length((const unsigned char *)s.p + i, s.n - i);
        /* U+0080 to U+009F: a terminal would obey those as well. */
        bool control = n == 2 && c == 0xc2 && (unsigned char)s.p[i + 1] < 0xa0;
        if (ordinary || (c >= 0x80 && n > 0 && !control)) {
            i += n;
            continue;
        }
        buf_add(out, s.p + plain, i - plain);
        if (n == 0)
            buf_add(out, "\xef\xbf\xbd", 3);
        else
            add_json_escape(out, control ? (unsigned char)s.p[i + 1] : c);
        plain = i += n > 0 ? n : 1;
    }
    buf_add(out, s.p + plain, s.n - plain);
    buf_add(out, "\"", 1);
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_add_base64(struct buf *out, struct slice s)
{
    char *p = buf_room(out, (s.n + 2) / 3 * 4);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i += 3) {
        size_t have = s.n - i < 3 ? s.n - i : 3;
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < have ? (unsigned char)s.p[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            p[n++] = j <= have ? base64_digits[bits >> (18 - 6 * j) & 63] : '=';
    }
    buf_grew(out, n);
}

int text_base64_decode(struct slice s, struct buf *out)
{
    for (int pad = 0; pad < 2 && s.n > 0 && s.n % 4 == (pad ? 3 : 0); pad++) {
        if (s.p[s.n - 1] != '=')
            break;
        s.n--;
    }
    if (s.n % 4 == 1)
        return -1;
    char *p = buf_room(out, s.n / 4 * 3 + 3);
    size_t n = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < s.n; i++) {
        const char *digit = s.p[i] ? strchr(base64_digits, s.p[i]) : NULL;
        if (digit == NULL)
            return -1;
        bits = bits << 6 | (uint32_t)(digit - base64_digits);
        if (i % 4 > 0)
            p[n++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    buf_grew(out, n);
    return 0;
}

bool text_is_token(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!is_alnum(s.p[i]) && (s.p[i] == 0 || !strchr("!#$%&'*+-.^_`|~", s.p[i])))
            return false;
    }
    return s.n > 0;
}

bool text_is_header_value(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c < ' ' && c != '\t') || c == 127)
            return false;
    }
    return true;
}

void text_add_json_id(struct buf *out, struct slice id)
{
    buf_add_str(out, "\"id\":");
    text_add_json(out, id);
    if (text_is_utf8(id))
        return;
    buf_add_str(out, ",\"id_base64\":\"");
    text_add_base64(out, id);
    buf_add_str(out, "\"");
}

void text_add_json_bytes(struct buf *out, const char *name, struct slice bytes)
{
    bool text = text_is_utf8(bytes);
    buf_addf(out, ",\"%s%s\":", name, text ? "" : "_base64");
    if (text) {
        text_add_json(out, bytes);
        return;
    }
    buf_add_str(out, "\"");
    text_add_base64(out, bytes);
    buf_add_str(out, "\"");
}

/* ------------------------------------------------------------------- integers */

/* Two digits are divided off at a time: half the divisions. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

static unsigned digits_of(uint64_t n)
{
    unsigned count = 1;
    for (; n >= 10000; n /= 10000)
        count += 4;
    return count + (n >= 10) + (n >= 100) + (n >= 1000);
}

size_t text_put_decimal(char *at, int64_t n)
{
    uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
    char *first = at + (n < 0), *p = first + digits_of(left), *const end = p;
    for (; left >= 10; left /= 100)
        memcpy(p -= 2, pairs + 2 * (left % 100), 2);
    if (p > first)
        *--p = (char)('0' + left);
    if (n < 0)
        *at = '-';
    return (size_t)(end - at);
}

void text_add_decimal(struct buf *out, int64_t n)
{
    buf_grew(out, text_put_decimal(buf_room(out, TEXT_DECIMAL_MAX), n));
}
