/* SPDX-License-Identifier: BSD-2-Clause */
/* delay_value.c - our own control headers: their table and parsers. */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/job/delay_internal.h"

enum {
    RETRY_NAME_MAX = 128,   /* bytes of delay-retry */
    ATTEMPTS_MAX = 1000000, /* largest delay-attempts */
    INTEGER_BYTES = 8       /* length of a binary integer */
};

int delay_whole_number(struct slice text, int64_t *n)
{
    int64_t v;
    if (text_take_digits(&text, &v) == 0 || text.n > 0)
        return -1;
    *n = v;
    return 0;
}

int delay_take_text(struct slice value, size_t most, struct slice *into, struct err *err)
{
    if (value.n == 0)
        return err_set(err, "empty; omit the header, or set a value");
    if (value.n > most)
        return err_set(err, "%zu bytes long; at most %zu are allowed", value.n, most);
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < 0x20 || value.p[i] == 0x7f)
            return err_set(err,
                           "contains a control character; use only printable characters");
    *into = value;
    return 0;
}

/* Eight text bytes are text, such as "1h30m15s". As integers they would be beyond all
 * dates: the first byte of every valid integer is 00 or ff. */
struct slice delay_integer(struct slice value, char digits[TEXT_DECIMAL_MAX])
{
    uint64_t bits = 0;
    bool text = true;

    if (value.n != INTEGER_BYTES)
        return value;
    for (size_t i = 0; i < INTEGER_BYTES; i++) {
        unsigned char c = (unsigned char)value.p[i];
        text = text && c >= 0x20 && c < 0x7f;
        bits = bits << 8 | c;
    }
    if (text)
        return value;
    return (struct slice){digits, text_put_decimal(digits, (int64_t)bits)};
}

static int parse_after(struct delay_scan *s, struct slice value, struct err *err)
{
    return when_duration_ms(value, (enum when_unit)s->rules->bare_unit, &s->after_ms,
                            err);
}

static int parse_at(struct delay_scan *s, struct slice value, struct err *err)
{
    return when_instant_ms(value, &s->at_ms, err);
}

/* RabbitMQ delivers a message with a negative x-delay at once. Negative values are common
 * there: the plugin negates x-delay on delivery, and a consumer that resends the message
 * copies it. */
static int parse_x_delay(struct delay_scan *s, struct slice value, struct err *err)
{
    bool negative = value.n > 0 && value.p[0] == '-' &&
                    (s->rules->compat & delay_compat("rabbitmq")) != 0;
    struct slice digits = {value.p + negative, value.n - negative};
    if (delay_whole_number(digits, &s->x_delay_ms) < 0)
        return err_set(err, "not a whole number of ms; write 30000 for 30 seconds");
    if (negative)
        s->x_delay_ms = 0;
    return 0;
}

/* An instant is all digits, or begins like a date; everything else is a duration. */
static int parse_before(struct delay_scan *s, struct slice value, struct err *err)
{
    int64_t n;
    if (delay_whole_number(value, &n) == 0 || (value.n > 4 && value.p[4] == '-'))
        return when_instant_ms(value, &s->before_ms, err);
    s->before_is_relative = true;
    return when_duration_ms(value, WHEN_NO_UNIT, &s->before_ms, err);
}

int delay_parse_id(struct delay_scan *s, struct slice value, struct err *err)
{
    return delay_take_text(value, DELAY_ID_MAX, &s->out->id, err);
}

static int parse_op(struct delay_scan *s, struct slice value, struct err *err)
{
    static const char *const names[] = {
        [DELAY_ADD] = "add", [DELAY_REPLACE] = "replace", [DELAY_CANCEL] = "cancel"};
    for (unsigned op = 0; op < sizeof(names) / sizeof(names[0]); op++)
        if (slice_is_nocase(value, names[op])) {
            s->out->op = (enum delay_op)op;
            return 0;
        }
    return err_set(err, "unknown operation; write add, replace or cancel");
}

int delay_parse_to(struct delay_scan *s, struct slice value, struct err *err)
{
    return delay_take_text(value, JOB_TARGET_MAX, &s->out->to, err);
}

static int parse_retry(struct delay_scan *s, struct slice value, struct err *err)
{
    return delay_take_text(value, RETRY_NAME_MAX, &s->out->retry, err);
}

int delay_set_attempts(struct delay_scan *s, struct slice value, int64_t more,
                       struct err *err)
{
    int64_t n = 0;
    if (delay_whole_number(value, &n) < 0 || n < 1 - more || n > ATTEMPTS_MAX - more)
        return err_set(err, "not a valid number; write one from %d to %d",
                       (int)(1 - more), (int)(ATTEMPTS_MAX - more));
    s->out->attempts = n + more;
    return 0;
}

static int parse_attempts(struct delay_scan *s, struct slice value, struct err *err)
{
    return delay_set_attempts(s, value, 0, err);
}

static int parse_repeat(struct delay_scan *s, struct slice value, struct err *err)
{
    return delay_take_text(value, REPEAT_MAX, &s->out->repeat, err);
}

static int parse_repeat_count(struct delay_scan *s, struct slice value, struct err *err)
{
    int64_t n = 0;
    if (delay_whole_number(value, &n) < 0 || n == 0)
        return err_set(err, "not a number of runs; write 1 or more");
    s->out->repeat_count = n;
    return 0;
}

static int parse_repeat_until(struct delay_scan *s, struct slice value, struct err *err)
{
    int64_t ms = 0;
    if (when_instant_ms(value, &ms, err) < 0)
        return -1;
    s->out->repeat_until_ms = ms > 0 ? ms : 1; /* 0 would mean no end */
    return 0;
}

static int parse_hops(struct delay_scan *s, struct slice value, struct err *err)
{
    if (delay_whole_number(value, &s->out->hops) < 0)
        return err_set(err, "not a whole number; only tarry writes this header");
    if (s->out->hops >= s->rules->hops_max)
        return err_set(err, "tarry has already delivered this message hops_max times; "
                            "check the routes for a loop, or raise hops_max");
    return 0;
}

/* ---------------------------------------------------------------------- table */

#define OURS(name)                                                                       \
    {                                                                                    \
        SLICE_LIT(name), SLOT_OURS, ROW_FIXED, 0, NULL, NULL                             \
    }
static const struct delay_row own_rows[] = {
    {SLICE_LIT("deliver-after"), SLOT_AFTER, ROW_NUMBER, 0, parse_after, "bad-delay"},
    {SLICE_LIT("delay"), SLOT_AFTER, ROW_NUMBER, 0, parse_after, "bad-delay"},
    {SLICE_LIT("deliver-at"), SLOT_AT, ROW_NUMBER, 0, parse_at, "bad-delay"},
    {SLICE_LIT("x-delay"), SLOT_X_DELAY, ROW_NUMBER, 0, parse_x_delay, "bad-delay"},
    {SLICE_LIT("deliver-before"), SLOT_BEFORE, ROW_NUMBER, 0, parse_before, "bad-delay"},
    {SLICE_LIT("delay-id"), SLOT_ID, ROW_FIXED, 0, delay_parse_id, "bad-id"},
    {SLICE_LIT("delay-op"), SLOT_OP, 0, 0, parse_op, "bad-op"},
    {SLICE_LIT("delay-to"), SLOT_TO, 0, 0, delay_parse_to, "bad-target"},
    {SLICE_LIT("delay-retry"), SLOT_RETRY, 0, 0, parse_retry, "bad-retry"},
    {SLICE_LIT("delay-attempts"), SLOT_ATTEMPTS, ROW_NUMBER, 0, parse_attempts,
     "bad-retry"},
    {SLICE_LIT("delay-repeat"), SLOT_REPEAT, 0, 0, parse_repeat, "bad-repeat"},
    {SLICE_LIT("delay-repeat-count"), SLOT_REPEAT_COUNT, ROW_NUMBER, 0,
     parse_repeat_count, "bad-repeat"},
    {SLICE_LIT("delay-repeat-until"), SLOT_REPEAT_UNTIL, ROW_NUMBER, 0,
     parse_repeat_until, "bad-repeat"},
    {SLICE_LIT("delay-hops"), SLOT_HOPS, ROW_FIXED, 0, parse_hops, "loop"},
    OURS("delay-due"),
    OURS("delay-emitted"),
    OURS("delay-attempt"),
    OURS("delay-source"),
    OURS("delay-replays"),
    OURS("delay-run"),
    OURS("delay-route"),
    OURS("delay-dead-reason"),
    OURS("delay-dead-error"),
    OURS("delay-dead-status"),
    OURS("delay-dead-attempts"),
    OURS("delay-dead-first"),
    OURS("delay-dead-last")};
#undef OURS
static struct delay_table own = {.rows = own_rows,
                                 .count = sizeof(own_rows) / sizeof(own_rows[0])};

__attribute__((constructor)) static void own_init(void)
{
    delay_table_init(&own);
}

void delay_table_init(struct delay_table *t)
{
    t->lengths = t->letters = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct slice name = t->rows[i].name;
        must(name.n > 0 && name.n < 32);
        t->lengths |= 1U << name.n;
        t->letters |= 1U << (name.p[0] & 31);
    }
}

const struct delay_row *delay_table_find(const struct delay_table *t, struct slice name,
                                         unsigned sets)
{
    if (name.n >= 32 || (t->lengths >> name.n & 1) == 0 ||
        (t->letters >> (name.p[0] & 31) & 1) == 0)
        return NULL;
    for (const struct delay_row *row = t->rows; row < t->rows + t->count; row++)
        if (row->name.n == name.n && (row->set & sets) == row->set &&
            strncasecmp(row->name.p, name.p, name.n) == 0)
            return row;
    return NULL;
}

const struct delay_row *delay_row_of(struct slice name)
{
    return delay_table_find(&own, name, 0);
}
