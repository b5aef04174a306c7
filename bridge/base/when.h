/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * when.h - durations and instants, from text to milliseconds and back; time zones.
 *
 * Pure but for the zones: no clock, no locale. What is finer
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

/* --- zone.c: the clocks of the time zones in the system's tz database; loop thread ---
 */

/* A zone is read when it is first asked for and kept for the life of the process: a newer
 * database counts after a restart. Clock time is written in seconds as if it were UTC:
 * 3600 is 1970-01-01 01:00 on the wall. */
struct zone; /* NULL stands for UTC everywhere */

/* By its name, such as Europe/Berlin. Any bytes are fine; -1: there is no such zone. */
int zone_named(struct slice name, struct zone **out, struct err *err);
/* How far its clocks are ahead of UTC at an instant. */
int64_t zone_offset_s(const struct zone *zone, int64_t utc_s);
/* The first instant in (from_s, to_s] at which the offset is no longer that of from_s,
 * where the clocks are changed just once between the two. */
int64_t zone_change_s(const struct zone *zone, int64_t from_s, int64_t to_s);
/* The first instant at which its clocks show clock_s or more: in a gap its end, of a time
 * that comes twice the first. */
int64_t zone_reaches_s(const struct zone *zone, int64_t clock_s);

#endif
