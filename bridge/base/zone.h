/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zone.h - the clocks of a time zone of the system's tz database.
 *
 * A zone is read when it is first asked for and kept for the life of the process: a newer
 * database counts after a restart. Only zones that exist are kept. Loop thread.
 *
 * Clock time is written in seconds as if it were UTC: 3600 is 1970-01-01 01:00 on the
 * wall.
 */
#ifndef BRIDGE_ZONE_H
#define BRIDGE_ZONE_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdint.h>

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
