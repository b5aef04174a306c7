/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsan_threads.c - C11 threads implemented with POSIX threads, for the ThreadSanitizer
 * build.
 *
 * librdkafka uses threads.h, which ThreadSanitizer does not intercept. It crashes in a
 * thread that it does not know, and reports data protected by an unknown lock as a race.
 * glibc's types are the same.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "glibc's mutexes are one type");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t),
               "glibc's conditions are one type");
_Static_assert(sizeof(thrd_t) == sizeof(pthread_t), "glibc's threads are one type");

struct start {
    thrd_start_t run;
    void *arg;
};

static void *run(void *arg)
{
    const struct start start = *(struct start *)arg;

    free(arg);
    return (void *)(intptr_t)start.run(start.arg);
}

static int result(int code)
{
    return code == 0 ? thrd_success : code == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int thrd_create(thrd_t *thread, thrd_start_t func, void *arg)
{
    struct start *start = malloc(sizeof(*start));

    if (start == NULL)
        return thrd_nomem;
    *start = (struct start){func, arg};
    int code = result(pthread_create(thread, NULL, run, start));
    if (code != thrd_success)
        free(start);
    return code;
}

int thrd_join(thrd_t thread, int *answer)
{
    void *value;
    int code = result(pthread_join(thread, &value));

    if (answer)
        *answer = (int)(intptr_t)value;
    return code;
}

int mtx_init(mtx_t *m, int type)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    if (type & mtx_recursive)
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    return result(pthread_mutex_init((pthread_mutex_t *)m, &attr));
}

int mtx_lock(mtx_t *m)
{
    return result(pthread_mutex_lock((pthread_mutex_t *)m));
}

int mtx_unlock(mtx_t *m)
{
    return result(pthread_mutex_unlock((pthread_mutex_t *)m));
}

void mtx_destroy(mtx_t *m)
{
    pthread_mutex_destroy((pthread_mutex_t *)m);
}

int cnd_init(cnd_t *c)
{
    return result(pthread_cond_init((pthread_cond_t *)c, NULL));
}

int cnd_signal(cnd_t *c)
{
    return result(pthread_cond_signal((pthread_cond_t *)c));
}

int cnd_broadcast(cnd_t *c)
{
    return result(pthread_cond_broadcast((pthread_cond_t *)c));
}

int cnd_wait(cnd_t *c, mtx_t *m)
{
    return result(pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m));
}

int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m,
                  const struct timespec *restrict until)
{
    return result(
        pthread_cond_timedwait((pthread_cond_t *)c, (pthread_mutex_t *)m, until));
}

void cnd_destroy(cnd_t *c)
{
    pthread_cond_destroy((pthread_cond_t *)c);
}
