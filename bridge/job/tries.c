/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/job/tries.h"
#include "bridge/base/log.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <inttypes.h>
#include <stdio.h>

enum { FIELDS = 6, COUNT_MAX = 1000000 };

#define STATE_CANCELLED "cancelled"
#define STATE_PACED "paced"

static const char *const reasons[REASONS] = {
    [REASON_BAD_DELAY] = "bad-delay",
    [REASON_TOO_LONG] = "too-long",
    [REASON_BAD_ID] = "bad-id",
    [REASON_BAD_OP] = "bad-op",
    [REASON_BAD_TARGET] = "bad-target",
    [REASON_BAD_RETRY] = "bad-retry",
    [REASON_BAD_REPEAT] = "bad-repeat",
    [REASON_EXPIRED] = "expired",
    [REASON_LATE] = "late",
    [REASON_RETRIES] = "retries",
    [REASON_REJECTED] = "rejected",
    [REASON_OVERSIZE] = "oversize",
    [REASON_NO_ROUTE] = "no-route",
    [REASON_TOO_MANY] = "too-many-queues",
    [REASON_LOOP] = "loop",
    [REASON_UNDECODABLE] = "undecodable",
};

const char *reason_name(enum reason r)
{
    return reasons[r];
}

enum reason reason_find(const char *name)
{
    for (int i = 0; i < REASONS; i++)
        if (strcmp(reasons[i], name) == 0)
            return (enum reason)i;
    return REASON_UNDECODABLE;
}

static void copy(char *to, size_t room, const char *from, size_t n)
{
    if (n >= room)
        n = room - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)from[i] < ' ' || from[i] == 127 ? ' ' : from[i];
    to[n] = '\0';
}

/* Copies bytes without control characters, except newline and tab in a text. */
static size_t copy_text(char *to, size_t room, struct slice from)
{
    size_t n = 0;
    while (from.n > 0 && n < room) {
        uint32_t c = 0;
        size_t bytes = text_character(from, &c);
        bool plain = bytes > 0 && (c == '\n' || c == '\t' || c >= ' ') && c != 127 &&
                     (c < 0x80 || c >= 0xa0);
        if (bytes > 1 && n + bytes > room)
            break;
        for (size_t i = 0; plain && i < bytes; i++)
            to[n++] = from.p[i];
        if (!plain)
            to[n++] = bytes > 0 ? ' ' : '?';
        bytes = bytes > 0 ? bytes : 1;
        from = (struct slice){from.p + bytes, from.n - bytes};
    }
    to[n] = '\0';
    return n;
}

static int64_t number(struct slice s)
{
    int64_t n;
    text_take_digits(&s, &n);
    return n;
}

/* Splits text at its first FIELDS - 1 bars; the last field may contain bars. */
static unsigned split(struct slice text, struct slice field[FIELDS])
{
    unsigned n = 0;
    for (; n < FIELDS - 1 && text.p; n++)
        field[n] = text_cut(&text, '|');
    if (text.p)
        field[n++] = text;
    return n;
}

/* Parses numbers separated by slashes. Records of an earlier version contain only the
 * first number. */
static void numbers(struct slice text, int64_t *n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        n[i] = number(text_cut(&text, '/'));
    }
}

static unsigned at_most(int64_t n, unsigned most)
{
    return n > most ? most : (unsigned)n;
}

void tries_parse(struct slice text, struct tries *t)
{
    struct slice field[FIELDS];
    int64_t counts[3]; /* dead tries, status, replays */
    *t = (struct tries){0};
    if (text.n == 0 || split(text, field) != FIELDS)
        return;
    numbers(field[2], counts, 3);
    t->attempts = at_most(number(field[0]), COUNT_MAX);
    t->cancelled = slice_is(field[1], STATE_CANCELLED);
    t->paced = slice_is(field[1], STATE_PACED);
    if (!t->cancelled && !t->paced)
        copy(t->reason, sizeof(t->reason), field[1].p, field[1].n);
    t->dead_tries = at_most(counts[0], COUNT_MAX);
    t->status = (int)at_most(counts[1], COUNT_MAX);
    t->replays = at_most(counts[2], COUNT_MAX);
    t->first_ms = number(field[3]);
    t->last_ms = number(field[4]);
    struct slice error = text_cut(&field[5], '\n');
    copy(t->error, sizeof(t->error), error.p, error.n);
}

struct tries_answer *tries_parse_answer(struct slice text)
{
    text_cut(&text, '\n');
    if (text.p == NULL)
        return NULL;
    struct tries_answer *answer = mem_alloc(sizeof(*answer));
    struct slice type = text_cut(&text, '\n');
    copy(answer->type, sizeof(answer->type), type.p, type.n);
    if (text.p)
        copy_text(answer->body, TRIES_ANSWER_MAX, text);
    return answer;
}

void tries_format(const struct tries *t, struct buf *out)
{
    const char *state = t->cancelled ? STATE_CANCELLED
                        : t->paced   ? STATE_PACED
                                     : t->reason;
    buf_clear(out);
    buf_addf(out, "%u|%s|%u/%d/%u|%" PRId64 "|%" PRId64 "|%s", t->attempts, state,
             t->dead_tries, t->status, t->replays, t->first_ms, t->last_ms, t->error);
    if (t->reason[0] && t->answer)
        buf_addf(out, "\n%s\n%s", t->answer->type, t->answer->body);
}

bool tries_is_first(const struct tries *t)
{
    return t->attempts == 0 && t->replays == 0;
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

/* The text is redacted before it is cut, so that a secret at the end is recognised. */
struct tries_answer *tries_answer_new(struct slice type, struct slice body)
{
    char plain[2 * TRIES_ANSWER_MAX + 1], redacted[2 * TRIES_ANSWER_MAX + 1];
    if (body.n == 0)
        return NULL;
    struct tries_answer *answer = mem_alloc(sizeof(*answer));
    copy(answer->type, sizeof(answer->type), type.p ? type.p : "", type.n);
    copy_text(plain, sizeof(plain) - 1, body);
    redact_text(redacted, sizeof(redacted), plain);
    size_t n = copy_text(answer->body, TRIES_ANSWER_MAX, slice_of(redacted));
    while (n > 0 && (answer->body[n - 1] == '\n' || answer->body[n - 1] == ' '))
        answer->body[--n] = '\0';
    return answer;
}
