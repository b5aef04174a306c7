/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/httpd_url.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------- paths */

static const char *segment_end(const char *p, const char *end, bool last)
{
    const char *slash = last ? NULL : memchr(p, '/', (size_t)(end - p));
    return slash ? slash : end;
}

int httpd_path_split(struct httpd_path *path, struct slice raw, char *room)
{
    if (raw.n == 0 || raw.p[0] != '/')
        return -1;
    bool escaped = memchr(raw.p, '%', raw.n) != NULL;
    const char *end = raw.p + raw.n;
    path->n = 0;
    for (const char *p = raw.p + 1; p <= end;) {
        bool last = path->n == HTTPD_SEGMENTS_MAX - 1;
        const char *stop = segment_end(p, end, last);
        struct slice s = {p, (size_t)(stop - p)};
        if (escaped) {
            /* Contiguous with their slashes, so that {*} can match several segments as
             * one slice. */
            long n = text_percent_decode(s, room);
            if (n < 0)
                return -1;
            s = (struct slice){room, (size_t)n};
            room += n;
            if (stop < end)
                *room++ = '/';
        }
        path->segment[path->n++] = s;
        p = stop + 1;
    }
    return 0;
}

void httpd_pattern_init(struct httpd_pattern *pattern, const char *text)
{
    must(text[0] == '/');
    pattern->n = 0;
    pattern->takes = 0;
    pattern->rest = false;
    const char *end = text + strlen(text);
    for (const char *p = text + 1; p <= end;) {
        const char *stop = segment_end(p, end, false);
        struct slice s = {p, (size_t)(stop - p)};
        must(!pattern->rest && pattern->n < HTTPD_SEGMENTS_MAX);
        if (slice_is(s, "{*}"))
            pattern->rest = true;
        else
            pattern->segment[pattern->n++] = slice_is(s, "{}") ? (struct slice){0} : s;
        pattern->takes += slice_is(s, "{}") || slice_is(s, "{*}");
        p = stop + 1;
    }
    must(pattern->takes <= HTTPD_PATH_PARAMS_MAX);
}

int httpd_pattern_match(const struct httpd_pattern *pattern,
                        const struct httpd_path *path, struct slice *took)
{
    int n = 0;
    if (pattern->rest ? path->n <= pattern->n : path->n != pattern->n)
        return -1;
    for (unsigned i = 0; i < pattern->n; i++) {
        struct slice s = path->segment[i];
        if (pattern->segment[i].p == NULL) {
            if (s.n == 0)
                return -1;
            took[n++] = s;
        } else if (!slice_eq(s, pattern->segment[i])) {
            return -1;
        }
    }
    if (pattern->rest) {
        struct slice first = path->segment[pattern->n], last = path->segment[path->n - 1];
        took[n++] = (struct slice){first.p, (size_t)(last.p + last.n - first.p)};
    }
    return n;
}

enum { BOUNDARY_MAX = 70 /* RFC 2046 */ };

static const struct slice none;

/* ------------------------------------------------------- queries and urlencoded forms */

bool form_next(struct slice *rest, struct slice *name, struct slice *value)
{
    while (rest->n > 0) {
        *value = text_cut(rest, '&');
        if (value->n == 0)
            continue;
        *name = text_cut(value, '=');
        if (value->p == NULL)
            *value = SLICE_LIT("");
        return true;
    }
    return false;
}

long form_decode(struct slice s, char *out)
{
    long n = 0;
    for (size_t i = 0; i < s.n; i++, n++) {
        if (s.p[i] == '%') {
            struct slice escape = {s.p + i, s.n - i < 3 ? s.n - i : 3};
            if (text_percent_decode(escape, out + n) < 0)
                return -1;
            i += 2;
        } else {
            out[n] = s.p[i] == '+' ? ' ' : s.p[i];
        }
    }
    return n;
}

bool form_is(struct slice raw, const char *name)
{
    char plain[256];
    if (raw.n == 0 || (!memchr(raw.p, '%', raw.n) && !memchr(raw.p, '+', raw.n)))
        return slice_is(raw, name);
    if (raw.n > 3 * strlen(name) || raw.n > sizeof(plain))
        return false;
    long n = form_decode(raw, plain);
    return n >= 0 && slice_is((struct slice){plain, (size_t)n}, name);
}

int form_each(struct slice text, httpd_param_cb *cb, void *arg)
{
    struct slice name, value;
    if (text.n == 0)
        return 0;
    char *room = mem_alloc(text.n);
    int rc = 0;
    while (rc == 0 && form_next(&text, &name, &value)) {
        long name_n = form_decode(name, room);
        long value_n = name_n < 0 ? -1 : form_decode(value, room + name_n);
        if (value_n < 0)
            rc = -1;
        else
            cb(arg, (struct slice){room, (size_t)name_n},
               (struct slice){room + name_n, (size_t)value_n});
    }
    free(room);
    return rc;
}

/* ------------------------------------------------------------------ header values */

bool form_type_is(struct slice content_type, const char *type)
{
    return slice_is_nocase(text_trim(text_cut(&content_type, ';')), type);
}

/* Returns the end of a quoted string that begins at p, or NULL if it is unterminated. */
static const char *quoted_end(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p + 1 : NULL;
}

/* Removes the next NAME=VALUE from the parameters of a header. A quoted value loses its
 * quotes, but keeps backslashes. Returns false at the end, or if it is malformed. */
static bool next_parameter(struct slice *rest, struct slice *name, struct slice *value)
{
    const char *eq = rest->n ? memchr(rest->p, '=', rest->n) : NULL;
    if (eq == NULL)
        return false;
    const char *end = rest->p + rest->n;
    *name = text_trim((struct slice){rest->p, (size_t)(eq - rest->p)});
    *rest = (struct slice){eq + 1, (size_t)(end - eq - 1)};
    if (rest->n == 0 || rest->p[0] != '"') {
        *value = text_trim(text_cut(rest, ';'));
        return true;
    }
    const char *stop = quoted_end(rest->p, end);
    if (stop == NULL)
        return false;
    *value = (struct slice){rest->p + 1, (size_t)(stop - rest->p - 2)};
    *rest = (struct slice){stop, (size_t)(end - stop)};
    return text_cut(rest, ';').n == 0;
}

/* Returns the value of a header's parameter; p NULL: absent. */
static struct slice parameter(struct slice header, const char *wanted)
{
    struct slice name, value;
    text_cut(&header, ';');
    while (next_parameter(&header, &name, &value)) {
        if (slice_is_nocase(name, wanted))
            return value;
    }
    return none;
}

/* ---------------------------------------------------------------------- multipart */

/* Removes and returns the next line without CRLF; p NULL: none. */
static struct slice next_line(struct slice *rest)
{
    const char *end = rest->n ? memmem(rest->p, rest->n, "\r\n", 2) : NULL;
    if (end == NULL)
        return none;
    struct slice line = {rest->p, (size_t)(end - rest->p)};
    *rest = (struct slice){end + 2, rest->n - line.n - 2};
    return line;
}

/* Calls cb with the name, after removing the backslashes of a quoted string. */
static void tell(struct slice quoted, struct slice value, httpd_param_cb *cb, void *arg)
{
    struct buf name = {0};
    for (size_t i = 0; i < quoted.n; i++) {
        if (quoted.p[i] == '\\' && i + 1 < quoted.n)
            i++;
        buf_add(&name, quoted.p + i, 1);
    }
    cb(arg, buf_slice(&name), value);
    buf_free(&name);
}

/* part: head and content of a part. */
static int read_part(struct slice part, httpd_param_cb *cb, void *arg)
{
    static const char wanted[] = "content-disposition:";
    struct slice line, disposition = none;
    while ((line = next_line(&part)).n > 0) {
        if (line.n >= sizeof(wanted) - 1 &&
            strncasecmp(line.p, wanted, sizeof(wanted) - 1) == 0)
            disposition = line;
    }
    struct slice name = parameter(disposition, "name");
    if (line.p == NULL || name.p == NULL)
        return -1;
    if (parameter(disposition, "filename").p == NULL)
        tell(name, part, cb, arg);
    return 0;
}

int multipart_each(struct slice body, struct slice content_type, httpd_param_cb *cb,
                   void *arg)
{
    struct slice boundary = parameter(content_type, "boundary");
    char mark[BOUNDARY_MAX + 4] = "\r\n--";
    if (boundary.n == 0 || boundary.n > BOUNDARY_MAX)
        return -1;
    memcpy(mark + 4, boundary.p, boundary.n);
    size_t mark_n = 4 + boundary.n;
    const char *end = body.p + body.n;
    /* The first boundary may be at the beginning of the body, without a preceding
     * line. */
    bool first = body.n >= mark_n - 2 && memcmp(body.p, mark + 2, mark_n - 2) == 0;
    const char *at = first ? body.p : memmem(body.p, body.n, mark, mark_n);
    const char *head = at ? at + mark_n - (first ? 2 : 0) : NULL;
    while (head) {
        if (end - head >= 2 && memcmp(head, "--", 2) == 0)
            return 0;
        struct slice rest = {head, (size_t)(end - head)};
        struct slice line = next_line(&rest);
        if (line.p == NULL || text_trim(line).n > 0)
            return -1;
        /* Searches from the end of that line, so that a part may be completely empty. */
        at = memmem(rest.p - 2, rest.n + 2, mark, mark_n);
        if (at && (at < rest.p ||
                   read_part((struct slice){rest.p, (size_t)(at - rest.p)}, cb, arg) < 0))
            return -1;
        head = at ? at + mark_n : NULL;
    }
    return -1;
}
