/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *buf_room(struct buf *b, size_t n)
{
    if (b->p != NULL && b->cap - b->n >= n)
        return b->p + b->n;
    must(n < SIZE_MAX / 4 && b->n < SIZE_MAX / 4);
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->n < n)
        cap *= 2;
    b->p = mem_realloc(b->p, cap);
    b->cap = cap;
    return b->p + b->n;
}

void buf_grew(struct buf *b, size_t n)
{
    must(n <= b->cap - b->n);
    b->n += n;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    memcpy(buf_room(b, n), bytes, n);
    b->n += n;
}

void buf_add_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_slice(struct buf *b, struct slice s)
{
    buf_add(b, s.p, s.n);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    buf_room(b, 64); /* most texts are short and need only one vsnprintf() */
    int n = vsnprintf(b->p + b->n, b->cap - b->n, fmt, ap);
    va_end(ap);
    must(n >= 0);
    if ((size_t)n >= b->cap - b->n)
        vsnprintf(buf_room(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    b->n += (size_t)n;
}

void buf_drop(struct buf *b, size_t n)
{
    must(n <= b->n);
    b->n -= n;
    if (b->n > 0 && n > 0)
        memmove(b->p, b->p + n, b->n);
}

void buf_clear(struct buf *b)
{
    b->n = 0;
}

void buf_free(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}

const char *buf_str(struct buf *b)
{
    *buf_room(b, 1) = '\0';
    return b->p;
}

static int read_all(struct buf *b, int fd, size_t max_bytes, struct err *err)
{
    size_t start = b->n;

    for (;;) {
        ssize_t n = read(fd, buf_room(b, 4096), 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, "%s", strerror(errno));
        if (n == 0)
            break;
        buf_grew(b, (size_t)n);
        if (b->n - start > max_bytes)
            return err_set(err, "larger than %zu bytes", max_bytes);
    }
    if (b->n > start && memchr(b->p + start, '\0', b->n - start) != NULL)
        return err_set(err, "contains a NUL byte; is it a text file?");
    return 0;
}

int buf_add_file(struct buf *b, const char *path, size_t max_bytes, struct err *err)
{
    struct stat st;
    /* O_NONBLOCK: opening a named pipe without a writer would block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return err_set(err, "%s", strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, "not a regular file");
    }
    int rc = read_all(b, fd, max_bytes, err);
    close(fd);
    return rc;
}
