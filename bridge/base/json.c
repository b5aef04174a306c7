/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <string.h>

#include <glib.h>

/* ------------------------------------------------------------------------- strings */

enum { REPLACEMENT = 0xfffd };

/* The number of four hex digits; -1: there are not so many before end. */
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

/* The character of \uXXXX at p, of which the grammar is right; passes it, and the second
 * half of a pair, too. */
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

/* How many bytes json_decode() needs at most: an escape is never shorter than what it
 * means; a byte that is broken is. */
static size_t decoded_max(const struct json_quoted *s)
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

struct json_reader json_reader_of(struct slice text)
{
    const char *p = text.p ? text.p : "";
    return (struct json_reader){p, p + text.n, 0};
}

void json_space(struct json_reader *r)
{
    while (r->p < r->end &&
           (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r'))
        r->p++;
}

static bool next_is(const struct json_reader *r, char c)
{
    return r->p < r->end && *r->p == c;
}

bool json_take(struct json_reader *r, char c)
{
    bool there = next_is(r, c);
    r->p += there;
    return there;
}

static bool take_word(struct json_reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

static int pass_escape(struct json_reader *r)
{
    r->p++;
    if (r->p == r->end)
        return -1;
    if (json_take(r, 'u')) {
        if (hex4(r->p, r->end) < 0)
            return -1;
        r->p += 4;
        return 0;
    }
    return letter_find(*r->p++) ? 0 : -1;
}

int json_pass_string(struct json_reader *r, struct json_quoted *s)
{
    unsigned char all = 0; /* every bit that was set in a byte */
    bool escaped = false;
    if (!json_take(r, '"'))
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
    return json_take(r, '"') ? 0 : -1;
}

static bool pass_digits(struct json_reader *r)
{
    const char *begin = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > begin;
}

static int pass_number(struct json_reader *r)
{
    json_take(r, '-');
    if (!json_take(r, '0') && !pass_digits(r))
        return -1;
    if (json_take(r, '.') && !pass_digits(r))
        return -1;
    if (!json_take(r, 'e') && !json_take(r, 'E'))
        return 0;
    if (!json_take(r, '+'))
        json_take(r, '-');
    return pass_digits(r) ? 0 : -1;
}

static int pass_scalar(struct json_reader *r)
{
    struct json_quoted ignored;
    if (next_is(r, '"'))
        return json_pass_string(r, &ignored);
    if (take_word(r, "null") || take_word(r, "true") || take_word(r, "false"))
        return 0;
    return pass_number(r);
}

int json_pass_key(struct json_reader *r, struct json_quoted *key)
{
    json_space(r);
    if (json_pass_string(r, key) < 0)
        return -1;
    json_space(r);
    if (!json_take(r, ':'))
        return -1;
    json_space(r);
    return 0;
}

int json_pass_value(struct json_reader *r)
{
    bool is_object[JSON_DEPTH_MAX]; /* by depth: each of what is open */
    const unsigned outside = r->depth;
    struct json_quoted ignored;
    for (;;) {
        bool object = next_is(r, '{');
        if (object || next_is(r, '[')) {
            if (r->depth == JSON_DEPTH_MAX)
                return -1;
            is_object[r->depth++] = object;
            r->p++;
            json_space(r);
            if (!next_is(r, object ? '}' : ']')) {
                if (object && json_pass_key(r, &ignored) < 0)
                    return -1;
                continue;
            }
        } else if (pass_scalar(r) < 0) {
            return -1;
        }
        for (bool more = false; !more;) {
            if (r->depth == outside)
                return 0;
            object = is_object[r->depth - 1];
            json_space(r);
            more = json_take(r, ',');
            if (!more && !json_take(r, object ? '}' : ']'))
                return -1;
            r->depth -= !more;
        }
        json_space(r);
        if (object && json_pass_key(r, &ignored) < 0)
            return -1;
    }
}

int json_pass_end(struct json_reader *r)
{
    json_space(r);
    return r->p == r->end ? 0 : -1;
}

/* ------------------------------------------------------------------------- an object */

enum {
    FIELDS_MAX = 64,
    NAME_MAX_BYTES = 64,                /* of a field; a longer key can't be one, */
    KEY_MAX_BYTES = 6 * NAME_MAX_BYTES, /* even with every letter as \uXXXX */
};

/* Without regard to case, by Unicode: U+017F is an s, U+212A is a k. */
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
                                           const struct json_quoted *key)
{
    char decoded[3 * KEY_MAX_BYTES];
    struct slice name = key->raw;
    if (name.n > KEY_MAX_BYTES)
        return NULL;
    if (!key->plain)
        name = (struct slice){decoded, json_decode(key, decoded)};
    for (const struct json_field *f = fields; f->name; f++) {
        if (is_name(name, f->name))
            return f;
    }
    return NULL;
}

struct reading {
    struct json_reader r;
    const struct json_field *fields;
    char *to;
    uint64_t texts, plain; /* bit i: field i is a text, whose raw bytes stand in to */
};

static int read_text(struct reading *rd, const struct json_field *f, void *at)
{
    struct slice *value = at;
    struct json_quoted s;
    if (json_pass_string(&rd->r, &s) < 0)
        return -1;
    uint64_t bit = UINT64_C(1) << (f - rd->fields);
    rd->texts |= bit;
    rd->plain = s.plain ? rd->plain | bit : rd->plain & ~bit;
    *value = s.raw;
    return 0;
}

static int read_int(struct reading *rd, const struct json_field *f, void *at)
{
    const char *p = rd->r.p;
    if (pass_number(&rd->r) < 0)
        return -1;
    bool negative = *p == '-';
    int64_t n = 0;
    for (p += negative; p < rd->r.p; p++) {
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

static int read_bool(struct reading *rd, const struct json_field *f, void *at)
{
    (void)f;
    bool yes = take_word(&rd->r, "true");
    if (!yes && !take_word(&rd->r, "false"))
        return -1;
    *(bool *)at = yes;
    return 0;
}

static int read_raw(struct reading *rd, const struct json_field *f, void *at)
{
    struct slice *value = at;
    (void)f;
    const char *begin = rd->r.p;
    if (json_pass_value(&rd->r) < 0)
        return -1;
    *value = (struct slice){begin, (size_t)(rd->r.p - begin)};
    return 0;
}

static int read_member(struct reading *rd)
{
    static int (*const by_type[])(struct reading *, const struct json_field *, void *) = {
        [JSON_TEXT] = read_text,
        [JSON_INT] = read_int,
        [JSON_BOOL] = read_bool,
        [JSON_RAW] = read_raw,
    };
    struct json_quoted key;
    if (json_pass_key(&rd->r, &key) < 0)
        return -1;
    const struct json_field *f = field_find(rd->fields, &key);
    if (f == NULL)
        return json_pass_value(&rd->r);
    if (take_word(&rd->r, "null"))
        return 0;
    must(f - rd->fields < FIELDS_MAX);
    return by_type[f->type](rd, f, rd->to + f->offset);
}

/* Now that it is known how much there is: raw bytes become texts in room. */
static void decode_texts(const struct reading *rd, struct buf *room)
{
    struct {
        struct json_quoted s;
        struct slice *at;
    } todo[FIELDS_MAX];
    unsigned n = 0;
    size_t bytes = 1; /* so that there is room even for empty texts */
    for (unsigned i = 0; i < FIELDS_MAX; i++) {
        if ((rd->texts >> i & 1) == 0)
            continue;
        struct slice *at = (void *)(rd->to + rd->fields[i].offset);
        todo[n].at = at;
        todo[n].s = (struct json_quoted){*at, rd->plain >> i & 1};
        bytes += decoded_max(&todo[n++].s);
    }
    if (n > 0)
        buf_room(room, bytes);
    for (unsigned i = 0; i < n; i++) {
        char *p = room->p + room->n;
        size_t length = json_decode(&todo[i].s, p);
        buf_grew(room, length);
        *todo[i].at = (struct slice){p, length};
    }
}

int json_read(struct slice text, const struct json_field *fields, void *to,
              struct buf *room)
{
    struct reading rd = {.r = json_reader_of(text), .fields = fields, .to = to};
    json_space(&rd.r);
    if (take_word(&rd.r, "null"))
        return json_pass_end(&rd.r);
    if (!json_take(&rd.r, '{'))
        return -1;
    rd.r.depth = 1;
    json_space(&rd.r);
    if (!json_take(&rd.r, '}')) {
        do {
            if (read_member(&rd) < 0)
                return -1;
            json_space(&rd.r);
        } while (json_take(&rd.r, ','));
        if (!json_take(&rd.r, '}'))
            return -1;
    }
    if (json_pass_end(&rd.r) < 0)
        return -1;
    decode_texts(&rd, room);
    return 0;
}

/* --------------------------------------------------------------------- an array */

/* One pass over all elements; cb NULL: only whether it is one. */
static int each(struct slice text, json_element_cb *cb, void *arg)
{
    struct json_reader r = json_reader_of(text);
    int n = 0;
    json_space(&r);
    if (take_word(&r, "null"))
        return json_pass_end(&r);
    if (!json_take(&r, '['))
        return -1;
    r.depth = 1;
    json_space(&r);
    if (json_take(&r, ']'))
        return json_pass_end(&r);
    do {
        json_space(&r);
        const char *begin = r.p;
        if (json_pass_value(&r) < 0)
            return -1;
        if (cb)
            cb(arg, (struct slice){begin, (size_t)(r.p - begin)});
        n++;
        json_space(&r);
    } while (json_take(&r, ','));
    if (!json_take(&r, ']') || json_pass_end(&r) < 0)
        return -1;
    return n;
}

int json_each(struct slice text, json_element_cb *cb, void *arg)
{
    int n = each(text, NULL, NULL);
    return n > 0 ? each(text, cb, arg) : n;
}
