/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compat.c - the headers of other schedulers, in sets; see delay.h.
 *
 * A set is read only at sources that configure it. The unit of a value is fixed by the
 * set and never guessed from the value: seconds in place of ms are rejected. A request
 * that tarry cannot execute as the original would is rejected, not ignored.
 *
 *   rabbitmq  rabbitmq-delayed-message-exchange: x-delay, which is also our own; the set
 *             accepts negative values as "at once" (delay_value.c)
 *   emqx      EMQX, Delayed Publish: $delayed/N/topic (sources/mqtt/mqtt_job.c)
 *   etf1      etf1/kafka-message-scheduler: the record's key names the schedule, a later
 *             record replaces it, a null value deletes it
 *   nats      NATS ADR-51, message scheduler, with the time zones of server 2.14
 *   artemis   ActiveMQ Artemis (Stomp too), and the scheduler of Classic
 *   dapr      Dapr's pubsub.pulsar, and Pulsar: RFC 3339 and durations of Go, or ms
 *   qstash    Upstash QStash: delay, retry, deduplication, schedules
 *   karafka   Karafka's scheduled messages, envelope schema 1: like etf1, with a type
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/job/delay_internal.h"

#include <stdio.h>

enum set { /* bits, in the order of set_names */
           RABBITMQ = 1,
           EMQX = 2,
           ETF1 = 4,
           NATS = 8,
           ARTEMIS = 16,
           DAPR = 32,
           QSTASH = 64,
           KARAFKA = 128
};
static const char set_names[] =
    "rabbitmq, emqx, etf1, nats, artemis, dapr, qstash, karafka";

unsigned delay_compat(const char *name)
{
    const size_t n = strlen(name);
    unsigned bit = RABBITMQ;
    for (const char *p = set_names; *p != '\0'; bit <<= 1) {
        size_t length = strcspn(p, ",");
        if (length == n && memcmp(p, name, n) == 0)
            return bit;
        p += length;
        p += strspn(p, ", ");
    }
    return 0;
}

const char *delay_compat_names(void)
{
    return set_names;
}

/* --------------------------------------------------------------------- values */

/* Returns whether an instant in ms since 1970 must be seconds (from 2001 on). A value in
 * the wrong unit would be long past or never reached, so both directions are rejected. */
static bool is_in_seconds(int64_t n)
{
    return n >= INT64_C(1000000000) && n < INT64_C(1000000000000);
}

/* Parses an instant since 1970, counted in units of unit_ms. */
static int parse_epoch(struct slice value, int64_t unit_ms, int64_t *ms, struct err *err)
{
    const char *unit = unit_ms == 1 ? "ms" : "seconds";
    int64_t n = 0;
    if (delay_whole_number(value, &n) < 0)
        return err_set(err, "not a whole number; write the number of %s since 1970",
                       unit);
    if (n > WHEN_LAST_MS / unit_ms)
        return err_set(err, "after the year 9999; this header is in %s since 1970", unit);
    if (unit_ms == 1 && is_in_seconds(n))
        return err_set(err, "these are seconds; this header is in ms since 1970");
    *ms = n * unit_ms;
    return 0;
}

static int parse_at_s(struct delay_scan *s, struct slice value, struct err *err)
{
    return parse_epoch(value, 1000, &s->at_ms, err);
}

static int parse_at_ms(struct delay_scan *s, struct slice value, struct err *err)
{
    return parse_epoch(value, 1, &s->at_ms, err);
}

static int parse_at_ms_or_date(struct delay_scan *s, struct slice value, struct err *err)
{
    int64_t n;
    if (delay_whole_number(value, &n) == 0 || (value.n > 0 && value.p[0] == '-'))
        return parse_at_ms(s, value, err);
    return when_instant_ms(value, &s->at_ms, err);
}

static int parse_ms(struct delay_scan *s, struct slice value, struct err *err)
{
    if (delay_whole_number(value, &s->after_ms) < 0)
        return err_set(err, "not a whole number of ms; write 30000 for 30 seconds");
    return 0;
}

static int parse_duration(struct delay_scan *s, struct slice value, struct err *err)
{
    return when_duration_ms(value, WHEN_NO_UNIT, &s->after_ms, err);
}

static int parse_key(struct delay_scan *s, struct slice value, struct err *err)
{
    (void)err;
    s->out->key = value;
    return 0;
}

/* Upstash-Retries: attempts after the first one. */
static int parse_retries(struct delay_scan *s, struct slice value, struct err *err)
{
    return delay_set_attempts(s, value, 1, err);
}

static int parse_source_type(struct delay_scan *s, struct slice value, struct err *err)
{
    static const struct {
        const char *name;
        enum delay_op op;
    } types[] = {{"schedule", DELAY_REPLACE},
                 {"cancel", DELAY_CANCEL},
                 {"tombstone", DELAY_CANCEL}};
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (slice_is(value, types[i].name)) {
            s->out->op = types[i].op;
            return 0;
        }
    return err_set(err, "unknown type; write schedule, cancel or tombstone");
}

static int parse_period(struct delay_scan *s, struct slice value, struct err *err)
{
    if (delay_whole_number(value, &s->amq_period_ms) < 0)
        return err_set(err, "not a whole number of ms; write 60000 for a minute");
    return 0;
}

/* Any negative number means no end, as in ActiveMQ. */
static int parse_rounds(struct delay_scan *s, struct slice value, struct err *err)
{
    bool endless = value.n > 0 && value.p[0] == '-';
    struct slice digits = {value.p + endless, value.n - endless};
    if (delay_whole_number(digits, &s->amq_rounds) < 0 || s->amq_rounds == INT64_MAX)
        return err_set(err, "not a whole number; write the number of repetitions");
    if (endless && s->amq_rounds > 0)
        s->amq_rounds = -1;
    return 0;
}

/* ---------------------------------------------------------------------- table */

#define NAME(lit) SLICE_LIT(lit)
static const struct delay_row rows[] = {
    {NAME("scheduler-epoch"), SLOT_AT, ROW_NUMBER, ETF1, parse_at_s, "bad-delay"},
    {NAME("scheduler-target-topic"), SLOT_TO, 0, ETF1, delay_parse_to, "bad-target"},
    {NAME("scheduler-target-key"), SLOT_KEY, 0, ETF1, parse_key, NULL},
    {NAME("scheduler-timestamp"), SLOT_OURS, 0, ETF1, NULL, NULL},
    {NAME("scheduler-topic"), SLOT_OURS, 0, ETF1, NULL, NULL},
    {NAME("scheduler-key"), SLOT_OURS, 0, ETF1, NULL, NULL},

    {NAME("Nats-Schedule"), SLOT_NATS, 0, NATS, NULL, NULL},
    {NAME("Nats-Schedule-Time-Zone"), SLOT_NATS_ZONE, 0, NATS, NULL, NULL},
    {NAME("Nats-Schedule-Source"), SLOT_NATS_SAMPLE, 0, NATS, NULL, NULL},
    {NAME("Nats-Schedule-Target"), SLOT_TO, 0, NATS, delay_parse_to, "bad-target"},
    /* The stream's retention and storage of delivered messages; not applicable here. */
    {NAME("Nats-Schedule-TTL"), SLOT_OURS, 0, NATS, NULL, NULL},
    {NAME("Nats-Schedule-Rollup"), SLOT_OURS, 0, NATS, NULL, NULL},
    {NAME("Nats-Schedule-Next"), SLOT_OURS, 0, NATS, NULL, NULL},
    {NAME("Nats-Scheduler"), SLOT_OURS, 0, NATS, NULL, NULL},

    {NAME("_AMQ_SCHED_DELIVERY"), SLOT_AT, ROW_NUMBER, ARTEMIS, parse_at_ms, "bad-delay"},
    {NAME("AMQ_SCHEDULED_TIME"), SLOT_AT, ROW_NUMBER, ARTEMIS, parse_at_ms, "bad-delay"},
    {NAME("AMQ_SCHEDULED_DELAY"), SLOT_AFTER, ROW_NUMBER, ARTEMIS, parse_ms, "bad-delay"},
    {NAME("AMQ_SCHEDULED_PERIOD"), SLOT_AMQ_PERIOD, ROW_NUMBER, ARTEMIS, parse_period,
     "bad-repeat"},
    {NAME("AMQ_SCHEDULED_REPEAT"), SLOT_AMQ_REPEAT, ROW_NUMBER, ARTEMIS, parse_rounds,
     "bad-repeat"},
    {NAME("AMQ_SCHEDULED_CRON"), SLOT_AMQ_CRON, 0, ARTEMIS, NULL, NULL},

    {NAME("deliverAt"), SLOT_AT, ROW_NUMBER, DAPR, parse_at_ms_or_date, "bad-delay"},
    {NAME("deliverAfter"), SLOT_AFTER, 0, DAPR, parse_duration, "bad-delay"},

    {NAME("Upstash-Delay"), SLOT_AFTER, 0, QSTASH, parse_duration, "bad-delay"},
    {NAME("Upstash-Not-Before"), SLOT_AT, ROW_NUMBER, QSTASH, parse_at_s, "bad-delay"},
    {NAME("Upstash-Retries"), SLOT_ATTEMPTS, ROW_NUMBER, QSTASH, parse_retries,
     "bad-retry"},
    {NAME("Upstash-Deduplication-Id"), SLOT_ID, 0, QSTASH, delay_parse_id, "bad-id"},
    {NAME("Upstash-Cron"), SLOT_UPSTASH_CRON, 0, QSTASH, NULL, NULL},

    {NAME("schedule_target_epoch"), SLOT_AT, ROW_NUMBER, KARAFKA, parse_at_s,
     "bad-delay"},
    {NAME("schedule_target_topic"), SLOT_TO, 0, KARAFKA, delay_parse_to, "bad-target"},
    {NAME("schedule_target_key"), SLOT_KEY, 0, KARAFKA, parse_key, NULL},
    {NAME("schedule_source_type"), SLOT_OP, 0, KARAFKA, parse_source_type, "bad-op"},
};
#undef NAME
/* Matches all other fields of Karafka's envelope: target partition, versions, offsets. */
static const struct delay_row karafka_other = {
    SLICE_LIT("schedule_"), SLOT_OURS, 0, KARAFKA, NULL, NULL};

static bool begins(struct slice s, struct slice with)
{
    return s.n >= with.n && strncasecmp(s.p, with.p, with.n) == 0;
}

static struct delay_table table = {.rows = rows, .count = sizeof(rows) / sizeof(rows[0])};

__attribute__((constructor)) static void table_init(void)
{
    delay_table_init(&table);
}

const struct delay_row *compat_row_of(struct slice name, unsigned sets)
{
    const struct delay_row *row = delay_table_find(&table, name, sets);
    if (row == NULL && sets & KARAFKA && begins(name, karafka_other.name))
        return &karafka_other;
    return row;
}

/* ----------------------------------------------------------------- repetition */

/* Some headers belong together, such as an interval and a number of rounds. They are
 * combined after all headers were read. */

/* Removes the first word and the blanks after it from s. */
static struct slice take_word(struct slice *s)
{
    struct slice word = text_take_word(s);
    text_skip_blanks(s);
    return word;
}

static unsigned count_words(struct slice s)
{
    unsigned n = 0;
    while (take_word(&s).n > 0)
        n++;
    return n;
}

/* Sets delay-repeat unless it is set: our own header takes precedence, then the first
 * combined foreign one. */
static int set_repeat(struct delay_scan *s, struct slice text, struct err *err)
{
    return s->out->repeat.p ? 0 : delay_take_text(text, REPEAT_MAX, &s->out->repeat, err);
}

/* line: the five fields of cron(5). With a zone, both are joined in out->text. */
static int set_cron(struct delay_scan *s, struct slice line, struct slice zone,
                    struct err *err)
{
    if (count_words(line) != 5)
        return err_set(err,
                       "a cron line has five fields: minute, hour, day of the month, "
                       "month, day of the week");
    if (zone.n == 0 || s->out->repeat.p)
        return set_repeat(s, line, err);
    if (count_words(zone) != 1 || line.n + 1 + zone.n > REPEAT_MAX)
        return err_set(err, "not a time zone; write one such as Europe/Berlin");
    snprintf(s->out->text, sizeof(s->out->text), "%.*s %.*s", SLICE_ARG(line),
             SLICE_ARG(zone));
    return set_repeat(s, slice_of(s->out->text), err);
}

/* Rejects a cron line with a delay: the original delays every run, tarry only the
 * first. */
static int refuse_delayed_cron(const struct delay_scan *s, struct err *err)
{
    if ((s->own & SLOT_TIMES) == 0 && s->seen & SLOT_BIT(SLOT_AFTER) && s->after_ms > 0)
        return err_set(err, "a cron line cannot be combined with a delay; write the "
                            "delay into the cron line");
    return 0;
}

static int nats_at(struct delay_scan *s, struct slice rest, struct err *err)
{
    int64_t n;
    if (s->own & SLOT_TIMES || s->seen & SLOT_BIT(SLOT_AT))
        return 0;
    if (delay_whole_number(rest, &n) == 0)
        return err_set(err, "not a date; write @at 2026-01-31T12:00:00Z");
    s->seen |= SLOT_BIT(SLOT_AT);
    return when_instant_ms(rest, &s->at_ms, err);
}

/* Sets an interval. The first run is due after one interval. */
static int nats_every(struct delay_scan *s, struct slice rest, struct err *err)
{
    struct slice value = s->held[SLOT_NATS]->value;
    int64_t every_ms = 0;
    text_skip_blanks(&value);
    if (s->out->repeat.p)
        return 0;
    if (when_duration_ms(rest, WHEN_NO_UNIT, &every_ms, err) < 0)
        return -1;
    if ((s->seen & SLOT_TIMES) == 0) {
        s->seen |= SLOT_BIT(SLOT_AFTER);
        s->after_ms = every_ms;
    }
    return set_repeat(s, (struct slice){value.p + 1, value.n - 1}, err); /* without @ */
}

/* Converts a cron line of NATS. Its first field is the second, which must be 0. */
static int nats_cron(struct delay_scan *s, struct slice line, struct slice zone,
                     struct err *err)
{
    static const struct {
        const char *word, *line;
    } named[] = {{"@yearly", "0 0 1 1 *"},  {"@annually", "0 0 1 1 *"},
                 {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
                 {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                 {"@hourly", "0 * * * *"}};
    int64_t second = -1;

    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        if (slice_is(line, named[i].word))
            return set_cron(s, slice_of(named[i].line), zone, err);
    if (delay_whole_number(take_word(&line), &second) < 0 || second != 0 ||
        count_words(line) != 5)
        return err_set(err, "not a schedule; write @at, @every, @daily, or six fields, "
                            "with 0 in the first (the seconds)");
    return set_cron(s, line, zone, err);
}

static void settle_nats(struct delay_scan *s)
{
    const struct header *schedule = s->held[SLOT_NATS], *zone = s->held[SLOT_NATS_ZONE];
    const struct header *sample = s->held[SLOT_NATS_SAMPLE];
    struct err err = {""};

    if (sample)
        delay_refuse(s->out, "bad-repeat", sample,
                     "tarry cannot read the payload from another subject; send the "
                     "payload itself");
    if (schedule == NULL)
        return;
    struct slice line = schedule->value;
    text_skip_blanks(&line);
    struct slice rest = line, word = take_word(&rest);
    struct slice zone_name = zone ? zone->value : SLICE_LIT("");
    bool at = slice_is(word, "@at"), every = slice_is(word, "@every"), good;
    if (at)
        good = nats_at(s, rest, &err) == 0;
    else if (every)
        good = nats_every(s, rest, &err) == 0;
    else
        good =
            nats_cron(s, line, zone_name, &err) == 0 && refuse_delayed_cron(s, &err) == 0;
    if (!good)
        delay_refuse(s->out, at ? "bad-delay" : "bad-repeat", schedule, err.text);
    if ((at || every) && zone)
        delay_refuse(s->out, "bad-repeat", zone,
                     "a time zone is valid only with a cron line");
}

/* Combines interval and rounds. In ActiveMQ the first run is due after the delay, or
 * without a delay after the interval; that many rounds follow. */
static int amq_rounds(struct delay_scan *s, struct err *err)
{
    struct delay_read *out = s->out;

    if (s->amq_rounds != 0 && s->amq_period_ms == 0)
        return err_set(err, "AMQ_SCHEDULED_REPEAT requires AMQ_SCHEDULED_PERIOD");
    if ((s->seen & SLOT_TIMES) == 0 ||
        ((s->own & SLOT_TIMES) == 0 && (s->seen & SLOT_BIT(SLOT_AT)) == 0 &&
         s->after_ms == 0)) {
        s->seen |= SLOT_BIT(SLOT_AFTER);
        s->after_ms = s->amq_period_ms;
    }
    if (s->amq_rounds == 0 || out->repeat.p)
        return 0;
    if (out->repeat_count == 0 && s->amq_rounds > 0)
        out->repeat_count = s->amq_rounds + 1;
    int n = snprintf(out->text, sizeof(out->text), "every %lldms",
                     (long long)s->amq_period_ms);
    return set_repeat(s, (struct slice){out->text, (size_t)n}, err);
}

static void settle_artemis(struct delay_scan *s)
{
    const struct header *cron = s->held[SLOT_AMQ_CRON];
    const struct header *rounds = s->held[SLOT_AMQ_REPEAT];
    struct err err = {""};

    if (cron && cron->value.n > 0) {
        if (s->amq_rounds != 0 || s->amq_period_ms > 0)
            err_set(&err, "a cron line cannot be combined with a period; omit "
                          "AMQ_SCHEDULED_PERIOD and _REPEAT");
        else if (refuse_delayed_cron(s, &err) == 0 &&
                 set_cron(s, cron->value, SLICE_LIT(""), &err) == 0)
            return;
        delay_refuse(s->out, "bad-repeat", cron, err.text);
    } else if (s->held[SLOT_AMQ_PERIOD] || s->amq_rounds != 0) {
        if (amq_rounds(s, &err) < 0)
            delay_refuse(s->out, "bad-repeat", rounds, err.text);
    }
}

/* "CRON_TZ=America/New_York 0 9 * * *" */
static void settle_qstash(struct delay_scan *s)
{
    const struct header *cron = s->held[SLOT_UPSTASH_CRON];
    struct slice rest = cron->value, line = rest, zone = SLICE_LIT("");
    const struct slice prefix = SLICE_LIT("CRON_TZ=");
    struct slice word = take_word(&rest);
    struct err err = {""};

    if (word.n >= prefix.n && memcmp(word.p, prefix.p, prefix.n) == 0) {
        zone = (struct slice){word.p + prefix.n, word.n - prefix.n};
        line = rest;
    }
    if (refuse_delayed_cron(s, &err) < 0 || set_cron(s, line, zone, &err) < 0)
        delay_refuse(s->out, "bad-repeat", cron, err.text);
}

static void settle_foreign_repeat(struct delay_scan *s)
{
    settle_nats(s);
    settle_artemis(s);
    if (s->held[SLOT_UPSTASH_CRON])
        settle_qstash(s);
}

/* -------------------------------------------------------------------- reading */

/* Makes the record's key the id. The message is delivered with the target key, or without
 * a key. */
static void settle_keyed(struct delay_scan *s, const struct job *job, unsigned sets)
{
    struct delay_read *out = s->out;

    s->keyed = true;
    if ((s->seen & SLOT_BIT(SLOT_KEY)) == 0)
        out->key = SLICE_LIT("");
    if (s->seen & SLOT_BIT(SLOT_OP))
        return;
    bool deleted = sets & ETF1 && job->tombstone && (s->own & SLOT_TIMES) == 0;
    out->op = deleted ? DELAY_CANCEL : DELAY_REPLACE;
}

void compat_read(struct delay_scan *s, const struct job *job)
{
    unsigned sets = 0; /* sets whose headers the message contains */

    s->own = s->seen;
    unsigned beaten = s->own & SLOT_TIMES ? SLOT_TIMES : 0;
    if (s->own & SLOT_BIT(SLOT_REPEAT))
        beaten |= SLOT_BIT(SLOT_AMQ_CRON) | SLOT_BIT(SLOT_AMQ_PERIOD) |
                  SLOT_BIT(SLOT_AMQ_REPEAT) | SLOT_BIT(SLOT_UPSTASH_CRON);
    for (unsigned i = 0; i < job->header_count; i++) {
        const struct delay_row *row =
            compat_row_of(job->headers[i].name, s->rules->compat);
        if (row == NULL || row->slot == SLOT_OURS)
            continue;
        sets |= row->set;
        if ((s->own | beaten) & SLOT_BIT(row->slot))
            continue;
        if (s->seen & SLOT_BIT(row->slot)) {
            delay_read_again(s, row, &job->headers[i]);
            continue;
        }
        s->held[row->slot] = &job->headers[i];
        delay_read_one(s, row, &job->headers[i]);
    }
    if (sets & (ETF1 | KARAFKA))
        settle_keyed(s, job, sets);
    if (s->out->reason == NULL) /* do not combine invalid headers */
        settle_foreign_repeat(s);
}
