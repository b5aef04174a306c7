/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/json.h"
#include "bridge/base/json_scan.h"
#include "bridge/base/json_text.h"
#include "bridge/base/mem.h"

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
    if (json_pass_number(&rd->r) < 0)
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
    bool yes = json_take_word(&rd->r, "true");
    if (!yes && !json_take_word(&rd->r, "false"))
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
    if (json_take_word(&rd->r, "null"))
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
        bytes += json_decoded_max(&todo[n++].s);
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
    if (json_take_word(&rd.r, "null"))
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
    if (json_take_word(&r, "null"))
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
