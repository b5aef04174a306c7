/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - main(), in a file of its own so that tests can link the rest. */
#include "bridge/cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A closed standard descriptor's number would be reused for one of our sockets or pipes,
 * which would then receive log lines. Opened in the wrong direction on purpose: writing
 * to it still fails. */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* The parent process may have blocked signals; then SIGTERM would never arrive. */
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
