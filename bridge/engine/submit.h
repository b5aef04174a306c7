/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit.h - submissions: from a source's job to a change of a bucket, and its answer.
 *
 * submit.c implements source_submit() of plugin.h; query.c source_find() and
 * source_cancel().
 */
#ifndef BRIDGE_ENGINE_SUBMIT_H
#define BRIDGE_ENGINE_SUBMIT_H

/* How long a producer that waits for an answer waits for Redis. */
enum { SUBMIT_ANSWER_MS = 8 * 1000 };

#endif
