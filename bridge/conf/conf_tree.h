/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_tree.h - a configuration file as a tree of neutral values; libconfig inside.
 *
 * ${env:NAME}, ${file:PATH} and ${cred:NAME} in strings are filled in already; "$${"
 * stands for "${".
 */
#ifndef BRIDGE_CONF_TREE_H
#define BRIDGE_CONF_TREE_H

#include "bridge/conf/conf_errors.h"
#include "bridge/conf/opt.h"

struct conf_tree;

/* Gives the tree, or NULL when the file is no tree at all. A secret that is missing is in
 * errors, and its string stays as it stands. Relative paths start at the file's folder.
 */
struct conf_tree *conf_tree_read(const char *file, struct conf_errors *errors);
/* The top level group; it and all below are the tree's. */
const struct opt_value *conf_tree_root(const struct conf_tree *tree);
/* The value of that name in a group; NULL: there is none, or v is no group. */
const struct opt_value *conf_tree_member(const struct opt_value *v, const char *name);
void conf_tree_free(struct conf_tree *tree); /* NULL is fine; wipes what was filled in */

#endif
