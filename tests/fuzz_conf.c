/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_conf.c - libFuzzer: any bytes as a configuration file. It is valid, or there is at
 * least one error. Each error contains the file's name and no control character.
 */
#include "bridge/conf/conf.h"
#include "tests/fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

static char file[] = "/tmp/tarry-fuzz-conf-XXXXXX/f.conf";

static void clean(void)
{
    unlink(file);
    *strrchr(file, '/') = '\0';
    rmdir(file);
}

/* A separate folder: included files do not exist, except the file itself. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char *slash = strrchr(file, '/');

    (void)argc;
    (void)argv;
    *slash = '\0';
    must(mkdtemp(file) != NULL);
    *slash = '/';
    return atexit(clean);
}

static void check_errors(struct slice text)
{
    must(text.n > 0 && text.p[text.n - 1] == '\n');
    for (size_t i = 0; i < text.n; i++)
        must((unsigned char)text.p[i] >= ' ' || text.p[i] == '\n');
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct buf errors = {0};
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
    struct conf *conf = conf_read(file, &errors);
    if (conf == NULL)
        check_errors(buf_slice(&errors));
    else
        must(errors.n == 0 && strcmp(conf->file, file) == 0);
    conf_free(conf);
    buf_free(&errors);
    return 0;
}
