/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_import.h - moving over from camellia-delay-queue: the layout of its Redis.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_IMPORT_H
#define SOURCES_CAMELLIA_CAMELLIA_IMPORT_H

#include "bridge/import/import.h"

struct source;

/* For source_ops.import. */
int camellia_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
