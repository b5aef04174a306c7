/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compat_repeat.c - what foreign headers say of repetition, in the words of repeat.h; see
 * compat.c. Several of them say one thing together (an interval and a number of rounds),
 * so they are looked at when all have been read.
 */
#include "bridge/base/when.h"
#include "bridge/job/delay_parts.h"

#include <stdio.h>

static struct slice trim(struct slice s)
{
    while (s.n > 0 && s.p[0] == ' ') {
        s.p++;
        s.n--;
    }
    return s;
}

/* Takes the first word off s, and the blanks after it. */
static struct slice take_word(struct slice *s)
{
    *s = trim(*s);
    if (s->n == 0)
        return SLICE_LIT("");
    struct slice word = {s->p, 0};
    while (word.n < s->n && s->p[word.n] != ' ')
        word.n++;
    *s = trim((struct slice){s->p + word.n, s->n - word.n});
    return word;
}

static unsigned count_words(struct slice s)
{
    unsigned n = 0;
    while (take_word(&s).n > 0)
        n++;
    return n;
}

/* Ours counts before a foreign one, and of those the one that is put together first. */
static int set_repeat(struct delay_scan *s, struct slice text, struct err *err)
{
    if (s->out->repeat.p)
        return 0;
    if (delay_check_text(text, REPEAT_MAX, err) < 0)
        return -1;
    s->out->repeat = text;
    return 0;
}

/* line: the five fields of cron(5). Where it runs in a zone, both are joined in text. */
static int set_cron(struct delay_scan *s, struct slice line, struct slice zone,
                    struct err *err)
{
    char *text = s->out->text;

    if (count_words(line) != 5)
        return err_set(err,
                       "a cron line has five fields: minute, hour, day of the month, "
                       "month, day of the week");
    if (zone.n == 0 || s->out->repeat.p)
        return set_repeat(s, line, err);
    if (count_words(zone) != 1 || line.n + 1 + zone.n > REPEAT_MAX)
        return err_set(err, "no time zone to put behind it; write Europe/Berlin");
    memcpy(text, line.p, line.n);
    text[line.n] = ' ';
    memcpy(text + line.n + 1, zone.p, zone.n);
    return set_repeat(s, (struct slice){text, line.n + 1 + zone.n}, err);
}

/* A delay before a cron line's run: ours would be before the first alone. */
static int refuse_delayed_cron(const struct delay_scan *s, struct err *err)
{
    if ((s->own & SLOT_TIMES) == 0 && s->seen & SLOT_BIT(SLOT_AFTER) && s->after_ms > 0)
        return err_set(err,
                       "a cron line with a delay is not possible here; put the delay "
                       "into the line");
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

/* The first run is one interval away. */
static int nats_every(struct delay_scan *s, struct slice rest, struct err *err)
{
    const struct slice value = trim(s->held[SLOT_NATS]->value);
    int64_t every_ms = 0;
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

/* Seconds first, which we have not. */
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
        return err_set(err, "not a schedule; write @at, @every, @daily, or six fields of "
                            "which the first, the second, is 0");
    return set_cron(s, line, zone, err);
}

static void settle_nats(struct delay_scan *s)
{
    const struct header *schedule = s->held[SLOT_NATS], *zone = s->held[SLOT_NATS_ZONE];
    const struct header *sample = s->held[SLOT_NATS_SAMPLE];
    struct err err = {""};

    if (sample)
        delay_refuse(s->out, "bad-repeat", sample,
                     "to send what another subject holds is not possible here; send the "
                     "payload itself");
    if (schedule == NULL)
        return;
    struct slice line = trim(schedule->value), rest = line, word = take_word(&rest);
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
        delay_refuse(s->out, "bad-repeat", zone, "a time zone is for cron lines alone");
}

/* Interval and rounds. In ActiveMQ the first is after the delay, or without one after the
 * interval; so many rounds follow it. */
static int amq_rounds(struct delay_scan *s, struct err *err)
{
    struct delay_read *out = s->out;

    if (s->amq_rounds != 0 && s->amq_period_ms == 0)
        return err_set(err, "AMQ_SCHEDULED_REPEAT needs an AMQ_SCHEDULED_PERIOD");
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
            err_set(&err, "rounds within a cron line are not possible here; leave out "
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

void compat_settle_repeat(struct delay_scan *s)
{
    settle_nats(s);
    settle_artemis(s);
    if (s->held[SLOT_UPSTASH_CRON])
        settle_qstash(s);
}
