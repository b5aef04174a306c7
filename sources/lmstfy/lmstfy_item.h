/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_item.h - a job as consume and peek show it.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_ITEM_H
#define SOURCES_LMSTFY_LMSTFY_ITEM_H

#include "sources/lmstfy/lmstfy_api.h"

/* Since it was published, by its id or its own time; -1: neither tells. */
int64_t lmstfy_elapsed_ms(const struct queue_job *found);
/* Appends {"attributes":...}; found->job must be there. msg: NULL: none. */
void lmstfy_item_show(struct buf *out, const struct queue_job *found, struct slice ns,
                      struct slice queue, unsigned remain_tries, const char *msg);
/* "namespace":"ns","queue":"q", */
void lmstfy_add_queue(struct buf *out, struct slice ns, struct slice queue);

#endif
