/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_group.h - one group of a configuration read by option rows; for the files that
 * make struct conf of a tree. Errors are collected, reading goes on.
 */
#ifndef BRIDGE_CONF_GROUP_H
#define BRIDGE_CONF_GROUP_H

#include "bridge/conf/conf_errors.h"
#include "bridge/conf/opt.h"

enum { CONF_WHERE_SIZE = 160 };

struct conf;

/* The rows that one group is read by, each with the struct it fills. */
struct conf_layer {
    const struct opt *rows; /* NULL: none */
    void *self;
};
struct conf_schema {
    const char *where; /* "sources.orders_in" */
    const char *also;  /* a key that is read elsewhere; NULL: none */
    struct conf_layer layers[2];
};

/* Sets what stands there, and complains of what is unknown, wrong or missing. */
void conf_group_read(const struct conf_schema *s, const struct opt_value *group,
                     struct conf_errors *errors);
/* It is no group, which is said. */
bool conf_is_wrong(struct conf_errors *errors, const struct opt_value *v,
                   const char *where);
/* Holds a secret that could not be had: said by the tree already. */
bool conf_is_unfilled(const struct opt_value *v);
/* Writes "sources.NAME", and complains of a name that is none. */
void conf_begin_named(const char *section, const struct opt_value *v,
                      char where[CONF_WHERE_SIZE], struct conf_errors *errors);
/* The same, for a part that is a group; false: v is nothing that could be read on. */
bool conf_begin_part(const char *section, const struct opt_value *v,
                     char where[CONF_WHERE_SIZE], struct conf_errors *errors);

/* conf_inst.c: loads what the list names, before any type is looked for; NULL: nothing.
 */
void conf_read_plugins(const struct opt_value *v, struct conf_errors *errors);
/* conf_inst.c: a part of sources: { }, of sinks: { }, appended to the list. */
void conf_read_source(struct conf *conf, const struct opt_value *v,
                      struct conf_errors *errors);
void conf_read_sink(struct conf *conf, const struct opt_value *v,
                    struct conf_errors *errors);

#endif
