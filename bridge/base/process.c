/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* One line of a file in /proc. -1: there is none. */
static int read_line(const char *path, char *line, size_t size)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return -1;
    int rc = fgets(line, (int)size, f) ? 0 : -1;
    fclose(f);
    return rc;
}

/* Field 22 of /proc/self/stat: ticks since the machine came up. The name before it, in
 * parentheses, may hold anything. */
static double start_s(void)
{
    char line[1024];
    unsigned long long ticks = 0;
    struct timespec now, up;
    if (read_line("/proc/self/stat", line, sizeof(line)) < 0)
        return 0;
    const char *p = strrchr(line, ')');
    if (p == NULL || sscanf(p + 1,
                            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                            "%*d %*d %*d %*d %*d %llu",
                            &ticks) != 1)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &up);
    return (double)(now.tv_sec - up.tv_sec) + (double)(now.tv_nsec - up.tv_nsec) / 1e9 +
           (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static int64_t count_fds(void)
{
    int64_t n = -3; /* ".", ".." and the one that reads them */
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

void process_look(struct process *p)
{
    static double begun_s; /* it does not change: not even when the clock is set */
    struct rusage usage;
    struct rlimit limit;
    char line[128];
    long long pages = 0, resident = 0;
    *p = (struct process){.fds_max = -1};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        p->cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (begun_s == 0)
        begun_s = start_s();
    p->start_s = begun_s;
    if (read_line("/proc/self/statm", line, sizeof(line)) == 0 &&
        sscanf(line, "%lld %lld", &pages, &resident) == 2) {
        p->virtual_bytes = pages * sysconf(_SC_PAGESIZE);
        p->resident_bytes = resident * sysconf(_SC_PAGESIZE);
    }
    p->fds = count_fds();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        p->fds_max = (int64_t)limit.rlim_cur;
}
