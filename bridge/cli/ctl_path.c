/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "bridge/cli/ctl_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The flags that are a part of the query. */
static void add_flags(struct buf *out, const struct cli_order *o)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++) {
        const char *field = (const char *)o + f->offset;
        if (f->query && f->kind == CLI_TEXT && (f->sets & o->command->sets))
            ctl_query_add(out, f->query, *(const char *const *)(const void *)field);
    }
}

void ctl_path_add(struct buf *out, const struct cli_order *o)
{
    unsigned place = 0;
    for (const char *p = o->command->path; *p;) {
        const char *hole = strstr(p, "{}");
        buf_add(out, p, hole ? (size_t)(hole - p) : strlen(p));
        p = hole ? hole + 2 : p + strlen(p);
        if (hole)
            text_add_percent(out, slice_of(o->place[place++]), "");
    }
    add_flags(out, o);
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

void ctl_print_json(const json_t *v, size_t flags)
{
    char *text = json_dumps(v, flags | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    if (text)
        puts(text);
    free(text);
}
