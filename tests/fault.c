/* SPDX-License-Identifier: BSD-2-Clause */
/* fault.c - the fault points of `make faults`; see fault.h. */
#include "bridge/base/fault.h"
#include "bridge/base/mem.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUED_MAX = 1024 };

static struct {
    bool read;
    char point[8], how[8];
    int at; /* number of the pass that triggers; 0: none */
    atomic_int passed;
    const char *queued[QUEUED_MAX];
    int queued_count;
} fault;

static void read_once(void)
{
    const char *text = getenv("TARRY_FAULT");
    fault.read = true;
    if (text == NULL || text[0] == '\0')
        return;
    /* Abort on a mistyped value; otherwise the test would never reach its fault. */
    must(sscanf(text, "%7[A-Z0-9]:%7[a-z]:%d", fault.point, fault.how, &fault.at) == 3);
    must(fault.at > 0);
}

static void happen(void)
{
    static const char text[] = "fault: here it is\n";
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    if (strcmp(fault.how, "exit") == 0)
        _exit(1);
    if (strcmp(fault.how, "lose") != 0)
        kill(getpid(), strcmp(fault.how, "stop") == 0 ? SIGSTOP : SIGKILL);
}

bool fault_point(const char *name)
{
    if (!fault.read)
        read_once();
    if (name == NULL || fault.at == 0 || strcmp(name, fault.point) != 0 ||
        atomic_fetch_add(&fault.passed, 1) + 1 != fault.at)
        return false;
    happen();
    return true;
}

void fault_queued(const char *name)
{
    if (fault.queued_count < QUEUED_MAX)
        fault.queued[fault.queued_count++] = name;
}

void fault_written(void)
{
    for (int i = 0; i < fault.queued_count; i++)
        fault_point(fault.queued[i]);
    fault.queued_count = 0;
}
