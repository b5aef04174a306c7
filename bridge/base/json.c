/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <stdlib.h>
#include <string.h>

#include <glib.h>

/* ------------------------------------------------------------------------- strings */

enum { REPLACEMENT = 0xfffd };

/* The text between the quotes of a valid JSON string. */
struct quoted {
    struct slice raw;
    bool plain; /* ASCII without backslashes: raw needs no decoding */
};

/* Returns the value of four hex digits, or -1 if there are fewer before end. */
static long hex4(const char *p, const char *end)
{
    long n = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = text_hex_digit(p[i]);
        if (digit < 0)
            return -1;
        n = n * 16 + digit;
    }
    return n;
}

/* Escape letters and the characters that they mean, in pairs. */
static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

static const char *letter_find(char c)
{
    for (const char *l = letters; *l; l += 2)
        if (*l == c)
            return l;
    return NULL;
}

/* Returns the character of a valid \uXXXX at p, and advances p past it and past the
 * second half of a surrogate pair. */
static uint32_t take_unicode(const char **p, const char *end)
{
    uint32_t c = (uint32_t)hex4(*p + 2, end);
    *p += 6;
    if (c < 0xd800 || c > 0xdfff)
        return c;
    if (c > 0xdbff || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
        return REPLACEMENT;
    uint32_t low = (uint32_t)hex4(*p + 2, end);
    if (low < 0xdc00 || low > 0xdfff)
        return REPLACEMENT;
    *p += 6;
    return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

/* Writes the decoded text as valid UTF-8 and returns its length: at most three times that
 * of the raw text, because an invalid byte becomes three bytes. */
static size_t decode(const struct quoted *s, char *out)
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
            n += (size_t)g_unichar_to_utf8(take_unicode(&p, end), out + n);
        } else if (*p == '\\') {
            out[n++] = letter_find(p[1])[1];
            p += 2;
        } else {
            uint32_t c;
            size_t bytes = text_character((struct slice){p, (size_t)(end - p)}, &c);
            n += (size_t)g_unichar_to_utf8(bytes ? c : REPLACEMENT, out + n);
            p += bytes ? bytes : 1;
        }
    }
    return n;
}

/* ------------------------------------------------------------------------- grammar */

/* Validates a text by RFC 8259. Each pass_ function advances the reader past the named
 * item. -1: invalid, and the position is undefined. No allocation; the depth of the
 * recursion is limited. */
struct reader {
    const char *p, *end;
    unsigned depth; /* nesting depth at p */
};

static void skip_space(struct reader *r)
{
    while (r->p < r->end &&
           (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r'))
        r->p++;
}

static bool next_is(const struct reader *r, char c)
{
    return r->p < r->end && *r->p == c;
}

/* Advances past c if it is next and returns whether it was. */
static bool take(struct reader *r, char c)
{
    bool there = next_is(r, c);
    r->p += there;
    return there;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

static int pass_escape(struct reader *r)
{
    r->p++;
    if (r->p == r->end)
        return -1;
    if (take(r, 'u')) {
        if (hex4(r->p, r->end) < 0)
            return -1;
        r->p += 4;
        return 0;
    }
    return letter_find(*r->p++) ? 0 : -1;
}

static int pass_string(struct reader *r, struct quoted *s)
{
    unsigned char all = 0; /* bitwise OR of all bytes */
    bool escaped = false;
    if (!take(r, '"'))
        return -1;
    s->raw.p = r->p;
    for (;;) {
        const char *p = r->p;
        while (p < r->end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
            all |= (unsigned char)*p++;
        r->p = p;
        if (!next_is(r, '\\'))
            break;
        escaped = true;
        if (pass_escape(r) < 0)
            return -1;
    }
    s->raw.n = (size_t)(r->p - s->raw.p);
    s->plain = !escaped && all < 0x80;
    return take(r, '"') ? 0 : -1;
}

static bool pass_digits(struct reader *r)
{
    const char *begin = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > begin;
}

static int pass_number(struct reader *r)
{
    take(r, '-');
    if (!take(r, '0') && !pass_digits(r))
        return -1;
    if (take(r, '.') && !pass_digits(r))
        return -1;
    if (!take(r, 'e') && !take(r, 'E'))
        return 0;
    if (!take(r, '+'))
        take(r, '-');
    return pass_digits(r) ? 0 : -1;
}

static int pass_scalar(struct reader *r)
{
    struct quoted ignored;
    if (next_is(r, '"'))
        return pass_string(r, &ignored);
    if (take_word(r, "null") || take_word(r, "true") || take_word(r, "false"))
        return 0;
    return pass_number(r);
}

/* Passes a key, its colon and surrounding space. */
static int pass_key(struct reader *r, struct quoted *key)
{
    skip_space(r);
    if (pass_string(r, key) < 0)
        return -1;
    skip_space(r);
    if (!take(r, ':'))
        return -1;
    skip_space(r);
    return 0;
}

/* Calls pass at each member of an object or element of an array; pass must advance past
 * it. Returns their number. */
static int pass_items(struct reader *r, const char *brackets,
                      int (*pass)(void *arg, struct reader *r), void *arg)
{
    int n = 0;
    if (r->depth == JSON_DEPTH_MAX || !take(r, brackets[0]))
        return -1;
    r->depth++;
    skip_space(r);
    for (bool more = !next_is(r, brackets[1]); more; more = take(r, ',')) {
        skip_space(r);
        if (pass(arg, r) < 0)
            return -1;
        n++;
        skip_space(r);
    }
    r->depth--;
    return take(r, brackets[1]) ? n : -1;
}

static int pass_value(struct reader *r);

static int skip_member(void *arg, struct reader *r)
{
    struct quoted ignored;
    (void)arg;
    return pass_key(r, &ignored) < 0 ? -1 : pass_value(r);
}

static int skip_element(void *arg, struct reader *r)
{
    (void)arg;
    return pass_value(r);
}

static int pass_value(struct reader *r)
{
    if (next_is(r, '{'))
        return pass_items(r, "{}", skip_member, NULL);
    if (next_is(r, '['))
        return pass_items(r, "[]", skip_element, NULL);
    return pass_scalar(r);
}

/* Like pass_items(), for a whole text. -1: invalid, or another type. */
static int walk(struct slice text, const char *brackets, bool may_be_null,
                int (*pass)(void *arg, struct reader *r), void *arg)
{
    const char *p = text.p ? text.p : "";
    struct reader r = {p, p + text.n, 0};
    skip_space(&r);
    int n =
        may_be_null && take_word(&r, "null") ? 0 : pass_items(&r, brackets, pass, arg);
    skip_space(&r);
    return r.p == r.end ? n : -1;
}

/* ------------------------------------------------------------------------- an object */

enum {
    NAME_MAX_BYTES = 64,                /* of a field; a longer key cannot match, */
    KEY_MAX_BYTES = 6 * NAME_MAX_BYTES, /* even with every letter written as \uXXXX */
};

/* Compares case-insensitively by Unicode: U+017F equals s, U+212A equals k. */
static bool is_name(struct slice key, const char *name)
{
    static const char long_s[] = "\xc5\xbf", kelvin[] = "\xe2\x84\xaa";
    for (; *name && key.n > 0; name++) {
        char c = (char)(*name | 0x20);
        const char *other = c == 's' ? long_s : c == 'k' ? kelvin : NULL;
        size_t bytes = 1;
        if (other && key.n >= strlen(other) && memcmp(key.p, other, strlen(other)) == 0)
            bytes = strlen(other);
        else if (strncasecmp(key.p, name, 1) != 0)
            return false;
        key = (struct slice){key.p + bytes, key.n - bytes};
    }
    return *name == 0 && key.n == 0;
}

static const struct json_field *field_find(const struct json_field *fields,
                                           const struct quoted *key)
{
    char decoded[3 * KEY_MAX_BYTES];
    struct slice name = key->raw;
    if (name.n > KEY_MAX_BYTES)
        return NULL;
    if (!key->plain)
        name = (struct slice){decoded, decode(key, decoded)};
    for (const struct json_field *f = fields; f->name; f++)
        if (is_name(name, f->name))
            return f;
    return NULL;
}

struct reading {
    const struct json_field *fields;
    char *to;
    struct buf *room; /* large enough for all texts */
};

static int read_text(struct reading *rd, struct reader *r, const struct json_field *f,
                     void *at)
{
    struct quoted s;
    (void)f;
    if (pass_string(r, &s) < 0)
        return -1;
    char *p = rd->room->p + rd->room->n;
    *(struct slice *)at = (struct slice){p, decode(&s, p)};
    buf_grew(rd->room, ((struct slice *)at)->n);
    return 0;
}

static int read_int(struct reading *rd, struct reader *r, const struct json_field *f,
                    void *at)
{
    const char *p = r->p;
    (void)rd;
    if (pass_number(r) < 0)
        return -1;
    bool negative = *p == '-';
    int64_t n = 0;
    for (p += negative; p < r->p; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(n, 10, &n))
            return -1;
        int64_t digit = negative ? '0' - *p : *p - '0';
        if (__builtin_add_overflow(n, digit, &n))
            return -1;
    }
    if ((f->min != 0 || f->max != 0) && (n < f->min || n > f->max))
        return -1;
    *(int64_t *)at = n;
    return 0;
}

static int read_bool(struct reading *rd, struct reader *r, const struct json_field *f,
                     void *at)
{
    (void)rd, (void)f;
    bool yes = take_word(r, "true");
    if (!yes && !take_word(r, "false"))
        return -1;
    *(bool *)at = yes;
    return 0;
}

static int read_raw(struct reading *rd, struct reader *r, const struct json_field *f,
                    void *at)
{
    struct slice *value = at;
    (void)rd, (void)f;
    const char *begin = r->p;
    if (pass_value(r) < 0)
        return -1;
    *value = (struct slice){begin, (size_t)(r->p - begin)};
    return 0;
}

static int read_member(void *arg, struct reader *r)
{
    static int (*const by_type[])(struct reading *, struct reader *,
                                  const struct json_field *, void *) = {
        [JSON_TEXT] = read_text,
        [JSON_INT] = read_int,
        [JSON_BOOL] = read_bool,
        [JSON_RAW] = read_raw,
    };
    struct reading *rd = arg;
    struct quoted key;
    if (pass_key(r, &key) < 0)
        return -1;
    const struct json_field *f = field_find(rd->fields, &key);
    if (f == NULL)
        return pass_value(r);
    if (take_word(r, "null"))
        return 0;
    return by_type[f->type](rd, r, f, rd->to + f->offset);
}

int json_read(struct slice text, const struct json_field *fields, void *to,
              struct buf *room)
{
    struct reading rd = {fields, to, room};
    buf_room(room, 3 * text.n + 1);
    return walk(text, "{}", true, read_member, &rd) < 0 ? -1 : 0;
}

/* --------------------------------------------------------------------------- arrays */

struct elements {
    json_element_cb *cb; /* NULL: only count the elements */
    void *arg;
};

static int pass_element(void *arg, struct reader *r)
{
    const struct elements *e = arg;
    const char *begin = r->p;
    if (pass_value(r) < 0)
        return -1;
    if (e->cb)
        e->cb(e->arg, (struct slice){begin, (size_t)(r->p - begin)});
    return 0;
}

int json_each(struct slice text, json_element_cb *cb, void *arg)
{
    int n = walk(text, "[]", true, pass_element, &(struct elements){NULL, NULL});
    return n > 0 ? walk(text, "[]", true, pass_element, &(struct elements){cb, arg}) : n;
}
