/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exporter.h - sends spans to a collector: OTLP over HTTP, as JSON. Loop thread.
 *
 * Spans are collected for up to 1 s, or until a batch is full. One request is open at a
 * time. If it fails, it is repeated with backoff. If EXPORTER_BATCHES batches wait, new
 * spans are dropped and counted.
 */
#ifndef BRIDGE_EXPORTER_H
#define BRIDGE_EXPORTER_H

#include <stdbool.h>

struct buf;
struct conf_otlp;
struct exporter;

enum { EXPORTER_BATCHES = 16, EXPORTER_BATCH_SPANS = 512 };

struct exporter *exporter_new(const struct conf_otlp *conf, const char *instance);
/* Applies a changed configuration to all batches that wait. */
void exporter_apply(struct exporter *e, const struct conf_otlp *conf);
/* flush: first sends the batches that wait, and blocks for at most 2 s, unless the last
 * request failed. */
void exporter_free(struct exporter *e, bool flush);

/* Returns where to append one span, as a JSON object; then call exporter_added(). NULL:
 * no room; the span counts as dropped. */
struct buf *exporter_room(struct exporter *e);
void exporter_added(struct exporter *e);

/* Appends its metrics. */
void exporter_print(const struct exporter *e, struct buf *out);

#endif
