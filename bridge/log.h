/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h - one line per event on stderr: logfmt, UTC, with control characters escaped.
 *
 *   2026-01-31T12:00:00.123Z level=warn who=orders_in msg="broker away" try=3
 *
 * who: the source, sink, route or part of the daemon that speaks. No payload and no
 * secret is ever logged. Any thread.
 */
#ifndef BRIDGE_LOG_H
#define BRIDGE_LOG_H

#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level least);

/* fmt makes the text of msg="...". */
void log_msg(enum log_level level, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A complaint that may repeat: a zeroed one is ready. At most one line in period (10 s);
 * the next line says how many were left out. */
struct log_limit {
    int64_t next_ms;
    uint64_t left_out;
};
void log_limited(struct log_limit *limit, enum log_level level, const char *who,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#define log_debug(who, ...) log_msg(LOG_DEBUG, who, __VA_ARGS__)
#define log_info(who, ...) log_msg(LOG_INFO, who, __VA_ARGS__)
#define log_warn(who, ...) log_msg(LOG_WARN, who, __VA_ARGS__)
#define log_error(who, ...) log_msg(LOG_ERROR, who, __VA_ARGS__)

#endif
