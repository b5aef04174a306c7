/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay.c - control headers by table; see delay.h.
 *
 * The headers are walked once. What needs two of them (due time, expiry) is put together
 * afterwards, so that their order in the message does not matter.
 */
#include "bridge/delay.h"
#include "bridge/opt.h"
#include "bridge/when.h"

#include <stdio.h>

enum {
    SHOWN_MAX = 40,           /* bytes of an offending value that are shown */
    RETRY_NAME_MAX = 128,     /* bytes of delay-retry */
    SKEW_MAX_MS = 3600 * 1000 /* by which a producer's clock may run ahead of ours */
};

enum slot { /* headers of one slot are the same thing: the first of them counts */
            SLOT_AFTER,
            SLOT_AT,
            SLOT_X_DELAY,
            SLOT_BEFORE,
            SLOT_ID,
            SLOT_OP,
            SLOT_TO,
            SLOT_RETRY,
            SLOT_HOPS,
            SLOT_OURS /* written by us, not read */
};

struct scan { /* one run of delay_read() */
    const struct delay_rules *rules;
    struct delay_read *out;
    int64_t after_ms, at_ms, x_delay_ms;
    int64_t before_ms; /* an instant, or from due on */
    bool before_is_relative;
    bool decided;  /* the source knows the time: no header can change it */
    unsigned seen; /* bits by slot: which of the above are given */
};

struct row {
    struct slice name;
    enum slot slot;
    bool fixed; /* tarry writes it itself, under this name everywhere */
    /* value.p is never NULL. -1: err says what is wrong with it, reason holds. */
    int (*parse)(struct scan *s, struct slice value, struct err *err);
    const char *reason;
};

/* -------------------------------------------------------------------- parsers */

/* Digits and nothing else; what is too large for 64 bits becomes INT64_MAX. */
static int whole_number(struct slice text, int64_t *n)
{
    int64_t v = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -1;
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, text.p[i] - '0', &v))
            v = INT64_MAX;
    }
    *n = v;
    return text.n > 0 ? 0 : -1;
}

static bool is_printable(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
            return false;
    return true;
}

static int check_text(struct slice value, size_t most, struct err *err)
{
    if (value.n == 0)
        return err_set(err, "empty; leave the header out, or give it a value");
    if (value.n > most)
        return err_set(err, "%zu bytes; at most %zu are allowed", value.n, most);
    if (!is_printable(value))
        return err_set(err, "holds a control character; use printable ones");
    return 0;
}

static int parse_after(struct scan *s, struct slice value, struct err *err)
{
    return when_duration_ms(value, (enum when_unit)s->rules->bare_unit, &s->after_ms,
                            err);
}

static int parse_at(struct scan *s, struct slice value, struct err *err)
{
    return when_instant_ms(value, &s->at_ms, err);
}

static int parse_x_delay(struct scan *s, struct slice value, struct err *err)
{
    if (whole_number(value, &s->x_delay_ms) < 0)
        return err_set(err, "not a whole number of ms; write 30000 for 30 seconds");
    return 0;
}

/* An instant is all digits, or begins as a date does; all else is a duration. */
static int parse_before(struct scan *s, struct slice value, struct err *err)
{
    int64_t n;
    if (whole_number(value, &n) == 0 || (value.n > 4 && value.p[4] == '-'))
        return when_instant_ms(value, &s->before_ms, err);
    s->before_is_relative = true;
    return when_duration_ms(value, WHEN_NO_UNIT, &s->before_ms, err);
}

static int parse_id(struct scan *s, struct slice value, struct err *err)
{
    if (check_text(value, DELAY_ID_MAX, err) < 0)
        return -1;
    s->out->id = value;
    return 0;
}

static int parse_op(struct scan *s, struct slice value, struct err *err)
{
    static const char *const names[] = {
        [DELAY_ADD] = "add", [DELAY_REPLACE] = "replace", [DELAY_CANCEL] = "cancel"};
    for (unsigned op = 0; op < sizeof(names) / sizeof(names[0]); op++)
        if (slice_is_nocase(value, names[op])) {
            s->out->op = (enum delay_op)op;
            return 0;
        }
    return err_set(err, "not an operation; write add, replace or cancel");
}

static int parse_to(struct scan *s, struct slice value, struct err *err)
{
    if (check_text(value, JOB_TARGET_MAX, err) < 0)
        return -1;
    s->out->to = value;
    return 0;
}

static int parse_retry(struct scan *s, struct slice value, struct err *err)
{
    if (check_text(value, RETRY_NAME_MAX, err) < 0)
        return -1;
    s->out->retry = value;
    return 0;
}

static int parse_hops(struct scan *s, struct slice value, struct err *err)
{
    if (whole_number(value, &s->out->hops) < 0)
        return err_set(err, "not a whole number; only tarry writes this header");
    if (s->out->hops >= s->rules->hops_max)
        return err_set(err, "delivered by tarry so often already; check the routes for a "
                            "loop, or raise hops_max");
    return 0;
}

/* ---------------------------------------------------------------------- table */

static const struct row rows[] = {
    {SLICE_LIT("deliver-after"), SLOT_AFTER, false, parse_after, "bad-delay"},
    {SLICE_LIT("delay"), SLOT_AFTER, false, parse_after, "bad-delay"},
    {SLICE_LIT("deliver-at"), SLOT_AT, false, parse_at, "bad-delay"},
    {SLICE_LIT("x-delay"), SLOT_X_DELAY, false, parse_x_delay, "bad-delay"},
    {SLICE_LIT("deliver-before"), SLOT_BEFORE, false, parse_before, "bad-delay"},
    {SLICE_LIT("delay-id"), SLOT_ID, true, parse_id, "bad-id"},
    {SLICE_LIT("delay-op"), SLOT_OP, false, parse_op, "bad-op"},
    {SLICE_LIT("delay-to"), SLOT_TO, false, parse_to, "bad-target"},
    {SLICE_LIT("delay-retry"), SLOT_RETRY, false, parse_retry, "bad-retry"},
    {SLICE_LIT("delay-hops"), SLOT_HOPS, true, parse_hops, "loop"},
    {SLICE_LIT("delay-due"), SLOT_OURS, true, NULL, NULL},
    {SLICE_LIT("delay-emitted"), SLOT_OURS, true, NULL, NULL},
    {SLICE_LIT("delay-attempt"), SLOT_OURS, true, NULL, NULL},
    {SLICE_LIT("delay-source"), SLOT_OURS, true, NULL, NULL},
};
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]), NAME_MIN = 5, NAME_MAX = 14 };

/* By standard name. Called for each header of each job: nearly all leave at the first
 * letter, most others at the length. */
static const struct row *row_of(struct slice name)
{
    if (name.n < NAME_MIN || name.n > NAME_MAX)
        return NULL;
    char first = (char)(name.p[0] | 0x20);
    if (first != 'd' && first != 'x')
        return NULL;
    for (const struct row *row = rows; row < rows + ROW_COUNT; row++)
        if (row->name.n == name.n && strncasecmp(row->name.p, name.p, name.n) == 0)
            return row;
    return NULL;
}

/* delay-id has a name of its own on the way out, and may yet be renamed on the way in. */
static bool is_renamable(const struct row *row)
{
    return row->slot != SLOT_OURS && row->slot != SLOT_HOPS;
}

/* The header that a source calls by this name. */
static const struct row *row_at_source(struct slice name, const struct delay_rules *rules)
{
    const struct row *row = row_of(name);
    const struct opt_pairs *rename = rules->rename;
    if (rename == NULL)
        return row;
    for (size_t i = 0; i < rename->n; i++) {
        const struct row *renamed = row_of(slice_of(rename->v[i].name));
        if (renamed == NULL || !is_renamable(renamed))
            continue;
        if (slice_is_nocase(name, rename->v[i].value))
            return renamed;
        if (renamed == row)
            row = NULL; /* its standard name is a common header here */
    }
    return row;
}

bool delay_is_control(struct slice name, const struct delay_rules *rules)
{
    const struct row *standard = row_of(name);
    return (standard && standard->fixed) || row_at_source(name, rules) != NULL;
}

bool delay_may_rename(const char *standard_name)
{
    const struct row *row = row_of(slice_of(standard_name));
    return row && is_renamable(row);
}

/* -------------------------------------------------------------------- reading */

/* Value as shown to a person: printable ASCII as it is, all else as \xNN. */
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

/* The first thing that is wrong is the reason. */
static void refuse(struct delay_read *out, const char *reason,
                   const struct header *header, const char *text)
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

static void read_one(struct scan *s, const struct row *row, const struct header *header)
{
    struct slice value = header->value.p ? header->value : SLICE_LIT("");
    struct err err = {""};

    s->seen |= 1U << row->slot;
    if (row->parse(s, value, &err) < 0)
        refuse(s->out, row->reason, header, err.text);
}

/* What the source itself knows, under whatever names it gives the headers. */
static void read_source(struct scan *s, const struct job *job)
{
    const struct header known[] = {{SLICE_LIT("deliver-after"), job->after},
                                   {SLICE_LIT("deliver-at"), job->at}};
    for (unsigned i = 0; i < 2; i++) {
        if (known[i].value.p == NULL)
            continue;
        read_one(s, row_of(known[i].name), &known[i]);
        s->decided = true;
    }
}

static bool is_time(const struct row *row)
{
    return row->slot == SLOT_AFTER || row->slot == SLOT_AT || row->slot == SLOT_X_DELAY;
}

static void read_headers(struct scan *s, const struct job *job)
{
    for (unsigned i = 0; i < job->header_count; i++) {
        const struct row *row = row_at_source(job->headers[i].name, s->rules);
        if (row == NULL || row->parse == NULL || s->seen & 1U << row->slot ||
            (s->decided && is_time(row)))
            continue;
        read_one(s, row, &job->headers[i]);
    }
}

static void too_long(struct delay_read *out, const struct delay_rules *rules)
{
    if (out->reason)
        return;
    out->reason = "too-long";
    snprintf(out->why, sizeof(out->why),
             "due later than max_delay of %lld ms allows; ask for less, or raise it",
             (long long)rules->max_delay_ms);
}

/* The delay counts from the record's timestamp: that is when the producer asked. */
static void settle_relative(struct scan *s, const struct job *job, int64_t now_ms,
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
        too_long(s->out, s->rules);
    else
        s->out->due_ms = due_ms;
}

static void settle_due(struct scan *s, const struct job *job, int64_t now_ms)
{
    const int64_t max_ms = s->rules->max_delay_ms;

    if (s->seen & 1U << SLOT_AT) {
        if (max_ms > 0 && s->at_ms > now_ms && s->at_ms - now_ms > max_ms)
            too_long(s->out, s->rules);
        else
            s->out->due_ms = s->at_ms > 0 ? s->at_ms : 0;
    } else if (s->seen & 1U << SLOT_AFTER) {
        settle_relative(s, job, now_ms, s->after_ms);
    } else if (s->seen & 1U << SLOT_X_DELAY) {
        settle_relative(s, job, now_ms, s->x_delay_ms);
    } else if (s->rules->default_delay_ms > 0) {
        settle_relative(s, job, now_ms, s->rules->default_delay_ms);
    } else {
        s->out->undelayed = true;
    }
}

static void settle_expiry(struct scan *s)
{
    int64_t ms = s->before_ms;
    if ((s->seen & 1U << SLOT_BEFORE) == 0)
        return;
    if (s->before_is_relative && __builtin_add_overflow(ms, s->out->due_ms, &ms))
        ms = WHEN_LAST_MS;
    s->out->expires_ms = ms > 0 ? ms : 1; /* 0 would be never */
}

void delay_read(const struct job *job, const struct delay_rules *rules, int64_t now_ms,
                struct delay_read *out)
{
    struct scan s = {.rules = rules, .out = out};

    *out = (struct delay_read){.due_ms = now_ms};
    read_source(&s, job);
    read_headers(&s, job);
    if (out->reason)
        return;
    settle_due(&s, job, now_ms);
    if (out->reason)
        return;
    settle_expiry(&s);
    if (out->op != DELAY_ADD && out->id.n == 0 && job->id.n == 0) {
        out->reason = "bad-id";
        snprintf(out->why, sizeof(out->why),
                 "delay-op without delay-id; name the job that is meant");
    }
}
