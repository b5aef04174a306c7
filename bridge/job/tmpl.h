/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tmpl.h - topic filters as routes match them, and templates of targets: "alerts/{1}",
 * "{header.reply-to}", "orders". Pure. Any thread.
 *
 * Fields: {topic} {key} {id} {route} {header.NAME}, and {1} to {9} for what the wildcards
 * of the route's match stood for; {{ and }} are braces. Compiled once, rendered per job.
 */
#ifndef BRIDGE_TMPL_H
#define BRIDGE_TMPL_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/job/job.h"

#include <stdbool.h>

/* Filters as in MQTT: + is one level, # at the end is all that remain. "a/#" matches "a"
 * as well; a filter that begins with a wildcard matches no topic that begins with $. */
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

struct tmpl;

/* Gives the template, or NULL with the reason: unknown field, stray brace, too long. */
struct tmpl *tmpl_compile(const char *text, struct err *err);
void tmpl_free(struct tmpl *t); /* NULL is fine */

/* Its targets are names of queues: these may hold control characters, but no NUL. */
void tmpl_names_queue(struct tmpl *t);
/* Appends the target. -1, and out is as it was: the job lacks a field that is named, or
 * the target would be empty, too long, or hold a control character. Values are put in as
 * they are: in a URL nothing is percent-encoded. */
int tmpl_render(const struct tmpl *t, const struct job *job, const struct slice *captures,
                unsigned capture_count, struct slice route_name, struct buf *out,
                struct err *err);

/* Has no field: always the same target, which may be empty. */
bool tmpl_is_constant(const struct tmpl *t);
/* Does it name {topic}, or each of that many captures? Then different topics make
 * different targets. */
bool tmpl_tells_topics(const struct tmpl *t, unsigned captures);
/* The text before its first field; empty where it begins with one. */
struct slice tmpl_prefix(const struct tmpl *t);

#endif
