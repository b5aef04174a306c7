/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.h - the command line: which subcommand runs, and its exit code (sysexits).
 */
#ifndef BRIDGE_CLI_H
#define BRIDGE_CLI_H

/* 0 good, 64 used wrongly, 74 the output could not be written, 78 bad configuration;
 * `run` gives what daemon_run() gives, the operator's commands what ctl_main() gives. */
int cli_main(int argc, char **argv);

#endif
