/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h - one line per event on stderr, in UTC, as logfmt or JSON. Any thread.
 *
 *   ts=2026-01-31T12:00:00.123Z level=warn who=orders_in msg="broker away"
 *   ts=2026-01-31T12:00:00.124Z level=warn route=r job=o-17 err="HTTP 500" msg="given up"
 *
 * who: the source, the sink or the part of the daemon that speaks. No payload and no
 * secret is ever logged. Values are UTF-8 whatever they hold, control characters are
 * escaped as JSON has it, and long ones are cut.
 */
#ifndef BRIDGE_LOG_H
#define BRIDGE_LOG_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

void log_set_level(enum log_level least);
void log_set_format(enum log_format format);

const char *log_level_name(enum log_level level);
/* Lines written so far. */
uint64_t log_lines(enum log_level level);

/* fmt makes the text of msg="...". */
void log_msg(enum log_level level, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A complaint that may repeat: a zeroed one is ready. At most one line in period_ms (0:
 * 10 s); the next line says how many were left out: suppressed=N. */
struct log_limit {
    int64_t next_ms;
    uint64_t left_out;
    int64_t period_ms;
};
void log_limited(struct log_limit *limit, enum log_level level, const char *who,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* What a line is about, each a field of its own; what is not set is left out. */
struct log_about {
    const char *route, *source, *sink; /* names */
    struct slice job;                  /* its id */
    struct slice traceparent;          /* its header: trace_id is taken from it */
    unsigned attempt;                  /* from 1 */
    const char *err;                   /* what the other end, or a library, said */
    struct log_limit *limit;           /* NULL: it does not repeat */
};
void log_event(enum log_level level, const struct log_about *about, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(who, ...) log_msg(LOG_DEBUG, who, __VA_ARGS__)
#define log_info(who, ...) log_msg(LOG_INFO, who, __VA_ARGS__)
#define log_warn(who, ...) log_msg(LOG_WARN, who, __VA_ARGS__)
#define log_error(who, ...) log_msg(LOG_ERROR, who, __VA_ARGS__)

/* --- texts for people, without the secrets in them; pure --- */

/* Hides the password of scheme://user:password@host, the values of parameters and fields
 * whose name tells that they are secret (token=..., "password":"..."), headers of
 * authorization, bearer tokens and keys that are known by how they begin. */

/* Copies text with "***" for each secret in it, cut to size, and ends it with a NUL.
 * Gives out, which must not overlap text. */
const char *redact_text(char *out, size_t size, const char *text);

/* Does it hold anything that redact_text() would hide? */
bool redact_finds(const char *text);

/* Does the name of a setting, a header or a parameter say that its value is a secret? */
bool redact_is_secret_name(struct slice name);

#endif
