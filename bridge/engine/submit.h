/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submit.h - the way in: from a source's job to a change of a bucket, and its answer.
 *
 * Carries out source_submit(), source_find() and source_cancel() of
 * plugin.h.
 */
#ifndef BRIDGE_ENGINE_SUBMIT_H
#define BRIDGE_ENGINE_SUBMIT_H

/* How long a producer that waits for the answer is kept waiting for Redis. */
enum { SUBMIT_ANSWER_MS = 8 * 1000 };

#endif
