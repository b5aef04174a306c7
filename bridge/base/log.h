/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h - one line per event on stderr, in UTC, as logfmt or JSON. Any thread.
 *
 *   ts=2026-01-31T12:00:00.123Z level=warn who=orders_in msg="broker unreachable"
 *   ts=2026-01-31T12:00:00.124Z level=warn route=r job=o-17 err="HTTP 500" msg="dead
 * letter"
 *
 * who: the source, the sink or the part of the daemon that logs. Payloads and secrets are
 * never logged. Values are valid UTF-8, control characters are escaped as in JSON, and
 * long values are truncated.
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
/* Returns the number of lines written at this level. */
uint64_t log_lines(enum log_level level);

/* fmt is the text of msg="...". */
void log_msg(enum log_level level, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Limits a message that may repeat; zeroed is valid. Writes at most one line in period_ms
 * (0: 10 s). The next line contains the count of suppressed lines: suppressed=N. */
struct log_limit {
    int64_t next_ms;
    uint64_t suppressed;
    int64_t period_ms;
};
void log_limited(struct log_limit *limit, enum log_level level, const char *who,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The fields of a line. Unset fields are omitted. */
struct log_about {
    const char *route, *source, *sink; /* names */
    struct slice job;                  /* job id */
    struct slice traceparent;          /* its header; source of trace_id */
    unsigned attempt;                  /* from 1 */
    const char *err;                   /* error text of the remote end or of a library */
    struct log_limit *limit;           /* NULL: not limited */
};
void log_event(enum log_level level, const struct log_about *about, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(who, ...) log_msg(LOG_DEBUG, who, __VA_ARGS__)
#define log_info(who, ...) log_msg(LOG_INFO, who, __VA_ARGS__)
#define log_warn(who, ...) log_msg(LOG_WARN, who, __VA_ARGS__)
#define log_error(who, ...) log_msg(LOG_ERROR, who, __VA_ARGS__)

/* --- redacts secrets in texts for people; pure --- */

/* Redaction hides the password of scheme://user:password@host, the values of parameters
 * and fields with a secret's name (token=..., "password":"..."), authorization headers,
 * bearer tokens and keys with a known prefix. */

/* Copies text with "***" in place of each secret, truncated to size with its NUL. Returns
 * out, which must not overlap text. */
const char *redact_text(char *out, size_t size, const char *text);

/* Returns whether redact_text() would hide anything in text. */
bool redact_finds(const char *text);

/* Returns whether a setting, header or parameter of this name contains a secret. */
bool redact_is_secret_name(struct slice name);

#endif
