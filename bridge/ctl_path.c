/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/ctl_parts.h"
#include "bridge/text.h"

#include <stdio.h>
#include <stdlib.h>

void ctl_path_add(struct buf *out, const char *route, const char *part, const char *name)
{
    buf_add_str(out, "/v1/routes/");
    text_add_percent(out, slice_of(route), "");
    buf_addf(out, "/%s", part);
    if (name) {
        buf_add_str(out, "/");
        text_add_percent(out, slice_of(name), "");
    }
}

void ctl_query_add(struct buf *out, const char *key, const char *value)
{
    if (value == NULL)
        return;
    bool first = out->n == 0 || memchr(out->p, '?', out->n) == NULL;
    buf_addf(out, "%s%s=", first ? "?" : "&", key);
    text_add_percent(out, slice_of(value), "");
}

void ctl_text_add(struct buf *out, struct slice s)
{
    static const char letters[] = {
        ['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r', ['\\'] = '\\'};
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        /* U+0080 to U+009F, two bytes in UTF-8, are control characters as well. */
        unsigned char next = i + 1 < s.n ? (unsigned char)s.p[i + 1] : 0;
        bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        if (c < sizeof(letters) && letters[c])
            buf_addf(out, "\\%c", letters[c]);
        else if (c < ' ' || c == 127)
            buf_addf(out, "\\x%02x", c);
        else if (c1)
            buf_addf(out, "\\x%02x", (unsigned char)s.p[++i]);
        else
            buf_add(out, &s.p[i], 1);
    }
}

void ctl_member_add(struct buf *out, const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (json_is_integer(v))
        buf_addf(out, "%lld", (long long)json_integer_value(v));
    else if (json_is_string(v) && json_string_length(v) > 0)
        ctl_text_add(out, (struct slice){json_string_value(v), json_string_length(v)});
    else
        buf_add_str(out, "-");
}

void ctl_print_json(const json_t *v, size_t flags)
{
    char *text = json_dumps(v, flags | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    if (text)
        puts(text);
    free(text);
}
