/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_secret.h - what is allowed in a configuration and unwise: secrets that stand in it
 * as they are, files that can't be read, or by everybody. Told as warnings.
 */
#ifndef BRIDGE_CONF_SECRET_H
#define BRIDGE_CONF_SECRET_H

#include "bridge/conf/conf_errors.h"
#include "bridge/conf/opt.h"

struct conf;

/* v: what the file gives for row, and is good. where: "sources.orders_in". */
void conf_secret_look(const struct opt *row, const struct opt_value *v, const char *where,
                      struct conf_errors *errors);

/* Logs the warnings of conf, a line each. */
void conf_log_warnings(struct conf *conf);

#endif
