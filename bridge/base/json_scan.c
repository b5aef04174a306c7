/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/json_scan.h"
#include "bridge/base/json.h"

#include <string.h>

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

bool json_take_word(struct json_reader *r, const char *word)
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
        if (json_hex4(r->p, r->end) < 0)
            return -1;
        r->p += 4;
        return 0;
    }
    return json_is_letter(*r->p++) ? 0 : -1;
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

int json_pass_number(struct json_reader *r)
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
    if (json_take_word(r, "null") || json_take_word(r, "true") ||
        json_take_word(r, "false"))
        return 0;
    return json_pass_number(r);
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
