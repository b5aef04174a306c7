/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_text.h - what opt*.c share among themselves and with their tests.
 */
#ifndef BRIDGE_OPT_TEXT_H
#define BRIDGE_OPT_TEXT_H

#include "bridge/conf/opt.h"

/* Reads what stands in opt.def. Gives the value, freed by opt_text_free(). -1: not a
 * value of that type; nothing is given then. */
int opt_text_read(enum opt_type type, const char *text, struct opt_value *v);
void opt_text_free(struct opt_value *v);

/* The setter of OPT_RETRY; field is a struct retry_policy. */
int opt_set_retry(const struct opt *row, void *field, const struct opt_value *v,
                  struct err *err);

#endif
