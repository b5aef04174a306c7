/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tmpl.h - topic filters of routes, and target templates: "alerts/{1}",
 * "{header.reply-to}", "orders". Pure. Any thread.
 *
 * Fields: {topic} {key} {id} {route} {header.NAME}, and {1} to {9} for the text that each
 * wildcard of the route's match captured; {{ and }} are literal braces. Compiled once,
 * rendered per job.
 */
#ifndef BRIDGE_TMPL_H
#define BRIDGE_TMPL_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/job/job.h"

#include <stdbool.h>

/* MQTT filters: + matches one level, # at the end all remaining levels. "a/#" also
 * matches "a". A filter that begins with a wildcard does not match topics that begin with
 * $. */
enum { MATCH_CAPTURES_MAX = 9 };

/* Checks the syntax. -1: err says what is wrong. */
int match_filter_check(const char *filter, struct err *err);

/* Returns the number of wildcards; 0: the filter matches exactly one topic. */
unsigned match_wildcards(const char *filter);

/* Returns whether filter matches all topics that the other filter matches. Both: checked
 * by match_filter_check(). */
bool match_covers(const char *filter, const char *other);

/* Returns whether filter matches topic. filter: checked by match_filter_check().
 * captures: MATCH_CAPTURES_MAX slices, set to the text of each wildcard in order,
 * borrowed from topic; further wildcards are ignored. captures and capture_count may be
 * NULL. */
bool match_topic(const char *filter, struct slice topic, struct slice *captures,
                 unsigned *capture_count);

struct tmpl;

/* Returns the template, or NULL with the reason: unknown field, stray brace, too long. */
struct tmpl *tmpl_compile(const char *text, struct err *err);
void tmpl_free(struct tmpl *t); /* NULL is allowed */

/* Marks targets as queue names, which may contain control characters, but no NUL. */
void tmpl_names_queue(struct tmpl *t);
/* Appends the target. -1: out is unchanged; the job lacks a field, or the target would be
 * empty, too long, or contain a control character. Values are not encoded, not even in a
 * URL. */
int tmpl_render(const struct tmpl *t, const struct job *job, const struct slice *captures,
                unsigned capture_count, struct slice route_name, struct buf *out,
                struct err *err);

/* Returns whether the template has no field. The target may be empty. */
bool tmpl_is_constant(const struct tmpl *t);
/* Returns whether it contains {topic}, or all of the first `captures` captures, so that
 * different topics have different targets. */
bool tmpl_separates_topics(const struct tmpl *t, unsigned captures);
/* Returns the text before the first field, possibly empty. */
struct slice tmpl_prefix(const struct tmpl *t);

#endif
