/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_import.h - moving over from lmstfy (bitleak/lmstfy): the layout of its Redis.
 *
 * Data and admin Redis may be two: then each is imported once. Whatever a Redis holds of
 * either is taken.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_IMPORT_H
#define SOURCES_LMSTFY_LMSTFY_IMPORT_H

#include "bridge/import/import.h"

#include "sources/lmstfy/lmstfy_api.h"

/* For source_ops.import. */
int lmstfy_import(struct source *src, void *self, struct import *im, struct err *err);

/* --- where an entry of a list or of the timer leads; pure --- */

struct lmstfy_place {
    struct slice ns, queue, id; /* borrowed */
    unsigned tries;             /* that are left */
};
/* <u16 tries><u16 length>ID, little-endian; sets id and tries. -1: it is none. */
int lmstfy_place_in_list(struct slice member, struct lmstfy_place *place);
/* <u16>NS<u16>QUEUE<u16 tries><u16>ID */
int lmstfy_place_in_timer(struct slice member, struct lmstfy_place *place);
/* PREFIX/NS/QUEUE, and /ID where with_id. */
int lmstfy_place_in_key(struct slice key, bool with_id, struct lmstfy_place *place);

#endif
