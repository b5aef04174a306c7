/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.c - one write per line, so that lines of several threads never mix. Any thread.
 *
 * Under journald (JOURNAL_STREAM names our stderr) each line begins with its priority.
 */
#include "bridge/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048, TEXT_MAX_BYTES = 1024, LIMIT_PERIOD_MS = 10000 };

static const struct {
    const char *name;
    char priority; /* of syslog */
} levels[] = {
    [LOG_DEBUG] = {"debug", '7'},
    [LOG_INFO] = {"info", '6'},
    [LOG_WARN] = {"warn", '4'},
    [LOG_ERROR] = {"error", '3'},
};

static atomic_int least_level = LOG_INFO;
static atomic_bool journal;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
};

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

/* Keeps room for the closing quote and the newline. */
static void add(struct line *line, const char *bytes, size_t n)
{
    size_t most = sizeof(line->text) - 2;
    size_t room = line->n < most ? most - line->n : 0;
    n = n < room ? n : room;
    memcpy(line->text + line->n, bytes, n);
    line->n += n;
}

static void add_escaped(struct line *line, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        char hex[8];
        if (c == '"' || c == '\\')
            add(line, (const char[]){'\\', *s}, 2);
        else if (c == '\n')
            add(line, "\\n", 2);
        else if (c < 0x20 || c == 0x7f)
            add(line, hex, (size_t)snprintf(hex, sizeof(hex), "\\x%02x", c));
        else
            add(line, s, 1);
    }
}

static bool is_plain(const char *s)
{
    if (*s == '\0')
        return false;
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || *s == '"' || *s == '=' || *s == '\\' ||
            *s == 0x7f)
            return false;
    return true;
}

static void add_quoted(struct line *line, const char *s)
{
    add(line, "\"", 1);
    add_escaped(line, s);
    line->text[line->n++] = '"';
}

static void add_time(struct line *line)
{
    struct timespec now;
    struct tm tm;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(text + n, sizeof(text) - n, ".%03ldZ", now.tv_nsec / 1000000);
    add(line, text, n);
}

static void put(enum log_level level, const char *who, const char *text)
{
    struct line line = {.n = 0};
    pthread_once(&looked, find_journal);
    if (journal)
        add(&line, (const char[]){'<', levels[level].priority, '>'}, 3);
    add_time(&line);
    add(&line, " level=", 7);
    add(&line, levels[level].name, strlen(levels[level].name));
    add(&line, " who=", 5);
    char name[129];
    snprintf(name, sizeof(name), "%s", who);
    if (is_plain(name))
        add(&line, name, strlen(name));
    else
        add_quoted(&line, name);
    add(&line, " msg=", 5);
    add_quoted(&line, text);
    line.text[line.n++] = '\n';
    /* Nothing to do about a failure, but not to die of it. */
    ssize_t written = write(STDERR_FILENO, line.text, line.n);
    (void)written;
}

void log_msg(enum log_level level, const char *who, const char *fmt, ...)
{
    if ((int)level < least_level)
        return;
    char text[TEXT_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put(level, who, text);
}

static int64_t mono_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void log_limited(struct log_limit *limit, enum log_level level, const char *who,
                 const char *fmt, ...)
{
    if ((int)level < least_level)
        return;
    int64_t now_ms = mono_ms();
    pthread_mutex_lock(&limit_lock);
    bool quiet = limit->next_ms != 0 && now_ms < limit->next_ms;
    uint64_t left_out = quiet ? 0 : limit->left_out;
    limit->left_out = quiet ? limit->left_out + 1 : 0;
    limit->next_ms = quiet ? limit->next_ms : now_ms + LIMIT_PERIOD_MS;
    pthread_mutex_unlock(&limit_lock);
    if (quiet)
        return;

    char text[TEXT_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (left_out && n >= 0) {
        size_t at = (size_t)n < sizeof(text) - 48 ? (size_t)n : sizeof(text) - 48;
        snprintf(text + at, sizeof(text) - at, " (and %llu like it left out)",
                 (unsigned long long)left_out);
    }
    put(level, who, text);
}
