/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_same.h - two structs that were filled in by the same option rows: compared, copied,
 * exchanged. Only the fields of the rows are looked at. Any thread.
 */
#ifndef BRIDGE_OPT_SAME_H
#define BRIDGE_OPT_SAME_H

#include "bridge/conf/opt.h"

/* Does the field of that row hold the same in both? */
bool opt_same(const struct opt *row, const void *a, const void *b);
/* Gives to, whose fields are zero, the values of from, with memory of its own. */
void opt_copy(const struct opt *rows, const void *from, void *to);
void opt_exchange(const struct opt *rows, void *a, void *b);

#endif
