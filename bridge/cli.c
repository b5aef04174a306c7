/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.c - the command line: a table of subcommands. A new one is one row and one
 * function.
 */
#include "bridge/cli.h"
#include "bridge/audit.h"
#include "bridge/buf.h"
#include "bridge/conf.h"
#include "bridge/conf_names.h"
#include "bridge/ctl.h"
#include "bridge/daemon.h"
#include "bridge/import_cli.h"
#include "bridge/plugins.h"
#include "bridge/version.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

struct command {
    const char *name;
    const char *also;                  /* the same as an option; NULL: none */
    const char *args;                  /* as the usage shows them; "": none */
    const char *help;                  /* NULL: not listed */
    int least, most;                   /* arguments after the name; most -1: any number */
    int (*run)(int argc, char **argv); /* argv[0] is the program, [1] the subcommand */
};

static int help(int argc, char **argv);

static int run(int argc, char **argv)
{
    (void)argc;
    return daemon_run(argv[2]);
}

static int check(int argc, char **argv)
{
    struct conf *conf = conf_open(argv[2]);

    (void)argc;
    if (conf == NULL)
        return EX_CONFIG;
    printf("%s: good; sources: %zu, sinks: %zu, routes: %zu\n", argv[2],
           conf->source_count, conf->sink_count, conf->route_count);
    conf_free(conf);
    return EX_OK;
}

static int options(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    conf_print_options(stdout);
    return EX_OK;
}

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("tarry " TARRY_VERSION);
    return EX_OK;
}

static const struct command commands[] = {
    {"run", NULL, "FILE", "run the daemon with this configuration, until SIGTERM", 1, 1,
     run},
    {"check", NULL, "FILE", "check a configuration and name every error in it", 1, 1,
     check},
    {"import", NULL, "TYPE ...",
     "take the jobs of another delay queue over; see import --help", 1, -1, import_main},
    {"audit", NULL, "FILE ...",
     "check that nothing is lost in Redis, while it runs; see audit --help", 1, -1,
     audit_main},
    {"cancel", NULL, "ROUTE ID", "take a job back before it is delivered", 1, -1,
     ctl_main},
    {"job", NULL, "ROUTE ID", "show where a job stands", 1, -1, ctl_main},
    {"dead", NULL, "WORD ...", "list, show, replay or drop dead letters; see dead --help",
     0, -1, ctl_main},
    {"targets", NULL, "ROUTE", "show the targets of a route and their states", 1, -1,
     ctl_main},
    {"go-on", NULL, "ROUTE TARGET", "deliver to a target again that was stopped", 1, -1,
     ctl_main},
    {"options", NULL, "", "list every option of a configuration", 0, 0, options},
    {"version", "--version", "", "print the version", 0, 0, version},
    {"help", "--help", "", "print this", 0, 0, help},
    {"worker", NULL, "NAME ...", NULL, 1, -1, plugins_worker},
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(*commands) };

static void usage(FILE *out)
{
    fputs("usage:\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].help != NULL)
            fprintf(out, "  tarry %-8s %-14s %s\n", commands[i].name, commands[i].args,
                    commands[i].help);
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("tarry " TARRY_VERSION
         " - takes messages that must be delivered later, and delivers them");
    usage(stdout);
    puts("exit codes: 0 good, 1 not there or too late, 64 used wrongly, 69 something it "
         "needs\n"
         "  is not there, 70 stopped by force, 78 bad configuration, 130 interrupted");
    return EX_OK;
}

static const struct command *command_named(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0 ||
            (commands[i].also != NULL && strcmp(commands[i].also, name) == 0))
            return &commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].help != NULL)
            conf_names_add(&names, commands[i].name);
    fprintf(stderr, "tarry: there is no command \"%.60s\"; %s\n", name,
            conf_names_hint(&names, name, hint));
    return EX_USAGE;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return EX_USAGE;
    }
    const struct command *command = command_named(argv[1]);
    if (command == NULL)
        return unknown(argv[1]);
    int given = argc - 2;
    if (given < command->least || (command->most >= 0 && given > command->most)) {
        fprintf(stderr, "usage: tarry %s %s\n", command->name, command->args);
        return EX_USAGE;
    }
    int code = command->run(argc, argv);
    if (code == EX_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        perror("tarry: standard output");
        return EX_IOERR;
    }
    return code;
}
