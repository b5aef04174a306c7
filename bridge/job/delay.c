/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay.c - reads control headers by table; see delay.h.
 *
 * Reads all headers in one pass. Results that depend on two headers (due time, expiry)
 * are computed afterwards, so that the order of headers does not matter.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/job/delay_internal.h"

#include <stdio.h>

enum {
    SHOWN_MAX = 40,           /* bytes of an invalid value shown in an error */
    SKEW_MAX_MS = 3600 * 1000 /* how far a producer's clock may be ahead of ours */
};

/* ---------------------------------------------------------------------- names */

/* delay-id is renamable for incoming messages, although tarry adds it to outgoing ones
 * under its standard name. */
static bool is_renamable(const struct delay_row *row)
{
    return row->slot != SLOT_OURS && row->slot != SLOT_HOPS;
}

/* Returns the row of the header that has this name at the source, or NULL. row: the row
 * of that standard name. */
static const struct delay_row *row_at_source(struct slice name,
                                             const struct delay_row *row,
                                             const struct delay_rules *rules)
{
    const struct pairs *rename = rules->rename;
    if (rename == NULL)
        return row;
    for (size_t i = 0; i < rename->n; i++) {
        const struct delay_row *renamed = delay_row_of(slice_of(rename->v[i].name));
        if (renamed == NULL || !is_renamable(renamed))
            continue;
        if (slice_is_nocase(name, rename->v[i].value))
            return renamed;
        if (renamed == row)
            row = NULL; /* its standard name is an ordinary header here */
    }
    return row;
}

bool delay_is_control(struct slice name, const struct delay_rules *rules)
{
    const struct delay_row *standard = delay_row_of(name);
    return (standard && standard->flags & ROW_FIXED) ||
           row_at_source(name, standard, rules) != NULL ||
           (rules->compat && compat_row_of(name, rules->compat) != NULL);
}

bool delay_may_rename(const char *standard_name)
{
    const struct delay_row *row = delay_row_of(slice_of(standard_name));
    return row && is_renamable(row);
}

/* -------------------------------------------------------------------- reading */

/* Formats a value for people: printable ASCII unchanged, other bytes as \xNN. */
static void show(struct slice value, char out[SHOWN_MAX + 4])
{
    size_t n = 0, i = 0;
    for (; i < value.n; i++) {
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): n is 0 where p is NULL
        unsigned char c = (unsigned char)value.p[i];
        bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        if (n + (plain ? 1 : 4) > SHOWN_MAX)
            break;
        if (plain)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
    }
    snprintf(out + n, 4, "%s", i < value.n ? "..." : "");
}

void delay_refuse(struct delay_read *out, const char *reason, const struct header *header,
                  const char *text)
{
    char shown[SHOWN_MAX + 4];
    if (out->reason)
        return;
    out->reason = reason;
    show(header->value, shown);
    snprintf(out->why, sizeof(out->why), "%.*s \"%s\": %.120s",
             (int)(header->name.n < 30 ? header->name.n : 30), header->name.p, shown,
             text);
}

void delay_read_one(struct delay_scan *s, const struct delay_row *row,
                    const struct header *header)
{
    struct header read = *header;
    char digits[TEXT_DECIMAL_MAX];
    struct err err = {""};

    if (read.value.p == NULL)
        read.value = SLICE_LIT("");
    if (row->flags & ROW_NUMBER && s->rules->binary_ints)
        read.value = delay_integer(read.value, digits);
    s->seen |= SLOT_BIT(row->slot);
    if (row->parse && row->parse(s, read.value, &err) < 0)
        delay_refuse(s->out, row->reason, &read, err.text);
}

/* Compares parsed values, so that "60s" equals "1m". */
static bool is_same(const struct delay_scan *a, const struct delay_scan *b)
{
    const struct delay_read *x = a->out, *y = b->out;
    return a->after_ms == b->after_ms && a->at_ms == b->at_ms &&
           a->x_delay_ms == b->x_delay_ms && a->before_ms == b->before_ms &&
           a->before_is_relative == b->before_is_relative &&
           a->amq_period_ms == b->amq_period_ms && a->amq_rounds == b->amq_rounds &&
           x->op == y->op && x->attempts == y->attempts &&
           x->repeat_count == y->repeat_count &&
           x->repeat_until_ms == y->repeat_until_ms && x->hops == y->hops &&
           slice_eq(x->id, y->id) && slice_eq(x->to, y->to) && slice_eq(x->key, y->key) &&
           slice_eq(x->retry, y->retry) && slice_eq(x->repeat, y->repeat);
}

void delay_read_again(struct delay_scan *s, const struct delay_row *row,
                      const struct header *header)
{
    const struct header *held = s->held[row->slot];
    struct delay_read out = *s->out;
    struct delay_scan again = *s;

    again.out = &out;
    delay_read_one(&again, row, header);
    if (s->out->reason == NULL && out.reason) {
        *s->out = out;
        return;
    }
    if (!is_same(&again, s) ||
        (row->parse == NULL && held && !slice_eq(held->value, header->value)))
        delay_refuse(s->out, row->reason ? row->reason : "bad-repeat", header,
                     "contradicts an earlier header; send only one of them");
}

/* Reads the delays that the source itself provides; renaming does not apply. */
static void read_source(struct delay_scan *s, const struct job *job)
{
    const struct header known[] = {{SLICE_LIT("deliver-after"), job->after},
                                   {SLICE_LIT("deliver-at"), job->at}};
    for (unsigned i = 0; i < 2; i++) {
        if (known[i].value.p == NULL)
            continue;
        delay_read_one(s, delay_row_of(known[i].name), &known[i]);
        s->decided = true;
    }
}

static bool is_time(const struct delay_row *row)
{
    return (SLOT_BIT(row->slot) & SLOT_TIMES) != 0;
}

static void read_headers(struct delay_scan *s, const struct job *job)
{
    for (unsigned i = 0; i < job->header_count; i++) {
        const struct slice name = job->headers[i].name;
        const struct delay_row *row = row_at_source(name, delay_row_of(name), s->rules);
        if (row == NULL || row->parse == NULL || (s->decided && is_time(row)))
            continue;
        if (s->seen & SLOT_BIT(row->slot))
            delay_read_again(s, row, &job->headers[i]);
        else
            delay_read_one(s, row, &job->headers[i]);
    }
}

/* Reads what the source provides if no header does. */
static void read_rest(struct delay_scan *s, const struct job *job)
{
    const struct header known[] = {{SLICE_LIT("deliver-before"), job->before},
                                   {SLICE_LIT("delay-id"), job->name}};
    for (unsigned i = 0; i < 2; i++) {
        const struct delay_row *row = delay_row_of(known[i].name);
        if (known[i].value.p && (s->seen & SLOT_BIT(row->slot)) == 0)
            delay_read_one(s, row, &known[i]);
    }
}

static void too_long(struct delay_scan *s, int64_t now_ms)
{
    struct delay_read *out = s->out;
    const int64_t max_ms = s->rules->max_delay_ms;

    if (s->rules->clamp) {
        out->clamped = true;
        out->due_ms =
            max_ms > 0 && max_ms < WHEN_LAST_MS - now_ms ? now_ms + max_ms : WHEN_LAST_MS;
        return;
    }
    out->reason = "too-long";
    snprintf(
        out->why, sizeof(out->why),
        "the delay exceeds max_delay, %lld ms; send a shorter delay, or raise max_delay",
        (long long)max_ms);
}

/* A delay counts from the record's timestamp, the time of the producer's request. */
static void settle_relative(struct delay_scan *s, const struct job *job, int64_t now_ms,
                            int64_t delay_ms)
{
    const int64_t max_ms = s->rules->max_delay_ms;
    int64_t due_ms, last_ms = WHEN_LAST_MS;

    if (__builtin_add_overflow(job->timestamp_ms > 0 ? job->timestamp_ms : now_ms,
                               delay_ms, &due_ms))
        due_ms = INT64_MAX;
    if (max_ms > 0 && max_ms < WHEN_LAST_MS - now_ms - SKEW_MAX_MS)
        last_ms = now_ms + max_ms + SKEW_MAX_MS;
    if ((max_ms > 0 && delay_ms > max_ms) || due_ms > last_ms)
        too_long(s, now_ms);
    else
        s->out->due_ms = due_ms;
}

static void settle_due(struct delay_scan *s, const struct job *job, int64_t now_ms)
{
    const int64_t max_ms = s->rules->max_delay_ms;

    if (s->seen & SLOT_BIT(SLOT_AT)) {
        if (max_ms > 0 && s->at_ms > now_ms && s->at_ms - now_ms > max_ms)
            too_long(s, now_ms);
        else
            s->out->due_ms = s->at_ms > 0 ? s->at_ms : 0;
    } else if (s->seen & SLOT_BIT(SLOT_AFTER)) {
        settle_relative(s, job, now_ms, s->after_ms);
    } else if (s->seen & SLOT_BIT(SLOT_X_DELAY)) {
        settle_relative(s, job, now_ms, s->x_delay_ms);
    } else if (s->rules->default_delay_ms > 0) {
        settle_relative(s, job, now_ms, s->rules->default_delay_ms);
    } else {
        s->out->undelayed = true;
    }
}

static void settle_expiry(struct delay_scan *s)
{
    int64_t ms = s->before_ms;
    if ((s->seen & SLOT_BIT(SLOT_BEFORE)) == 0)
        return;
    if (s->before_is_relative &&
        (__builtin_add_overflow(ms, s->out->due_ms, &ms) || ms > WHEN_LAST_MS))
        ms = WHEN_LAST_MS;
    s->out->expires_ms = ms > 0 ? ms : 1; /* 0 would mean never */
    s->out->expires_from_due = s->before_is_relative;
}

/* A null value is an ordinary payload if the message sets a time, an operation or a
 * repeat. */
static bool is_cancel(const struct delay_scan *s, const struct job *job)
{
    return job->tombstone && (s->seen & (SLOT_TIMES | SLOT_BIT(SLOT_OP))) == 0 &&
           s->out->repeat.p == NULL;
}

/* Turns a tombstone into a cancel, sets the id from the key, and rejects a delay-op
 * without an id. */
static void settle_name(struct delay_scan *s, const struct job *job)
{
    const struct header key = {SLICE_LIT("the key"), job->key};
    struct delay_read *out = s->out;
    bool cancel = is_cancel(s, job), nameless = out->id.n == 0 && job->id.n == 0;
    struct err err = {""};

    if (cancel)
        out->op = DELAY_CANCEL;
    if (nameless && job->key.n > 0 && (cancel || s->keyed || s->rules->key_is_id)) {
        if (delay_parse_id(s, job->key, &err) < 0)
            delay_refuse(out, "bad-id", &key, err.text);
        return;
    }
    if (out->op == DELAY_ADD || !nameless || out->reason)
        return;
    out->reason = "bad-id";
    snprintf(out->why, sizeof(out->why), "%s",
             cancel ? "a null value cancels the job named by delay-id or the key; this "
                      "record has neither"
             : s->keyed ? "the key of the record must contain the id of the job; this "
                          "record has no key"
                        : "delay-op requires delay-id, the id of the job");
}

static void settle_repeat(struct delay_read *out)
{
    if (out->repeat.p || (out->repeat_count == 0 && out->repeat_until_ms == 0) ||
        out->reason)
        return;
    out->reason = "bad-repeat";
    snprintf(out->why, sizeof(out->why),
             "delay-repeat-count and delay-repeat-until require delay-repeat");
}

void delay_read(const struct job *job, const struct delay_rules *rules, int64_t now_ms,
                struct delay_read *out)
{
    struct delay_scan s = {.rules = rules, .out = out};

    *out = (struct delay_read){.due_ms = now_ms};
    read_source(&s, job);
    read_headers(&s, job);
    if (rules->compat)
        compat_read(&s, job);
    read_rest(&s, job);
    settle_name(&s, job);
    if (out->reason)
        return;
    settle_repeat(out);
    if (out->op != DELAY_CANCEL && out->reason == NULL)
        settle_due(&s, job, now_ms);
    if (out->reason == NULL)
        settle_expiry(&s);
}
