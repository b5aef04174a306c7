/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_probe.h - for `tarry check --connect`: asks the brokers for topics, and waits for
 * the answer.
 */
#ifndef SOURCES_KAFKA_PROBE_H
#define SOURCES_KAFKA_PROBE_H

#include "bridge/base/buf.h"
#include "bridge/base/err.h"
#include "sources/kafka_link.h"

/* topics: n names; those that begin with ^ are not asked for. Blocks. */
int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err);

#endif
