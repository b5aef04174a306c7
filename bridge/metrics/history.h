/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.h - what each route did in the last hour, minute by minute, and in the last
 * day, in steps of ten minutes; and the events that explain it (marks). Pure.
 *
 * A step stores how the counters of stats.h have changed since the step before it. A
 * route needs sizeof(struct history), 5.5 KiB.
 */
#ifndef BRIDGE_HISTORY_H
#define BRIDGE_HISTORY_H

#include "bridge/base/buf.h"
#include "bridge/base/histogram.h"

#include <stdbool.h>
#include <stdint.h>

enum history_span { HISTORY_HOUR, HISTORY_DAY, HISTORY_SPANS };
enum { HISTORY_HOUR_STEPS = 60, HISTORY_DAY_STEPS = 144 };

int64_t history_step_ms(enum history_span span);
unsigned history_steps(enum history_span span);
/* Returns the number of the last step that has ended. now_ms: since 1970. */
int64_t history_step_at(enum history_span span, int64_t now_ms);

enum history_field {
    HISTORY_IN, /* jobs stored */
    HISTORY_OUT,
    HISTORY_FAILURES,
    HISTORY_PENDING, /* at the end of the step */
    HISTORY_P50_MS,  /* lateness */
    HISTORY_P99_MS,
    HISTORY_FIELDS
};
#define HISTORY_UNKNOWN UINT32_MAX

struct history_sample {
    uint32_t of[HISTORY_FIELDS]; /* HISTORY_UNKNOWN: not known; a larger number counts
                                  * as the one below it */
};

/* Counters, or their change in a step. */
struct history_counts {
    uint64_t in, out, failures;
    int64_t pending; /* -1: unknown */
    struct histogram lateness;
};

struct history {
    struct history_sample hour[HISTORY_HOUR_STEPS], day[HISTORY_DAY_STEPS];
    struct history_counts before[HISTORY_SPANS]; /* at the end of the last step */
    int64_t last[HISTORY_SPANS];                 /* number of the last step */
};

/* Creates a history without any values. Free it with free(). */
struct history *history_new(int64_t now_ms);
/* Ends a step; the steps between the last one and this one are unknown. If it is earlier
 * than the last one, the clock was set back: all other steps are forgotten. Adds the
 * change to sum, except pending. */
void history_end_step(struct history *h, enum history_span span, int64_t step,
                      const struct history_counts *counts, struct history_counts *sum);
/* The same, with the change itself. */
void history_put(struct history *h, enum history_span span, int64_t step,
                 const struct history_counts *change);
/* Returns a value; HISTORY_UNKNOWN also for steps that are not stored. */
uint32_t history_value(const struct history *h, enum history_span span, int64_t step,
                       enum history_field field);

/* For the next process: appends the samples; reads them, but keeps the steps that have
 * ended after the last saved one. -1: another form, nothing was read. */
void history_save(const struct history *h, struct buf *out);
int history_load(struct history *h, struct slice saved);

/* --- marks --- */

enum mark_kind {
    MARK_RELOAD,
    MARK_PAUSE, /* also of a drain */
    MARK_RESUME,
    MARK_RESTART,
    MARK_RECONNECTION,
    MARK_KINDS
};
/* Returns "reload" and so on. */
const char *mark_kind_name(enum mark_kind kind);

struct mark {
    int64_t at_ms; /* since 1970 */
    enum mark_kind kind;
    char *route; /* NULL: it is not about one route */
    char *text;  /* a line */
};
enum { MARKS_MAX = 200, MARK_TEXT_MAX = 200 };
struct marks { /* zeroed is valid */
    size_t n;
    struct mark list[MARKS_MAX]; /* ascending; the oldest is dropped */
};
/* Adds a mark. Copies the texts; cuts long ones. */
void marks_add(struct marks *m, int64_t at_ms, enum mark_kind kind, const char *route,
               struct slice text);
void marks_free(struct marks *m);
/* For the next process. marks_load() adds the marks, and ignores what it cannot read. */
void marks_save(const struct marks *m, struct buf *out);
void marks_load(struct marks *m, struct slice saved);

#endif
