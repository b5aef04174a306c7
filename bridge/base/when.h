/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * when.h - converts durations and instants between text and milliseconds; time zones.
 *
 * Pure except for the zones: no clock, no locale. Fractions of a millisecond are rounded
 * up, so that nothing is due early. Error texts do not quote the input: the caller shows
 * it. Any thread.
 */
#ifndef BRIDGE_WHEN_H
#define BRIDGE_WHEN_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdint.h>

/* The unit of a duration that is a bare integer. */
enum when_unit { WHEN_NO_UNIT, WHEN_MS, WHEN_S };

/* 9999-12-31T23:59:59.999Z, the last valid instant; exact as a Redis score. */
#define WHEN_LAST_MS INT64_C(253402300799999)
enum { WHEN_TEXT_BYTES = 32 }; /* buffer size for an instant as text */

/* Parses "1500ms" "30s" "1h30m" "1.5s" "7d" "1w" (units from large to small, each once)
 * or ISO 8601 without years and months: "PT5M" "P1DT12H" "P2W". -1: invalid, negative, or
 * too long; *ms is unchanged. */
int when_duration_ms(struct slice text, enum when_unit bare, int64_t *ms,
                     struct err *err);

/* Parses RFC 3339 with an offset, or an integer since 1970: ms from 10^12 on, else
 * seconds. *ms is negative before 1970. -1: invalid, or after WHEN_LAST_MS. */
int when_instant_ms(struct slice text, int64_t *ms, struct err *err);

/* Writes "2026-01-31T12:00:00.123Z". Clamps to the years 0000 to 9999. */
void when_format_rfc3339(int64_t ms, char out[WHEN_TEXT_BYTES]);

/* --- zone.c: local time by the system's tz database; loop thread --- */

/* A zone is loaded at its first use and kept until the process ends; a new database
 * counts after a restart. Local time is in seconds as if it were UTC: 3600 is 1970-01-01
 * 01:00 local time. */
struct zone; /* NULL means UTC */

/* Looks a zone up by name, such as Europe/Berlin. Safe for untrusted bytes. -1: unknown
 * zone. */
int zone_named(struct slice name, struct zone **out, struct err *err);
/* Returns the zone's offset from UTC at an instant, in seconds. */
int64_t zone_offset_s(const struct zone *zone, int64_t utc_s);
/* Returns the first instant in (from_s, to_s] whose offset differs from that at from_s.
 * The interval must contain exactly one change. */
int64_t zone_change_s(const struct zone *zone, int64_t from_s, int64_t to_s);
/* Returns the first instant at which local time is clock_s or later: for a skipped time
 * the end of the gap, for a repeated time the first occurrence. */
int64_t zone_reaches_s(const struct zone *zone, int64_t clock_s);

#endif
