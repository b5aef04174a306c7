/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/admin.h"
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/http/http_job.h"
#include "bridge/job/tries.h"
#include "bridge/store/store.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

enum { GROUPS_MAX = 100, LINE_MAX_BYTES = 120, HEX_ID_LEAST = 8 };

struct dead_group {
    UT_hash_handle hh;
    uint64_t count;
    int64_t first_ms,
        last_ms; /* burial of the first and the last letter, ms since 1970 */
    char reason[sizeof(((struct tries *)0)->reason)];
    int status; /* of the answer; 0 = none */
    char *id;   /* of one letter */
    size_t id_n, text_n;
    char text[];
};

/* ------------------------------------------------------------------ the common text */

/* Returns the length of the id or number at the start of s; 0: there is none. A hex text
 * with dashes is an id if it is long and contains a digit. */
static size_t number_at(struct slice s)
{
    size_t digits = 0, hex = 0;
    bool has_digit = false;
    while (digits < s.n && isdigit((unsigned char)s.p[digits]))
        digits++;
    for (; hex < s.n && (isxdigit((unsigned char)s.p[hex]) || s.p[hex] == '-'); hex++)
        has_digit |= isdigit((unsigned char)s.p[hex]) != 0;
    bool ends = hex == s.n || !isalnum((unsigned char)s.p[hex]);
    return has_digit && ends && hex >= HEX_ID_LEAST ? hex : digits;
}

static void add_masked(struct buf *out, struct slice s)
{
    bool in_word = false;
    while (s.n > 0) {
        bool starts = !in_word || isdigit((unsigned char)s.p[0]);
        size_t n = starts ? number_at(s) : 0;
        buf_add(out, n > 0 ? "#" : s.p, 1);
        n = n > 0 ? n : 1;
        in_word = isalnum((unsigned char)s.p[n - 1]) != 0;
        s = (struct slice){s.p + n, s.n - n};
    }
}

/* Returns the first line of a text that is not blank, and at most LINE_MAX_BYTES of it.
 */
static struct slice first_line(struct slice text)
{
    struct slice line = {NULL, 0};
    while (text.p && line.n == 0)
        line = text_trim(text_cut(&text, '\n'));
    while (line.n > LINE_MAX_BYTES ||
           (line.n > 0 && ((unsigned char)line.p[line.n - 1] & 0x80) != 0 &&
            !text_is_utf8(line)))
        line.n--;
    return line;
}

void dead_group_text(const struct tries *letter, struct buf *out)
{
    static const char http[] = "HTTP 400";
    struct slice error = slice_of(letter->error);
    size_t kept = strncmp(error.p, "HTTP ", 5) == 0 && error.n >= sizeof(http) - 1
                      ? sizeof(http) - 1
                      : 0;
    struct slice line = first_line(slice_of(letter->answer ? letter->answer->body : ""));
    buf_add(out, error.p, kept);
    add_masked(out, (struct slice){error.p + kept, error.n - kept});
    if (line.n > 0) {
        buf_add_str(out, " ");
        add_masked(out, line);
    }
}

/* ------------------------------------------------------------------------ the groups */

/* The reason is part of the key, behind a NUL byte. */
static struct dead_group *group_of(struct dead_groups *groups,
                                   const struct store_dead_item *item,
                                   const struct tries *letter)
{
    struct buf key = {0};
    struct dead_group *g;
    dead_group_text(letter, &key);
    size_t text_n = key.n;
    buf_add(&key, letter->reason, strlen(letter->reason) + 1);
    HASH_FIND(hh, groups->by_text, key.p, key.n, g);
    if (g == NULL && HASH_COUNT(groups->by_text) < GROUPS_MAX) {
        g = mem_alloc(sizeof(*g) + key.n + item->id.n);
        slice_put(g->text, buf_slice(&key));
        g->text_n = text_n;
        g->id = g->text + key.n;
        g->id_n = item->id.n;
        slice_put(g->id, item->id);
        memcpy(g->reason, letter->reason, sizeof(g->reason));
        g->status = letter->status;
        g->first_ms = item->buried_ms;
        HASH_ADD_KEYPTR(hh, groups->by_text, g->text, key.n, g);
    }
    buf_free(&key);
    return g;
}

void dead_groups_add(struct dead_groups *groups, const struct store_dead_item *item,
                     const struct tries *letter)
{
    struct dead_group *g = group_of(groups, item, letter);
    if (g == NULL) {
        groups->others++;
        return;
    }
    g->count++;
    g->first_ms = item->buried_ms < g->first_ms ? item->buried_ms : g->first_ms;
    g->last_ms = item->buried_ms > g->last_ms ? item->buried_ms : g->last_ms;
}

static int by_count(const struct dead_group *a, const struct dead_group *b)
{
    return a->count == b->count ? 0 : a->count > b->count ? -1 : 1;
}

void dead_groups_print(struct dead_groups *groups, struct buf *out)
{
    const char *open = "{";
    buf_add_str(out, ",\"groups\":[");
    HASH_SORT(groups->by_text, by_count);
    for (const struct dead_group *g = groups->by_text; g; g = g->hh.next) {
        buf_add_str(out, open);
        open = ",{";
        text_add_json_member(out, "error", (struct slice){g->text, g->text_n});
        text_add_json_member(out, "reason", slice_of(g->reason));
        if (g->status)
            buf_addf(out, ",\"status\":%d", g->status);
        else
            buf_add_str(out, ",\"status\":null");
        buf_addf(out, ",\"count\":%" PRIu64, g->count);
        http_add_when(out, "first", g->first_ms);
        http_add_when(out, "last", g->last_ms);
        buf_add_str(out, ",\"example\":{");
        text_add_json_id(out, (struct slice){g->id, g->id_n});
        buf_add_str(out, "}}");
    }
    buf_addf(out, "],\"others\":%" PRIu64, groups->others);
}

void dead_groups_free(struct dead_groups *groups)
{
    struct dead_group *g, *next;
    HASH_ITER (hh, groups->by_text, g, next) {
        HASH_DEL(groups->by_text, g);
        free(g);
    }
}
