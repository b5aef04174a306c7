/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_scan.c - checks the text of a configuration and merges its includes before
 * libconfig parses it.
 *
 * It parses only enough to distinguish numbers from comments, strings and names, and to
 * follow @include. libconfig reports all other errors.
 */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/conf/conf_internal.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FILE_MAX_BYTES = 1024 * 1024,
    WHOLE_MAX_BYTES = 16 * 1024 * 1024,
    INCLUDES_MAX = 1000
};

/* --- the origin of lines --- */

struct conf_segment {
    int at, line;
    char *file;
};

/* Records that merged lines from `at` on (1-based) are lines of file from `line` on. file
 * NULL: the main file; copied. `at` must not decrease between calls. */
static void note_lines(struct conf_lines *lines, int at, const char *file, int line)
{
    lines->v = mem_realloc(lines->v, (lines->n + 1) * sizeof(*lines->v));
    lines->v[lines->n++] =
        (struct conf_segment){at, line, file ? mem_strdup(file) : NULL};
}

const char *conf_lines_find(const struct conf_lines *lines, int at, int *line)
{
    size_t low = 0, high = lines->n; /* binary search: the last segment that begins at
                                      * or before `at` */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(lines->v[middle].at <= at ? &low : &high) = middle;
    }
    *line = lines->n > 0 ? lines->v[low].line + at - lines->v[low].at : at;
    return lines->n > 0 ? lines->v[low].file : NULL;
}

void conf_lines_free(struct conf_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        free(lines->v[i].file);
    free(lines->v);
    *lines = (struct conf_lines){NULL, 0};
}

/* --- the text --- */

/* The merged text of all files. */
struct whole {
    struct buf *text;
    int lines_n; /* number of complete lines */
    struct conf_lines *lines;
    unsigned includes; /* files included so far */
};

struct scan {
    const char *p;    /* current position; the text ends with a NUL */
    const char *file; /* NULL: the main file */
    const char *real; /* its canonical path; NULL: unknown */
    int line;
    int broken_line; /* of the first string that contains a line break; 0: none */
    const char *dir;
    const char *given;        /* end of the text that is already in the merged text */
    const struct scan *outer; /* the including file; NULL: this is the main file */
    struct whole *whole;
    struct conf_errors *errors;
};

static void scan_text(struct scan *s);

/* At the end of the text: libconfig would report only the last line, and leak the
 * string. */
static void report_unclosed(const struct scan *s, const char *what, const char *end,
                            int line)
{
    conf_error(s->errors, s->file, line, "%s that begins here is not closed; add %s",
               what, end);
}

static void skip_block_comment(struct scan *s)
{
    int line = s->line;

    for (s->p += 2; *s->p != '\0'; s->p++) {
        s->line += *s->p == '\n';
        if (s->p[0] == '*' && s->p[1] == '/') {
            s->p += 2;
            return;
        }
    }
    report_unclosed(s, "a comment", "*/ at its end", line);
}

/* Returns false if the string has no end. Then the first string with a line break is the
 * one without a closing quote: it ends at the opening quote of the next. */
static bool skip_string(struct scan *s)
{
    int line = s->line;

    for (s->p++; *s->p != '\0'; s->p++) {
        if (*s->p == '"') {
            s->p++;
            if (s->line > line && s->broken_line == 0)
                s->broken_line = line;
            return true;
        }
        if (*s->p == '\\' && s->p[1] != '\0')
            s->p++;
        s->line += *s->p == '\n';
    }
    report_unclosed(s, "a string", "\" at its end",
                    s->broken_line > 0 ? s->broken_line : line);
    return false;
}

/* libconfig has 32 bits for an integer, and 64 for one with an L behind it. */
static void scan_number(struct scan *s)
{
    const char *start = s->p;
    bool negative = *s->p == '-';

    s->p += *s->p == '-' || *s->p == '+';
    const char *digits = s->p;
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    s->p += hex ? 2 : 0;
    while (hex ? isxdigit((unsigned char)*s->p) : isdigit((unsigned char)*s->p))
        s->p++;
    int length = s->p - start < 40 ? (int)(s->p - start) : 40;
    if (!hex && (*s->p == '.' || *s->p == 'e' || *s->p == 'E')) {
        s->p += strspn(s->p, "0123456789.eE+-");
        return;
    }
    bool is64 = *s->p == 'L';
    s->p += strspn(s->p, "L");
    errno = 0;
    unsigned long long n = strtoull(digits, NULL, hex ? 16 : 10);
    bool fits64 = errno == 0 && n <= (unsigned long long)LLONG_MAX + negative;
    if (!fits64)
        conf_error(s->errors, s->file, s->line, "the number %.*s is too large", length,
                   start);
    else if (!is64 && n > (unsigned long long)INT_MAX + negative)
        conf_error(s->errors, s->file, s->line,
                   "the number %.*s does not fit in 32 bits; append an L: %.*sL", length,
                   start, length, start);
}

/* real: canonical path of the file to include; NULL: it does not exist. */
static bool includes_itself(const struct scan *s, const char *real)
{
    for (; s != NULL; s = s->outer)
        if (real && s->real && strcmp(s->real, real) == 0)
            return true;
    return false;
}

/* Appends the text scanned since the last call to the merged text. */
static void add_text(struct scan *s)
{
    const char *from = s->given, *nl;
    for (; from < s->p && (nl = memchr(from, '\n', (size_t)(s->p - from))); from = nl + 1)
        s->whole->lines_n++;
    buf_add(s->whole->text, s->given, (size_t)(s->p - s->given));
    s->given = s->p;
}

/* Starts a new line in the merged text and records that it originates from the current
 * position of s. */
static void begin_segment(struct scan *s)
{
    struct buf *text = s->whole->text;
    if (text->n > 0 && text->p[text->n - 1] != '\n') {
        buf_add_str(text, "\n");
        s->whole->lines_n++;
    }
    note_lines(s->whole->lines, s->whole->lines_n + 1, s->file, s->line);
}

/* Reads and scans a file. s: its file, real, outer, whole and errors are set. */
static int scan_file(struct scan *s, const char *path, struct err *err)
{
    struct buf text = {0};
    char *dir = conf_dir_of(path);
    int rc = buf_add_file(&text, path, FILE_MAX_BYTES, err);

    if (rc == 0 && s->whole->text->n + text.n > WHOLE_MAX_BYTES)
        rc = err_set(err, "with it the configuration exceeds %d bytes", WHOLE_MAX_BYTES);
    if (rc == 0) {
        s->dir = dir;
        s->line = 1;
        s->given = s->p = buf_str(&text);
        begin_segment(s);
        scan_text(s);
        add_text(s);
    }
    text_wipe(&text);
    free(dir);
    return rc;
}

static void include_file(struct scan *outer, const char *path)
{
    char *real = realpath(path, NULL);
    struct scan s = {.file = path,
                     .real = real,
                     .outer = outer,
                     .whole = outer->whole,
                     .errors = outer->errors};
    struct err err;

    if (includes_itself(outer, real))
        conf_error(outer->errors, outer->file, outer->line, "%s includes itself", path);
    else if (++outer->whole->includes > INCLUDES_MAX)
        conf_error(outer->errors, outer->file, outer->line,
                   "too many includes; the maximum is %d", INCLUDES_MAX);
    else if (scan_file(&s, path, &err) != 0)
        conf_error(outer->errors, outer->file, outer->line,
                   "cannot include %s: %s; correct the path, or remove the @include",
                   path, err.text);
    free(real);
}

/* An unreadable folder is an error, not an empty folder. */
static int on_glob_error(const char *path, int error)
{
    (void)path;
    errno = error;
    return error != ENOENT;
}

/* The folder of a pattern may be empty, but it should exist. */
static void warn_if_absent(struct scan *s, const char *as_written)
{
    struct stat st;
    char *folder = conf_dir_of(as_written);
    if (s->errors->warnings != NULL && strpbrk(folder, "*?[") == NULL &&
        stat(folder, &st) != 0)
        conf_error(
            s->errors->warnings, s->file, s->line,
            "@include \"%s\" includes nothing: %s: %s; correct the path, or create "
            "the folder",
            as_written, folder, strerror(errno));
    free(folder);
}

/* Includes *.conf of a folder, or the files that match a pattern, in byte order of their
 * names. No match is no error. */
static void include_many(struct scan *s, const char *pattern, const char *as_written)
{
    glob_t found;
    int code = glob(pattern, 0, on_glob_error, &found);
    if (code != 0 && code != GLOB_NOMATCH)
        conf_error(s->errors, s->file, s->line, "cannot include %s: %s", as_written,
                   strerror(errno));
    if (code == GLOB_NOMATCH)
        warn_if_absent(s, as_written);
    for (size_t i = 0; code == 0 && i < found.gl_pathc; i++)
        include_file(s, found.gl_pathv[i]);
    globfree(&found);
}

/* Escapes text for glob(). */
static void add_literally(struct buf *pattern, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr("*?[\\", text[i]) != NULL)
            buf_add_str(pattern, "\\");
        buf_add(pattern, &text[i], 1);
    }
}

/* dir_n: length of our folder's path, not interpreted as a pattern; the rest is from the
 * file. */
static void include(struct scan *s, struct buf *path, size_t dir_n)
{
    struct stat st;
    struct buf pattern = {0};
    const char *text = buf_str(path);
    bool folder = stat(text, &st) == 0 && S_ISDIR(st.st_mode);
    add_literally(&pattern, text, folder ? path->n : dir_n);
    if (folder) {
        buf_add_str(&pattern, text[path->n - 1] == '/' ? "*.conf" : "/*.conf");
        include_many(s, buf_str(&pattern), text);
    } else if (strpbrk(text + dir_n, "*?[") != NULL) {
        buf_add_str(&pattern, text + dir_n);
        include_many(s, buf_str(&pattern), text);
    } else {
        include_file(s, text);
    }
    buf_free(&pattern);
}

/* Replaces @include with the content of the files. */
static void scan_include(struct scan *s)
{
    struct buf path = {0};

    add_text(s);
    s->p += strlen("@include");
    s->p += strspn(s->p, " \t");
    if (*s->p != '"') {
        conf_error(s->errors, s->file, s->line,
                   "the path after @include is not in quotes; write @include \"FILE\"");
        s->p += strcspn(s->p, "\n");
        return;
    }
    const char *name = s->p + 1;
    if (!skip_string(s))
        return;
    size_t n = (size_t)(s->p - name);
    if (*name != '/' && strcmp(s->dir, ".") != 0)
        buf_addf(&path, "%s/", s->dir);
    size_t dir_n = path.n;
    buf_add(&path, name, n - 1);
    s->given = s->p;
    include(s, &path, dir_n);
    begin_segment(s);
    buf_free(&path);
}

static void skip_name(struct scan *s)
{
    while (isalnum((unsigned char)*s->p) ||
           (*s->p != '\0' && strchr("-_*", *s->p) != NULL))
        s->p++;
}

static void scan_text(struct scan *s)
{
    while (*s->p != '\0') {
        char c = s->p[0], next = s->p[1];
        if (c == '#' || (c == '/' && next == '/'))
            s->p += strcspn(s->p, "\n");
        else if (c == '/' && next == '*')
            skip_block_comment(s);
        else if (c == '"')
            skip_string(s);
        else if (strncmp(s->p, "@include", 8) == 0)
            scan_include(s);
        else if (isalpha((unsigned char)c) || c == '*')
            skip_name(s);
        else if (isdigit((unsigned char)c) ||
                 ((c == '-' || c == '+') && isdigit((unsigned char)next)))
            scan_number(s);
        else if (c == '.' && isdigit((unsigned char)next))
            s->p += 1 + strspn(s->p + 1, "0123456789eE+-");
        else
            s->line += *s->p++ == '\n';
    }
}

char *conf_dir_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    if (slash == NULL)
        return mem_strdup(".");
    return mem_strndup(file, slash == file ? 1 : (size_t)(slash - file));
}

void conf_scan(const char *file, struct buf *text, struct conf_lines *lines,
               struct conf_errors *errors)
{
    char *real = realpath(file, NULL);
    struct whole whole = {.text = text, .lines = lines};
    struct scan s = {.real = real, .whole = &whole, .errors = errors};
    struct err err;

    if (scan_file(&s, file, &err) != 0)
        conf_error(errors, NULL, 0, "cannot read the file: %s", err.text);
    free(real);
}
