/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay_parts.h - what the files of the delay headers share; nobody else includes it.
 *
 * delay_value.c has the table of our own headers and reads their values, compat.c has
 * those of other schedulers, delay.c puts together what they say.
 */
#ifndef BRIDGE_DELAY_PARTS_H
#define BRIDGE_DELAY_PARTS_H

#include "bridge/base/mem.h"
#include "bridge/job/delay.h"

enum slot { /* headers of one slot are the same thing, and must say the same */
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
            /* only foreign headers say these */
            SLOT_KEY,
            SLOT_NATS, /* Nats-Schedule: an instant, an interval or a cron line */
            SLOT_NATS_ZONE,
            SLOT_NATS_SAMPLE,
            SLOT_AMQ_CRON,
            SLOT_AMQ_PERIOD,
            SLOT_AMQ_REPEAT,
            SLOT_UPSTASH_CRON,
            SLOT_OURS, /* stripped, not read */
            SLOTS
};
#define SLOT_BIT(slot) (1U << (slot))
#define SLOT_TIMES (SLOT_BIT(SLOT_AFTER) | SLOT_BIT(SLOT_AT) | SLOT_BIT(SLOT_X_DELAY))

struct delay_scan { /* one run of delay_read() */
    const struct delay_rules *rules;
    struct delay_read *out;
    int64_t after_ms, at_ms, x_delay_ms;
    int64_t before_ms; /* an instant, or from due on */
    bool before_is_relative;
    bool decided; /* the source knows the time: no header can change it */
    bool keyed;   /* a foreign header says that the record's key names the job */
    int64_t amq_period_ms, amq_rounds; /* -1 rounds: without end */
    unsigned seen;                     /* bits by slot: which of them are given */
    unsigned own;                      /* as seen, by our own headers alone */
    const struct header *held[SLOTS];  /* the foreign ones that were read */
};

enum {                /* flags of a row */
       ROW_FIXED = 1, /* tarry writes it itself, under this name everywhere */
       ROW_NUMBER = 2 /* may come as a binary integer */
};

struct delay_row {
    struct slice name;
    enum slot slot;
    unsigned flags;
    unsigned set; /* bit of the compat set; 0: our own */
    /* value.p is never NULL. -1: err says what is wrong with it, reason holds. NULL: it
     * is looked at later, or only stripped. */
    int (*parse)(struct delay_scan *s, struct slice value, struct err *err);
    const char *reason;
};

/* A table of headers, and what its rows say of the names that are in it: nearly all
 * headers of a job are told by their length or first letter to be none of them. */
struct delay_table {
    const struct delay_row *rows;
    size_t count;
    uint32_t lengths; /* bit n: a row's name has n bytes */
    uint32_t letters; /* bit c & 31: a row's name begins with c, or with C */
};
/* Once per table, before the first delay_table_find(). */
void delay_table_init(struct delay_table *t);
/* The row of that name, compared without case, which is in one of the sets, or ours. */
const struct delay_row *delay_table_find(const struct delay_table *t, struct slice name,
                                         unsigned sets);

/* delay.c */

/* The first thing that is wrong is the reason; later ones change nothing. */
void delay_refuse(struct delay_read *out, const char *reason, const struct header *header,
                  const char *text);
void delay_read_one(struct delay_scan *s, const struct delay_row *row,
                    const struct header *header);

/* One more of a slot that is seen: refused where it says something else. */
void delay_read_again(struct delay_scan *s, const struct delay_row *row,
                      const struct header *header);

/* delay_value.c: our own headers */

/* By standard name; NULL: none of ours. */
const struct delay_row *delay_row_of(struct slice name);
int delay_parse_id(struct delay_scan *s, struct slice value, struct err *err);
int delay_parse_to(struct delay_scan *s, struct slice value, struct err *err);

/* Digits and nothing else; what is too large for 64 bits becomes INT64_MAX. */
int delay_whole_number(struct slice text, int64_t *n);
int delay_check_text(struct slice value, size_t most, struct err *err);
int delay_set_attempts(struct delay_scan *s, struct slice value, int64_t more,
                       struct err *err);
/* A big-endian integer of 8 bytes as text in digits; anything else as it is. */
enum { DELAY_DIGITS = 24 };
struct slice delay_integer(struct slice value, char digits[DELAY_DIGITS]);

/* compat.c */

/* The foreign header of that name in the sets; NULL: in none of them. */
const struct delay_row *compat_row_of(struct slice name, unsigned sets);
/* After our own headers were read, which count before all foreign ones. */
void compat_read(struct delay_scan *s, const struct job *job);

#endif
