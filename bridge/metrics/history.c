/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/metrics/history.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const struct {
    int64_t step_ms;
    unsigned steps;
} spans[HISTORY_SPANS] = {[HISTORY_HOUR] = {60 * 1000, HISTORY_HOUR_STEPS},
                          [HISTORY_DAY] = {10 * 60 * 1000, HISTORY_DAY_STEPS}};

int64_t history_step_ms(enum history_span span)
{
    return spans[span].step_ms;
}

unsigned history_steps(enum history_span span)
{
    return spans[span].steps;
}

int64_t history_step_at(enum history_span span, int64_t now_ms)
{
    return now_ms / spans[span].step_ms - 1;
}

/* Before the time of Redis is known, steps are negative. */
static size_t place_of(enum history_span span, int64_t step)
{
    int64_t place = step % spans[span].steps;
    return (size_t)(place < 0 ? place + spans[span].steps : place);
}

static const struct history_sample *place(const struct history *h, enum history_span span,
                                          int64_t step)
{
    const struct history_sample *all = span == HISTORY_HOUR ? h->hour : h->day;
    return &all[place_of(span, step)];
}

static void store(struct history *h, enum history_span span, int64_t step,
                  const struct history_sample *sample)
{
    struct history_sample *all = span == HISTORY_HOUR ? h->hour : h->day;
    all[place_of(span, step)] = *sample;
}

static const struct history_sample unknown = {{HISTORY_UNKNOWN, HISTORY_UNKNOWN,
                                               HISTORY_UNKNOWN, HISTORY_UNKNOWN,
                                               HISTORY_UNKNOWN, HISTORY_UNKNOWN}};

/* Make the steps after the last one up to `step` unknown. */
static void skip(struct history *h, enum history_span span, int64_t step)
{
    int64_t from = h->last[span] + 1;
    if (step < h->last[span] || from < step - spans[span].steps)
        from = step - spans[span].steps + 1;
    for (; from <= step; from++)
        store(h, span, from, &unknown);
    h->last[span] = step;
}

struct history *history_new(int64_t now_ms)
{
    struct history *h = mem_alloc(sizeof(*h));
    for (enum history_span span = 0; span < HISTORY_SPANS; span++)
        skip(h, span, history_step_at(span, now_ms));
    return h;
}

static uint32_t small(uint64_t n)
{
    return n < HISTORY_UNKNOWN ? (uint32_t)n : HISTORY_UNKNOWN - 1;
}

static uint32_t quantile_ms(const struct histogram *lateness, double q)
{
    double seconds = histogram_quantile(lateness, q);
    return seconds < 0 ? HISTORY_UNKNOWN : small((uint64_t)ceil(seconds * 1000));
}

void history_put(struct history *h, enum history_span span, int64_t step,
                 const struct history_counts *change)
{
    const struct history_sample sample = {
        {[HISTORY_IN] = small(change->in),
         [HISTORY_OUT] = small(change->out),
         [HISTORY_FAILURES] = small(change->failures),
         [HISTORY_PENDING] =
             change->pending < 0 ? HISTORY_UNKNOWN : small((uint64_t)change->pending),
         [HISTORY_P50_MS] = quantile_ms(&change->lateness, 0.5),
         [HISTORY_P99_MS] = quantile_ms(&change->lateness, 0.99)}};
    skip(h, span, step);
    store(h, span, step, &sample);
}

void history_end_step(struct history *h, enum history_span span, int64_t step,
                      const struct history_counts *counts, struct history_counts *sum)
{
    struct history_counts change = *counts, *before = &h->before[span];
    change.in -= before->in;
    change.out -= before->out;
    change.failures -= before->failures;
    sum->in += change.in;
    sum->out += change.out;
    sum->failures += change.failures;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        change.lateness.bucket[i] -= before->lateness.bucket[i];
        sum->lateness.bucket[i] += change.lateness.bucket[i];
    }
    history_put(h, span, step, &change);
    *before = *counts;
}

uint32_t history_value(const struct history *h, enum history_span span, int64_t step,
                       enum history_field field)
{
    int64_t age = h->last[span] - step;
    return age < 0 || age >= spans[span].steps ? HISTORY_UNKNOWN
                                               : place(h, span, step)->of[field];
}

/* ------------------------------------------------------------- for the next process */

/* In the byte order of the host: another one reads another form. */
struct saved {
    int64_t form;
    int64_t last[HISTORY_SPANS];
    struct history_sample hour[HISTORY_HOUR_STEPS], day[HISTORY_DAY_STEPS];
};
#define SAVED_FORM INT64_C(0x7461727279680001)

void history_save(const struct history *h, struct buf *out)
{
    struct saved saved = {.form = SAVED_FORM};
    memcpy(saved.last, h->last, sizeof(saved.last));
    memcpy(saved.hour, h->hour, sizeof(saved.hour));
    memcpy(saved.day, h->day, sizeof(saved.day));
    buf_add(out, &saved, sizeof(saved));
}

int history_load(struct history *h, struct slice from)
{
    struct saved saved;
    const struct history own = *h;
    if (from.n != sizeof(saved))
        return -1;
    memcpy(&saved, from.p, sizeof(saved));
    if (saved.form != SAVED_FORM)
        return -1;
    for (enum history_span span = 0; span < HISTORY_SPANS; span++)
        if (saved.last[span] < 0 || saved.last[span] > own.last[span])
            return -1;
    memcpy(h->last, saved.last, sizeof(saved.last));
    memcpy(h->hour, saved.hour, sizeof(saved.hour));
    memcpy(h->day, saved.day, sizeof(saved.day));
    for (enum history_span span = 0; span < HISTORY_SPANS; span++) {
        int64_t step = saved.last[span], steps = spans[span].steps;
        skip(h, span, own.last[span]);
        if (step < own.last[span] - steps)
            step = own.last[span] - steps;
        while (step++ < own.last[span])
            store(h, span, step, place(&own, span, step));
    }
    return 0;
}

/* ---------------------------------------------------------------------------- marks */

static const char *const kinds[MARK_KINDS] = {[MARK_RELOAD] = "reload",
                                              [MARK_PAUSE] = "pause",
                                              [MARK_RESUME] = "resume",
                                              [MARK_RESTART] = "restart",
                                              [MARK_RECONNECTION] = "reconnection"};

const char *mark_kind_name(enum mark_kind kind)
{
    return kinds[kind];
}

static void free_mark(struct mark *mark)
{
    free(mark->route);
    free(mark->text);
}

static char *line(struct slice text)
{
    char *made = mem_strndup(text.p, text.n < MARK_TEXT_MAX ? text.n : MARK_TEXT_MAX);
    for (char *at = made; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return made;
}

void marks_add(struct marks *m, int64_t at_ms, enum mark_kind kind, const char *route,
               struct slice text)
{
    struct mark *list = m->list;
    if (m->n == MARKS_MAX) {
        free_mark(&list[0]);
        memmove(&list[0], &list[1], --m->n * sizeof(list[0]));
    }
    size_t at = m->n++;
    for (; at > 0 && list[at - 1].at_ms > at_ms; at--)
        list[at] = list[at - 1];
    list[at] = (struct mark){at_ms, kind, mem_strdup(route), line(text)};
}

void marks_free(struct marks *m)
{
    for (size_t i = 0; i < m->n; i++)
        free_mark(&m->list[i]);
    m->n = 0;
}

void marks_save(const struct marks *m, struct buf *out)
{
    for (size_t i = 0; i < m->n; i++)
        buf_addf(out, "%" PRId64 " %s %s %s\n", m->list[i].at_ms, kinds[m->list[i].kind],
                 m->list[i].route ? m->list[i].route : "-", m->list[i].text);
}

static void load_mark(struct marks *m, struct slice row)
{
    int64_t at_ms = text_whole_number(text_cut(&row, ' '));
    struct slice kind = text_cut(&row, ' '), route = text_cut(&row, ' ');
    for (enum mark_kind k = 0; k < MARK_KINDS; k++) {
        if (at_ms < 0 || !slice_is(kind, kinds[k]) || row.p == NULL)
            continue;
        char *name = slice_is(route, "-") ? NULL : mem_strndup(route.p, route.n);
        marks_add(m, at_ms, k, name, row);
        free(name);
    }
}

void marks_load(struct marks *m, struct slice saved)
{
    while (saved.n > 0)
        load_mark(m, text_cut(&saved, '\n'));
}
