/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * match.h - topic filters as in MQTT: + is one level, # at the end is all that remain.
 *
 * "a/#" matches "a" as well; a filter that begins with a wildcard matches no topic that
 * begins with $. Pure. Any thread.
 */
#ifndef BRIDGE_MATCH_H
#define BRIDGE_MATCH_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>

enum { MATCH_CAPTURES_MAX = 9 };

/* -1: not a filter, and err says why. */
int match_filter_check(const char *filter, struct err *err);

/* How many wildcards a filter has; 0: it matches one topic. */
unsigned match_wildcards(const char *filter);

/* filter: one that match_filter_check() accepts. captures: MATCH_CAPTURES_MAX of them;
 * what each wildcard stood for, in order, borrowed from topic; further ones are not
 * noted. May be NULL, as may capture_count. */
bool match_topic(const char *filter, struct slice topic, struct slice *captures,
                 unsigned *capture_count);

#endif
