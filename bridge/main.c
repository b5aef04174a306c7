/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.c - the program's entry; apart from everything else, so that tests can link the
 * rest.
 */
#include "bridge/cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* The number of one that is closed would be given to a socket or a pipe of ours, which
 * then got our log lines. Opened the other way round: to write there fails as before. */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Whoever starts us may have blocked some, and SIGTERM would never arrive. */
static void unblock_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
    unblock_signals();
    fill_standard_descriptors();
    return cli_main(argc, argv);
}
