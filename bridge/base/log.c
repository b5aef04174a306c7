/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.c - one write() per line, so that lines of several threads never mix.
 *
 * Under journald (if JOURNAL_STREAM names our stderr) each line begins with its priority.
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUE_MAX_BYTES = 256, TEXT_MAX_BYTES = 1024, LIMIT_PERIOD_MS = 10000 };

static const struct {
    const char *name;
    char priority; /* syslog priority */
} levels[] = {
    [LOG_DEBUG] = {"debug", '7'},
    [LOG_INFO] = {"info", '6'},
    [LOG_WARN] = {"warn", '4'},
    [LOG_ERROR] = {"error", '3'},
};

static atomic_int least_level = LOG_INFO;
static atomic_bool json, journal;
static atomic_ullong lines[LOG_ERROR + 1];
static pthread_once_t journal_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

static void find_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char ours[64];
    if (stream == NULL || fstat(STDERR_FILENO, &st) != 0)
        return;
    snprintf(ours, sizeof(ours), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    journal = strcmp(stream, ours) == 0;
}

void log_set_level(enum log_level least)
{
    least_level = (int)least;
}

void log_set_format(enum log_format format)
{
    json = format == LOG_JSON;
}

const char *log_level_name(enum log_level level)
{
    return levels[level].name;
}

uint64_t log_lines(enum log_level level)
{
    return lines[level];
}

/* --- a line --- */

/* Returns whether s needs no quotes in logfmt. */
static bool is_plain(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f || strchr("\"=\\", s.p[i]))
            return false;
    return s.n > 0;
}

static void add_key(struct buf *line, const char *key)
{
    buf_addf(line, json ? ",\"%s\":" : " %s=", key);
}

static void add_text(struct buf *line, const char *key, struct slice value, size_t most)
{
    value.n = value.n < most ? value.n : most;
    add_key(line, key);
    if (!json && is_plain(value))
        buf_add_slice(line, value);
    else
        text_add_json(line, value);
}

static void add_value(struct buf *line, const char *key, struct slice value)
{
    if (value.n > 0)
        add_text(line, key, value, VALUE_MAX_BYTES);
}

static void add_name(struct buf *line, const char *key, const char *value)
{
    add_value(line, key, slice_of(value ? value : ""));
}

static void add_number(struct buf *line, const char *key, uint64_t value)
{
    if (value == 0)
        return;
    add_key(line, key);
    text_add_decimal(line, (int64_t)value);
}

static void add_redacted(struct buf *line, const char *key, const char *text)
{
    char shown[TEXT_MAX_BYTES];
    redact_text(shown, sizeof(shown), text);
    add_text(line, key, slice_of(shown), sizeof(shown));
}

/* Every line begins with the time. */
static void add_time(struct buf *line)
{
    char text[WHEN_TEXT_BYTES];
    when_format_rfc3339(loop_wall_ms(), text);
    buf_addf(line, json ? "{\"ts\":\"%s\"" : "ts=%s", text);
}

/* Returns the second part of
 * "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". */
static struct slice trace_id(struct slice traceparent)
{
    enum { AT = 3, DIGITS = 32 };
    if (traceparent.n < AT + DIGITS)
        return (struct slice){NULL, 0};
    struct slice id = {traceparent.p + AT, DIGITS};
    for (size_t i = 0; i < id.n; i++)
        if (!isxdigit((unsigned char)id.p[i]))
            return (struct slice){NULL, 0};
    return id;
}

static void write_line(enum log_level level, const char *who,
                       const struct log_about *about, uint64_t suppressed,
                       const char *text)
{
    struct buf line = {0};
    pthread_once(&journal_once, find_journal);
    if (journal)
        buf_addf(&line, "<%c>", levels[level].priority);
    add_time(&line);
    add_name(&line, "level", levels[level].name);
    add_name(&line, "who", who);
    add_name(&line, "route", about->route);
    add_name(&line, "source", about->source);
    add_name(&line, "sink", about->sink);
    add_value(&line, "job", about->job);
    add_value(&line, "trace_id", trace_id(about->traceparent));
    add_number(&line, "attempt", about->attempt);
    if (about->err && *about->err)
        add_redacted(&line, "err", about->err);
    add_number(&line, "suppressed", suppressed);
    add_redacted(&line, "msg", text);
    buf_add_str(&line, json ? "}\n" : "\n");
    lines[level]++;
    /* A failed write cannot be reported anywhere; the daemon continues. */
    ssize_t written = write(STDERR_FILENO, line.p, line.n);
    (void)written;
    buf_free(&line);
}

/* --- rate limits --- */

/* Returns false if the line must be suppressed, and counts that. */
static bool is_due(struct log_limit *limit, uint64_t *suppressed)
{
    int64_t now_ms = loop_mono_ms();
    pthread_mutex_lock(&limit_lock);
    bool quiet = limit->next_ms != 0 && now_ms < limit->next_ms;
    *suppressed = quiet ? 0 : limit->suppressed;
    limit->suppressed = quiet ? limit->suppressed + 1 : 0;
    if (!quiet)
        limit->next_ms =
            now_ms + (limit->period_ms > 0 ? limit->period_ms : LIMIT_PERIOD_MS);
    pthread_mutex_unlock(&limit_lock);
    return !quiet;
}

__attribute__((format(printf, 4, 0))) static void log_va(enum log_level level,
                                                         const char *who,
                                                         const struct log_about *about,
                                                         const char *fmt, va_list args)
{
    uint64_t suppressed = 0;
    char text[TEXT_MAX_BYTES];
    if ((int)level < least_level)
        return;
    if (about->limit && !is_due(about->limit, &suppressed))
        return;
    vsnprintf(text, sizeof(text), fmt, args);
    write_line(level, who, about, suppressed, text);
}

void log_msg(enum log_level level, const char *who, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    log_va(level, who, &(const struct log_about){0}, fmt, args);
    va_end(args);
}

void log_limited(struct log_limit *limit, enum log_level level, const char *who,
                 const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    log_va(level, who, &(const struct log_about){.limit = limit}, fmt, args);
    va_end(args);
}

void log_event(enum log_level level, const struct log_about *about, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    log_va(level, NULL, about, fmt, args);
    va_end(args);
}
