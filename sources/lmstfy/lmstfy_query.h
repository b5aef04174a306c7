/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_query.h - the parameters of a request and the numbers in them.
 *
 * Pure. What comes in is outside bytes: any content is fine.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_QUERY_H
#define SOURCES_LMSTFY_LMSTFY_QUERY_H

#include "bridge/base/buf.h"

#include <stdint.h>

enum lmstfy_param {
    PARAM_DELAY,
    PARAM_TTL,
    PARAM_TRIES,
    PARAM_TTR,
    PARAM_TIMEOUT,
    PARAM_COUNT,
    PARAM_LIMIT,
    PARAM_TOKEN,
    LMSTFY_PARAMS
};

/* Fills in what the query holds, decoded, and clears the rest. The first of several
 * counts; a pair with a bad escape or a semicolon is left out, unknown names are skipped.
 * room: query.n bytes, which must outlive the parameters. */
void lmstfy_query_read(struct slice query, struct slice params[LMSTFY_PARAMS],
                       char *room);

/* Decimal digits and nothing else. -1: there is none, or it is more than max. */
int lmstfy_number(struct slice text, int64_t max, int64_t *n);

#endif
