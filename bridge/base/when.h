/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * when.h - durations and instants, from text to milliseconds and back.
 *
 * Pure: no clock, no locale, no time zones but the offset written down. What is finer
 * than a millisecond is rounded up, so that nothing falls due early. The reasons do not
 * quote the text: the caller knows best how to show it. Any thread.
 */
#ifndef BRIDGE_WHEN_H
#define BRIDGE_WHEN_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdint.h>

/* What a bare integer means as a duration. */
enum when_unit { WHEN_NO_UNIT, WHEN_MS, WHEN_S };

/* 9999-12-31T23:59:59.999Z: no instant lies later; exact in Redis' scores, too. */
#define WHEN_LAST_MS INT64_C(253402300799999)
enum { WHEN_TEXT_BYTES = 32 }; /* room for an instant as text */

/* "1500ms" "30s" "1h30m" "1.5s" "7d" "1w", units from large to small and each once; or
 * ISO 8601 without years and months: "PT5M" "P1DT12H" "P2W". -1: not one, negative, or
 * too long; *ms is as it was. */
int when_duration_ms(struct slice text, enum when_unit bare, int64_t *ms,
                     struct err *err);

/* RFC 3339 with an offset, or an integer since 1970: ms from 10^12 on, else seconds.
 * *ms is negative for a date before 1970. -1: not one, or after WHEN_LAST_MS. */
int when_instant_ms(struct slice text, int64_t *ms, struct err *err);

/* "2026-01-31T12:00:00.123Z". Beyond the years 0000 to 9999: the nearest in them. */
void when_format_rfc3339(int64_t ms, char out[WHEN_TEXT_BYTES]);

#endif
