/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_import.h - moving over from delay-queue (ouqiang/delay-queue): the layout of
 * its Redis.
 */
#ifndef SOURCES_DELAYQUEUE_DELAYQUEUE_IMPORT_H
#define SOURCES_DELAYQUEUE_DELAYQUEUE_IMPORT_H

#include "bridge/import/import.h"

struct source;

/* For source_ops.import. */
int delayqueue_import(struct source *src, void *self, struct import *im, struct err *err);

/* A job's value. Texts are borrowed from bytes. -1: it is none. Pure. */
struct delayqueue_value {
    struct slice topic, id, body;
    int64_t due_s, ttr_s;
};
int delayqueue_value_read(struct slice bytes, struct delayqueue_value *out);

#endif
