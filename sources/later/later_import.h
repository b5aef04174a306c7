/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later_import.h - moving over from Later (btfak/later): its Redis layout.
 */
#ifndef SOURCES_LATER_LATER_IMPORT_H
#define SOURCES_LATER_LATER_IMPORT_H

#include "bridge/import/import.h"

struct source;

/* For source_ops.import. */
int later_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
