/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clockshim.c - gives one process a wall clock of its own, for the fault tests.
 *
 *   LD_PRELOAD=clockshim.so CLOCKSHIM=FILE redis-server ...
 *
 * FILE contains one native int64_t: nanoseconds to add to the wall clock. It is mapped,
 * so the clock jumps as soon as a test writes to the file. The monotonic clock does not
 * change. As with a real jump, a wait for a point of the wall clock ends when that clock
 * shows it: the shim cuts waits into slices and reads the clock again after each one.
 *
 * libfaketime does not work here: it allocates before jemalloc is ready, and redis-server
 * hangs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_NS = 50 * 1000 * 1000 };
static const int64_t NS = 1000000000;
/* A time beyond this many seconds belongs to the wall clock: the other clocks start with
 * the machine. */
static const time_t WALL_FROM_S = 1000000000;

static const volatile int64_t none = 0;
static const volatile int64_t *offset_ns = &none;

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("CLOCKSHIM");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        offset_ns = p;
    close(fd);
}

static struct timespec at(int64_t ns)
{
    return (struct timespec){ns / NS, ns % NS};
}

static int64_t true_wall_ns(void)
{
    struct timespec t = {0, 0};
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *t = at(t->tv_sec * NS + t->tv_nsec + *offset_ns);
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    (void)zone;
    int64_t us = (true_wall_ns() + *offset_ns) / 1000;
    t->tv_sec = us / 1000000;
    t->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *t)
{
    time_t now = (time_t)((true_wall_ns() + *offset_ns) / NS);
    if (t)
        *t = now;
    return now;
}

int timespec_get(struct timespec *t, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

/* Return the end of the next slice of a wait until *end, by the true clock. *last: true
 * if that is the end of the wait. */
static struct timespec slice_end(const struct timespec *end, int *last)
{
    int64_t now_ns = true_wall_ns();
    int64_t end_ns = end->tv_sec * NS + end->tv_nsec - *offset_ns;
    *last = end_ns <= now_ns + SLICE_NS;
    return at(*last ? end_ns : now_ns + SLICE_NS);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict end)
{
    int rc, last = 0;
    if (end->tv_sec < WALL_FROM_S)
        return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, end);
    do {
        struct timespec t = slice_end(end, &last);
        rc = pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, &t);
    } while (rc == ETIMEDOUT && !last);
    return rc;
}

/* glibc's version calls its own pthread_cond_timedwait(). cnd_t and mtx_t are pthread
 * types. */
int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
                  const struct timespec *restrict end)
{
    int rc =
        pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, end);
    return rc == 0 ? thrd_success : rc == ETIMEDOUT ? thrd_timedout : thrd_error;
}

/* paho waits with this function. */
int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict end)
{
    int rc, last = 0;
    do {
        struct timespec t = slice_end(end, &last);
        rc = sem_clockwait(sem, CLOCK_REALTIME, &t);
    } while (rc != 0 && errno == ETIMEDOUT && !last);
    return rc;
}
