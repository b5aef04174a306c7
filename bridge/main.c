/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.c - the program's entry; apart from everything else, so that tests can link the
 * rest.
 */
#include "bridge/cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
