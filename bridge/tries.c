/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/tries.h"
#include "bridge/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum { FIELDS = 6 };

static void copy(char *to, size_t room, const char *from, size_t n)
{
    if (n >= room)
        n = room - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)from[i] < ' ' || from[i] == 127 ? ' ' : from[i];
    to[n] = '\0';
}

static int64_t number(struct slice s)
{
    int64_t value = 0;
    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
        if (value > (INT64_MAX - 9) / 10)
            return INT64_MAX;
        value = value * 10 + (s.p[i] - '0');
    }
    return value;
}

/* Cuts text at its first FIELDS - 1 bars; the last field keeps the bars it has. */
static unsigned split(struct slice text, struct slice field[FIELDS])
{
    unsigned n = 0;
    while (n < FIELDS - 1) {
        const char *bar = text.n ? memchr(text.p, '|', text.n) : NULL;
        if (bar == NULL)
            break;
        size_t len = (size_t)(bar - text.p);
        field[n++] = (struct slice){text.p, len};
        text = (struct slice){bar + 1, text.n - len - 1};
    }
    field[n++] = text;
    return n;
}

void tries_parse(struct slice text, struct tries *t)
{
    struct slice field[FIELDS];
    *t = (struct tries){0};
    if (text.n == 0 || split(text, field) != FIELDS)
        return;
    int64_t attempts = number(field[0]), dead_tries = number(field[2]);
    t->attempts = attempts > 1000000 ? 1000000 : (unsigned)attempts;
    t->dead_tries = dead_tries > 1000000 ? 1000000 : (unsigned)dead_tries;
    copy(t->reason, sizeof(t->reason), field[1].p, field[1].n);
    t->first_ms = number(field[3]);
    t->last_ms = number(field[4]);
    copy(t->error, sizeof(t->error), field[5].p, field[5].n);
}

void tries_format(const struct tries *t, struct buf *out)
{
    buf_clear(out);
    buf_addf(out, "%u|%s|%u|%" PRId64 "|%" PRId64 "|%s", t->attempts, t->reason,
             t->dead_tries, t->first_ms, t->last_ms, t->error);
}

void tries_set_error(struct tries *t, const char *why)
{
    why = why ? why : "";
    copy(t->error, sizeof(t->error), why, strlen(why));
}

void tries_set_reason(struct tries *t, const char *reason)
{
    copy(t->reason, sizeof(t->reason), reason, strlen(reason));
}
