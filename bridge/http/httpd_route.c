/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/httpd_route.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

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
            /* Side by side with their slashes, so that {*} can take several as one. */
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
    must(pattern->takes <= HTTPD_TOOK_MAX);
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
