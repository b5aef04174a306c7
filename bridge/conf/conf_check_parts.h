/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check_parts.h - what conf_check*.c share among themselves.
 */
#ifndef BRIDGE_CONF_CHECK_PARTS_H
#define BRIDGE_CONF_CHECK_PARTS_H

#include "bridge/conf/conf.h"
#include "bridge/conf/conf_errors.h"

struct check {
    const struct conf *conf;
    const struct opt_value *root;
    struct conf_errors *errors;
};

/* Where to point at: the key of the part, or else the part, or else the section. */
const struct opt_value *conf_check_place(const struct check *c, const char *section,
                                         const char *part, const char *key);
void conf_check_http(const struct check *c);
void conf_check_route(const struct check *c, const struct conf_route *route);

#endif
