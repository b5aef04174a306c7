/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay_internal.h - shared by the files of the control headers; no other file includes
 * it.
 *
 * delay_value.c contains the table of our own headers and parses their values. compat.c
 * contains the headers of other schedulers. delay.c combines the results.
 */
#ifndef BRIDGE_DELAY_INTERNAL_H
#define BRIDGE_DELAY_INTERNAL_H

#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/job/delay.h"

enum slot { /* headers of the same slot have the same meaning and must have the same
             * value */
            SLOT_AFTER,
            SLOT_AT,
            SLOT_X_DELAY,
            SLOT_BEFORE,
            SLOT_ID,
            SLOT_OP,
            SLOT_TO,
            SLOT_RETRY,
            SLOT_ATTEMPTS,
            SLOT_REPEAT,
            SLOT_REPEAT_COUNT,
            SLOT_REPEAT_UNTIL,
            SLOT_HOPS,
            /* only foreign headers use the following */
            SLOT_KEY,
            SLOT_NATS, /* Nats-Schedule: an instant, an interval or a cron line */
            SLOT_NATS_ZONE,
            SLOT_NATS_SAMPLE,
            SLOT_AMQ_CRON,
            SLOT_AMQ_PERIOD,
            SLOT_AMQ_REPEAT,
            SLOT_UPSTASH_CRON,
            SLOT_OURS, /* removed before delivery, not read */
            SLOTS
};
#define SLOT_BIT(slot) (1U << (slot))
#define SLOT_TIMES (SLOT_BIT(SLOT_AFTER) | SLOT_BIT(SLOT_AT) | SLOT_BIT(SLOT_X_DELAY))

struct delay_scan { /* state of one delay_read() */
    const struct delay_rules *rules;
    struct delay_read *out;
    int64_t after_ms, at_ms, x_delay_ms;
    int64_t before_ms; /* an instant, or relative to due */
    bool before_is_relative;
    bool decided; /* the source set the time: headers do not change it */
    bool keyed;   /* a foreign header makes the record's key the id */
    int64_t amq_period_ms, amq_rounds; /* -1 rounds: no end */
    unsigned seen;                     /* set of SLOT_BIT(): slots with a header */
    unsigned own;                      /* the same, only our own headers */
    const struct header *held[SLOTS];  /* foreign headers that were read */
};

enum {                /* flags of a row */
       ROW_FIXED = 1, /* written by tarry; cannot be renamed */
       ROW_NUMBER = 2 /* may be a binary integer */
};

struct delay_row {
    struct slice name;
    enum slot slot;
    unsigned flags;
    unsigned set; /* bit of the compat set; 0: our own */
    /* Parses value (value.p is never NULL). -1: err says what is wrong; the message fails
     * with reason. NULL: parsed later, or only removed. */
    int (*parse)(struct delay_scan *s, struct slice value, struct err *err);
    const char *reason;
};

/* A table of headers with filters by length and first letter, which reject nearly all
 * other headers without a search. */
struct delay_table {
    const struct delay_row *rows;
    size_t count;
    uint32_t lengths; /* bit n: some name has n bytes */
    uint32_t letters; /* bit c & 31: some name begins with c, in either case */
};
/* Computes the filters. Call it once per table, before delay_table_find(). */
void delay_table_init(struct delay_table *t);
/* Returns the row of that name (case-insensitive) that is our own or in one of the sets,
 * or NULL. */
const struct delay_row *delay_table_find(const struct delay_table *t, struct slice name,
                                         unsigned sets);

/* delay.c */

/* Records the first error of a message; ignores later ones. */
void delay_refuse(struct delay_read *out, const char *reason, const struct header *header,
                  const char *text);
void delay_read_one(struct delay_scan *s, const struct delay_row *row,
                    const struct header *header);

/* Reads a further header of a slot; rejects it if the value differs. */
void delay_read_again(struct delay_scan *s, const struct delay_row *row,
                      const struct header *header);

/* delay_value.c: our own headers */

/* By standard name. Returns NULL if it is not our own. */
const struct delay_row *delay_row_of(struct slice name);
int delay_parse_id(struct delay_scan *s, struct slice value, struct err *err);
int delay_parse_to(struct delay_scan *s, struct slice value, struct err *err);

/* Parses digits only; a value above 64 bits becomes INT64_MAX. */
int delay_whole_number(struct slice text, int64_t *n);
/* Sets *into to value. -1: empty, longer than most bytes, or a control character. */
int delay_take_text(struct slice value, size_t most, struct slice *into, struct err *err);
int delay_set_attempts(struct delay_scan *s, struct slice value, int64_t more,
                       struct err *err);

/* Converts a big-endian integer of 8 bytes to decimal digits. Returns other values
 * unchanged. */
struct slice delay_integer(struct slice value, char digits[TEXT_DECIMAL_MAX]);

/* compat.c */

/* Returns the foreign header of that name in one of the sets, or NULL. */
const struct delay_row *compat_row_of(struct slice name, unsigned sets);
/* Reads the foreign headers. Call it after our own headers, which take precedence. */
void compat_read(struct delay_scan *s, const struct job *job);

#endif
