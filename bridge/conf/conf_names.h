/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_names.h - the names that would have been right, for the person who mistyped one.
 */
#ifndef BRIDGE_CONF_NAMES_H
#define BRIDGE_CONF_NAMES_H

#include "bridge/conf/opt.h"

/* A zeroed one is empty and ready. */
struct conf_names {
    struct opt *v; /* only the names are filled in; ends with a row of zeros */
    size_t n;
};

void conf_names_add(struct conf_names *names, const char *name); /* borrowed */
void conf_names_add_rows(struct conf_names *names, const struct opt *rows);

/* Writes `did you mean "x"?`, or else which names there are; gives out. Frees names. */
enum { CONF_HINT_SIZE = 320 };
const char *conf_names_hint(struct conf_names *names, const char *wrong,
                            char out[CONF_HINT_SIZE]);
void conf_names_free(struct conf_names *names);

#endif
