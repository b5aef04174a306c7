/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heapshim.c - writes twice a second how many bytes of a process' heap are in use.
 *
 *   LD_PRELOAD=heapshim.so HEAPSHIM=FILE tarry ...
 *
 * FILE.PID contains the number, in one line. Resident memory does not show a leak: glibc
 * keeps freed memory, so resident memory rises to the size of the largest backlog and
 * stays there.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVERY_US = 500 * 1000 };

static void *tell(void *file)
{
    for (;;) {
        struct mallinfo2 of_all = mallinfo2();
        rewind(file); /* fixed width: a reader never sees a part of it */
        fprintf(file, "%020zu\n", of_all.uordblks + of_all.hblkhd);
        fflush(file);
        usleep(EVERY_US);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    const char *to = getenv("HEAPSHIM");
    char path[4096];
    pthread_t thread;
    if (to == NULL)
        return;
    snprintf(path, sizeof(path), "%s.%d", to, getpid());
    FILE *file = fopen(path, "we");
    if (file == NULL || pthread_create(&thread, NULL, tell, file) != 0)
        abort(); /* without a measurement the test would pass */
    pthread_detach(thread);
}
