/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_files.h - the certificates and keys that options name: what is in them, whether
 * they can be read.
 */
#ifndef BRIDGE_CONF_FILES_H
#define BRIDGE_CONF_FILES_H

#include "bridge/base/mem.h"
#include "bridge/conf/opt.h"

/* A fingerprint of the content of every file that rows of the types OPT_FILE and
 * OPT_KEY_FILE name in self, so that a reload sees a renewed certificate. 0: none is
 * named. Without rows that are reread. rows may be NULL. */
uint64_t conf_files_print(const struct opt *rows, const void *self);

/* Can the file of such a row be read, and if it is secret, by its owner's friends alone?
 * -1: err says what to do. */
int conf_file_look(enum opt_type type, const char *path, struct err *err);

#endif
