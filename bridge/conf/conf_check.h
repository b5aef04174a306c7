/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check.h - what no option row can tell: whether the parts of a configuration fit
 * together. Only for conf.c.
 */
#ifndef BRIDGE_CONF_CHECK_H
#define BRIDGE_CONF_CHECK_H

#include "bridge/conf/conf.h"
#include "bridge/conf/conf_errors.h"
#include "bridge/conf/opt.h"

/* root: the file as a tree, for the lines; every part of conf is there, right or wrong.
 */
void conf_check(const struct conf *conf, const struct opt_value *root,
                struct conf_errors *errors);

#endif
