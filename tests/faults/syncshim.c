/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syncshim.c - logs what a power cut would have left of each file, for the fault tests.
 *
 *   LD_PRELOAD=syncshim.so SYNCSHIM=LOG redis-server ...
 *
 * Each successful fsync() and fdatasync() adds a line to LOG:
 *
 *   BEGAN_NS SIZE PATH
 *
 * the wall clock and the size of the file when the call began. Later writes may or may
 * not have reached the disk. A test that cuts the file to SIZE checks the worst case.
 * SYNCSHIM_SLOW_MS: each call lasts this long, as on a busy disk.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct moment {
    int64_t began_ns, size;
};

static struct moment begin(int fd)
{
    struct timespec t = {0, 0};
    struct stat st = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    if (fstat(fd, &st) != 0)
        st.st_size = -1;
    return (struct moment){t.tv_sec * INT64_C(1000000000) + t.tv_nsec, st.st_size};
}

/* One write() to a file opened for appending: lines of two threads do not mix. */
static void note(int fd, struct moment m)
{
    char link[32], path[PATH_MAX], line[PATH_MAX + 64];
    const char *name = getenv("SYNCSHIM");
    int log = name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (log < 0)
        return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    int len = snprintf(line, sizeof(line), "%lld %lld %s\n", (long long)m.began_ns,
                       (long long)m.size, path);
    if (write(log, line, (size_t)len) != len)
        abort(); /* because of a gap in the log, a test would blame Redis */
    close(log);
}

static int sync_by(long call, int fd)
{
    struct moment m = begin(fd);
    const char *slow = getenv("SYNCSHIM_SLOW_MS");
    const long slow_ms = slow ? strtol(slow, NULL, 10) : 0;
    nanosleep(&(struct timespec){slow_ms / 1000, slow_ms % 1000 * 1000000}, NULL);
    int rc = (int)syscall(call, fd);
    if (rc == 0)
        note(fd, m);
    return rc;
}

int fsync(int fd)
{
    return sync_by(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_by(SYS_fdatasync, fd);
}
