/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resp.h - a command as Redis reads it: a list of words, each behind its length. Pure.
 *
 * hiredis formats each word by sprintf, which was a third of what a job cost us.
 */
#ifndef BRIDGE_RESP_H
#define BRIDGE_RESP_H

#include "bridge/base/buf.h"

#include <stdint.h>

struct resp { /* zeroed is ready; keeps its memory from command to command */
    struct buf bytes;
    unsigned words;
};
void resp_begin(struct resp *c);
void resp_add(struct resp *c, struct slice word); /* copied; none is empty */
void resp_add_number(struct resp *c, int64_t n);
/* The whole command; borrowed until the next one begins. */
struct slice resp_end(struct resp *c);
void resp_free(struct resp *c);

#endif
