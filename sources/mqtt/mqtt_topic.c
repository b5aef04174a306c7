/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_topic.c - names by the rules of MQTT 3.1.1 and 5: sections 1.5.4 and 4.7.
 */
#include "sources/mqtt/mqtt_topic.h"

enum { DIGITS_MAX = 15 };
static const int64_t EPOCH_FROM = 1000000000;

/* The shape of UTF-8: how a first byte tells the length and the least code point. */
static const struct utf8_form {
    unsigned char mask, lead;
    unsigned extra;
    uint32_t least;
} forms[] = {{0x80, 0x00, 0, 0x20},
             {0xe0, 0xc0, 1, 0xa0},
             {0xf0, 0xe0, 2, 0x800},
             {0xf8, 0xf0, 3, 0x10000}};

static const struct utf8_form *form_of(unsigned char first)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if ((first & forms[i].mask) == forms[i].lead)
            return &forms[i];
    return NULL;
}

/* The least code points in the table leave out both overlong forms and the control
 * characters U+0000..U+001F and U+0080..U+009F. */
static bool code_point_ok(uint32_t code, const struct utf8_form *form)
{
    return code >= form->least && code <= 0x10ffff && code != 0x7f &&
           !(code >= 0xd800 && code <= 0xdfff) && !(code >= 0xfdd0 && code <= 0xfdef) &&
           (code & 0xfffe) != 0xfffe;
}

bool mqtt_text_ok(struct slice text)
{
    const unsigned char *p = (const unsigned char *)text.p;

    if (text.n > MQTT_TEXT_MAX)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        const struct utf8_form *form = form_of(p[i]);
        if (form == NULL || form->extra > text.n - i - 1)
            return false;
        uint32_t code = p[i] & (unsigned char)~form->mask;
        for (unsigned k = 0; k < form->extra; k++) {
            i++;
            if ((p[i] & 0xc0) != 0x80)
                return false;
            code = code << 6 | (p[i] & 0x3f);
        }
        if (!code_point_ok(code, form))
            return false;
    }
    return true;
}

static bool has_any(struct slice s, char a, char b)
{
    return s.n > 0 && (memchr(s.p, a, s.n) || memchr(s.p, b, s.n));
}

static int common_check(struct slice name, struct err *err)
{
    if (name.n == 0)
        return err_set(err, "an MQTT topic may not be empty");
    if (name.n > MQTT_TEXT_MAX)
        return err_set(err, "an MQTT topic has at most %d bytes, this one has %zu",
                       MQTT_TEXT_MAX, name.n);
    if (!mqtt_text_ok(name))
        return err_set(err, "an MQTT topic must be UTF-8 without control characters");
    return 0;
}

int mqtt_topic_check(struct slice topic, struct err *err)
{
    if (common_check(topic, err) != 0)
        return -1;
    if (has_any(topic, '+', '#'))
        return err_set(err,
                       "the wildcards + and # may not stand in a topic to publish to");
    return 0;
}

/* + fills a whole level, # the whole of the last one. */
static bool level_ok(struct slice level, bool last)
{
    if (!has_any(level, '+', '#'))
        return true;
    return level.n == 1 && (level.p[0] == '+' || last);
}

int mqtt_filter_check(struct slice filter, struct err *err)
{
    if (common_check(filter, err) != 0)
        return -1;
    for (size_t from = 0; from <= filter.n;) {
        const char *slash =
            from < filter.n ? memchr(filter.p + from, '/', filter.n - from) : NULL;
        size_t end = slash ? (size_t)(slash - filter.p) : filter.n;
        if (!level_ok((struct slice){filter.p + from, end - from}, slash == NULL))
            return err_set(
                err,
                "topic filter \"%.*s\": + must be a whole level, # the whole of the "
                "last level",
                SLICE_ARG(filter));
        from = end + 1;
    }
    return 0;
}

struct mqtt_delayed mqtt_delayed_split(struct slice topic)
{
    const struct slice prefix = SLICE_LIT("$delayed/");
    const struct slice level = {prefix.p,
                                prefix.n - 1}; /* "$delayed/#" matches it, too */
    struct mqtt_delayed d = {.form = MQTT_NOT_DELAYED, .rest = topic};
    size_t at = prefix.n;

    if (topic.n < prefix.n ? !slice_eq(topic, level)
                           : memcmp(topic.p, prefix.p, prefix.n) != 0)
        return d;
    d.form = MQTT_DELAYED_BAD;
    for (; at < topic.n && topic.p[at] >= '0' && topic.p[at] <= '9'; at++) {
        if (at - prefix.n == DIGITS_MAX)
            return d;
        d.number = d.number * 10 + (topic.p[at] - '0');
    }
    /* At least one digit, a slash, and at least one byte of a topic after it. */
    if (at == prefix.n || at + 1 >= topic.n || topic.p[at] != '/')
        return d;
    d.form = d.number < EPOCH_FROM ? MQTT_DELAYED_AFTER : MQTT_DELAYED_AT;
    d.rest = (struct slice){topic.p + at + 1, topic.n - at - 1};
    return d;
}
