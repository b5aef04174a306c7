/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - main(), in a file of its own so that tests can link the rest. */
#include "bridge/cli/cli.h"

#include <fcntl.h>
#include <openssl/crypto.h>
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

/* A sink's thread that is stuck in a connect still uses OpenSSL when the process exits.
 * So OpenSSL must not free its data then. Only its first initialisation can say so. */
static void keep_openssl_until_the_end(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

int main(int argc, char **argv)
{
    keep_openssl_until_the_end();
    unblock_signals();
    fill_standard_descriptors();
    return cli_main(argc, argv);
}
