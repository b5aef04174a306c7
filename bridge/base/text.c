/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "bridge/base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include <glib.h>

enum { PORT_SHOWN_MAX = 6 }; /* more digits may be a password in the wrong place */

static const char hex_digits[] = "0123456789ABCDEF";

int text_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long text_percent_decode(struct slice s, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '%') {
            out[n++] = s.p[i];
            continue;
        }
        if (s.n - i < 3 || text_hex_digit(s.p[i + 1]) < 0 ||
            text_hex_digit(s.p[i + 2]) < 0)
            return -1;
        out[n++] = (char)(text_hex_digit(s.p[i + 1]) * 16 + text_hex_digit(s.p[i + 2]));
        i += 2;
    }
    return (long)n;
}

char *text_percent_string(struct slice s)
{
    char *out = mem_alloc(s.n + 1);
    long n = text_percent_decode(s, out);
    if (n >= 0 && memchr(out, '\0', (size_t)n) == NULL) {
        out[n] = '\0';
        return out;
    }
    free(out);
    return NULL;
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

size_t text_character(struct slice s, uint32_t *c)
{
    *c = (unsigned char)s.p[0];
    if (*c < 0x80)
        return 1;
    gunichar found = g_utf8_get_char_validated(s.p, (gssize)s.n);
    if (found >= (gunichar)-2) /* invalid, or truncated */
        return 0;
    *c = found;
    return (size_t)g_unichar_to_utf8(found, NULL);
}

bool text_is_utf8(struct slice s)
{
    uint32_t c;
    for (size_t i = 0, n; i < s.n; i += n) {
        n = text_character((struct slice){s.p + i, s.n - i}, &c);
        if (n == 0)
            return false;
    }
    return true;
}

/* Rules for writing JSON strings. */
struct json_style {
    uint64_t escaped[2]; /* a bit per ASCII character that is escaped */
    uint32_t wide[2][2]; /* ranges of the other characters that are escaped */
    const char *digits;  /* hexadecimal digits */
    const char *broken;  /* replacement for invalid UTF-8 */
};
#define BIT(c) (UINT64_C(1) << ((c) % 64))

/* Also escapes U+007F to U+009F, which terminals interpret. */
static const struct json_style ours = {{0xffffffff | BIT('"'), BIT('\\') | BIT(0x7f)},
                                       {{0x7f, 0x9f}},
                                       "0123456789ABCDEF",
                                       "\xef\xbf\xbd"};
static const struct json_style of_go = {
    {0xffffffff | BIT('"') | BIT('<') | BIT('>') | BIT('&'), BIT('\\')},
    {{0x2028, 0x2029}},
    "0123456789abcdef",
    "\\ufffd"};
static const struct json_style of_jackson = {{0xffffffff | BIT('"'), BIT('\\')},
                                             {{0x10000, 0x10ffff}},
                                             "0123456789ABCDEF",
                                             "\xef\xbf\xbd"};
static const struct json_style of_fastjson = {
    {0xffffffff | BIT('"'), BIT('\\') | BIT(0x7f)},
    {{0x80, 0x9f}, {0x2028, 0x2029}},
    "0123456789ABCDEF",
    "\xef\xbf\xbd"};

static bool is_escaped(const struct json_style *style, uint32_t c)
{
    if (c < 128)
        return (style->escaped[c / 64] >> c % 64 & 1) != 0;
    return (c >= style->wide[0][0] && c <= style->wide[0][1]) ||
           (c >= style->wide[1][0] && c <= style->wide[1][1]);
}

static void add_json_escape(struct buf *out, const struct json_style *style, uint32_t c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *l = letters; *l; l += 2) {
        if ((unsigned char)l[0] == c) {
            buf_add(out, (char[]){'\\', l[1]}, 2);
            return;
        }
    }
    if (c > 0xffff) { /* a surrogate pair */
        add_json_escape(out, style, 0xd800 + ((c - 0x10000) >> 10));
        c = 0xdc00 + (c & 0x3ff);
    }
    buf_add(out, "\\u", 2);
    for (int shift = 12; shift >= 0; shift -= 4)
        buf_add(out, &style->digits[c >> shift & 15], 1);
}

static void add_json(struct buf *out, struct slice s, const struct json_style *style)
{
    size_t plain = 0; /* start of the unescaped bytes that are not written yet */
    buf_add(out, "\"", 1);
    for (size_t i = 0, n; i < s.n; i += n) {
        uint32_t c;
        n = text_character((struct slice){s.p + i, s.n - i}, &c);
        if (n > 0 && !is_escaped(style, c))
            continue;
        buf_add(out, s.p + plain, i - plain);
        if (n == 0)
            buf_add_str(out, style->broken);
        else
            add_json_escape(out, style, c);
        n = n > 0 ? n : 1;
        plain = i + n;
    }
    buf_add(out, s.p + plain, s.n - plain);
    buf_add(out, "\"", 1);
}

void text_add_json(struct buf *out, struct slice s)
{
    if (s.p == NULL)
        buf_add_str(out, "null");
    else
        add_json(out, s, &ours);
}

void text_add_json_go(struct buf *out, struct slice s)
{
    add_json(out, s, &of_go);
}

void text_add_json_jackson(struct buf *out, struct slice s)
{
    add_json(out, s, &of_jackson);
}

void text_add_json_fastjson(struct buf *out, struct slice s)
{
    add_json(out, s, &of_fastjson);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

void text_skip_blanks(struct slice *s)
{
    while (s->n > 0 && is_blank(s->p[0]))
        *s = (struct slice){s->p + 1, s->n - 1};
}

struct slice text_take_word(struct slice *s)
{
    text_skip_blanks(s);
    struct slice word = {s->p, 0};
    while (word.n < s->n && !is_blank(s->p[word.n]))
        word.n++;
    *s = (struct slice){s->p + word.n, s->n - word.n};
    return word;
}

struct slice text_cut(struct slice *rest, char c)
{
    const char *at = rest->n ? memchr(rest->p, c, rest->n) : NULL;
    struct slice part = *rest;
    *rest = (struct slice){0};
    if (at) {
        *rest = (struct slice){at + 1, (size_t)(part.p + part.n - at - 1)};
        part.n = (size_t)(at - part.p);
    }
    return part;
}

struct slice text_trim(struct slice s)
{
    text_skip_blanks(&s);
    while (s.n > 0 && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

void text_random(void *to, size_t n)
{
    /* A system call per id would cost 4 % of lmstfy's publish. */
    static _Thread_local unsigned char pool[256];
    static _Thread_local size_t left;
    must(n <= sizeof(pool));
    if (left < n) {
        must(getrandom(pool, sizeof(pool), 0) == (ssize_t)sizeof(pool));
        left = sizeof(pool);
    }
    left -= n;
    memcpy(to, pool + left, n);
}

void text_uuid(char out[TEXT_UUID_SIZE])
{
    unsigned char b[16];
    text_random(b, sizeof(b));
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    for (unsigned i = 0; i < sizeof(b); i++)
        out +=
            sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

void text_add_base64(struct buf *out, struct slice s)
{
    int state = 0, save = 0;
    char *p = buf_room(out, (s.n / 3 + 1) * 4 + 4);
    size_t n = g_base64_encode_step((const guchar *)s.p, s.n, FALSE, p, &state, &save);
    buf_grew(out, n + g_base64_encode_close(FALSE, p + n, &state, &save));
}

int text_base64_decode(struct slice s, struct buf *out)
{
    static const char base64_digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
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

void text_add_json_member(struct buf *out, const char *name, struct slice s)
{
    bool first = out->n == 0 || out->p[out->n - 1] == '{';
    buf_addf(out, "%s\"%s\":", first ? "" : ",", name);
    text_add_json(out, s);
}

static void add_base64_member(struct buf *out, const char *name, struct slice bytes)
{
    buf_addf(out, ",\"%s_base64\":\"", name);
    text_add_base64(out, bytes);
    buf_add_str(out, "\"");
}

void text_add_json_id(struct buf *out, struct slice id)
{
    buf_add_str(out, "\"id\":");
    text_add_json(out, id);
    if (!text_is_utf8(id))
        add_base64_member(out, "id", id);
}

void text_add_json_bytes(struct buf *out, const char *name, struct slice bytes)
{
    if (!text_is_utf8(bytes)) {
        add_base64_member(out, name, bytes);
        return;
    }
    buf_addf(out, ",\"%s\":", name);
    text_add_json(out, bytes);
}

/* -------------------------------------------------------------------- numbers */

/* Converts two digits per division, which halves the divisions. */
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

size_t text_take_digits(struct slice *s, int64_t *n)
{
    size_t count = 0;
    *n = 0;
    for (; count < s->n && s->p[count] >= '0' && s->p[count] <= '9'; count++)
        if (__builtin_mul_overflow(*n, 10, n) ||
            __builtin_add_overflow(*n, s->p[count] - '0', n))
            *n = INT64_MAX;
    *s = (struct slice){s->p + count, s->n - count};
    return count;
}

int64_t text_whole_number(struct slice s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, s.p[i] - '0', &n))
            return -1;
    return s.n > 0 ? n : -1;
}

int text_check_port(struct slice s, int least, struct err *err)
{
    int64_t n = text_whole_number(s);
    if (n >= least && n <= UINT16_MAX)
        return 0;
    if (n < 0 || s.n > PORT_SHOWN_MAX)
        return err_set(err, "the port must be a number from 1 to 65535");
    return err_set(err, "port %.*s is out of range; write a port from 1 to 65535",
                   SLICE_ARG(s));
}

int text_parse_bytes(const char *text, int64_t *bytes, struct err *err)
{
    static const struct {
        const char *name;
        int64_t size;
    } units[] = {
        {"B", 1},           {"KiB", 1LL << 10},   {"MiB", 1LL << 20}, {"GiB", 1LL << 30},
        {"TiB", 1LL << 40}, {"kB", 1000},         {"KB", 1000},       {"MB", 1000000},
        {"GB", 1000000000}, {"TB", 1000000000000}};
    size_t digits = strspn(text, "0123456789");
    int64_t n;

    if (strcmp(text, "0") == 0) {
        *bytes = 0;
        return 0;
    }
    errno = 0;
    n = strtoll(text, NULL, 10);
    for (size_t i = 0; digits > 0 && i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(text + digits, units[i].name) == 0) {
            if (errno != 0 || __builtin_mul_overflow(n, units[i].size, bytes))
                return err_set(err, "the size is too large");
            return 0;
        }
    return err_set(err,
                   "must be a whole number with a unit, such as \"512B\", \"64KiB\", "
                   "\"10MB\" or \"1GiB\"");
}

void text_wipe(struct buf *b)
{
    if (b->p)
        explicit_bzero(b->p, b->cap);
    buf_free(b);
}

void text_forget(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}
