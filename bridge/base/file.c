/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, size_t max_bytes, struct buf *text, struct err *err)
{
    size_t start = text->n;

    for (;;) {
        ssize_t n = read(fd, buf_room(text, 4096), 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, "%s", strerror(errno));
        if (n == 0)
            break;
        buf_grew(text, (size_t)n);
        if (text->n - start > max_bytes)
            return err_set(err, "larger than %zu bytes", max_bytes);
    }
    if (text->n > start && memchr(text->p + start, '\0', text->n - start) != NULL)
        return err_set(err, "holds a NUL byte; is it a text file?");
    return 0;
}

int file_read(const char *path, size_t max_bytes, struct buf *text, struct err *err)
{
    struct stat st;
    /* Not blocking, or a named pipe without a writer would hold us up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return err_set(err, "%s", strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, "not a regular file");
    }
    int rc = read_all(fd, max_bytes, text, err);
    close(fd);
    return rc;
}
