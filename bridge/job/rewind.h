/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewind.h - reads the rewinds of a job (job.h), a text "ROUTE:N@OFFSET ROUTE:N@OFFSET".
 * "ROUTE:N" is a rewind to the first record.
 */
#ifndef BRIDGE_JOB_REWIND_H
#define BRIDGE_JOB_REWIND_H

#include "bridge/base/text.h"

struct rewind_word {
    struct slice text, route; /* text: the whole word */
    int64_t number, offset;
};

static inline int64_t rewind_digits(struct slice text)
{
    const int64_t n = text_whole_number(text);
    return n < 0 ? 0 : n;
}

/* Removes the first rewind from a text. Returns false if it has none. */
static inline bool rewind_take(struct slice *rewinds, struct rewind_word *r)
{
    if (rewinds->n == 0)
        return false;
    r->text = text_take_word(rewinds);
    struct slice rest = r->text;
    r->route = text_cut(&rest, ':');
    r->number = rewind_digits(text_cut(&rest, '@'));
    r->offset = rewind_digits(rest);
    return r->text.n > 0;
}

#endif
