/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_main.c - the entry of a simulated core; what it would ask of the system: random
 * numbers, and the place for its log. The linker binds calls of core.so to these
 * functions (-Bsymbolic).
 */
#include "bridge/daemon/daemon.h"
#include "bridge/plugin.h"
#include "tests/sim/core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static int run(const char *conf_file)
{
    return daemon_run(conf_file);
}

struct sim_entry sim_entry = {.run = run};

ssize_t getrandom(void *to, size_t n, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = (unsigned char)(HOST->random(CORE) >> 8);
    return (ssize_t)n;
}

int rand(void)
{
    return (int)(HOST->random(CORE) % ((uint64_t)RAND_MAX + 1));
}

void srand(unsigned seed)
{
    (void)seed;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (fd != STDERR_FILENO || HOST == NULL)
        return syscall(SYS_write, fd, bytes, n);
    HOST->log(CORE, (struct slice){bytes, n});
    return (ssize_t)n;
}

void _exit(int code)
{
    HOST->exit(CORE, code);
    abort();
}
