/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.h - the command line: a table of commands, a table of flags, and the parsed line.
 * Help is generated from the tables, and manual page and shell completion from the help.
 */
#ifndef BRIDGE_CLI_H
#define BRIDGE_CLI_H

#include "bridge/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_http;
struct ctl_view;

/* Runs `tarry worker NAME ...`, the worker process that a plugin starts. Returns the exit
 * code; EX_USAGE if there is no worker of that name. Defined in bridge/plugins.c. */
int plugins_worker(int argc, char **argv);

/* Runs the subcommand. Returns its exit code, one of cli_codes. */
int cli_main(int argc, char **argv);

enum { CLI_ARGS_MAX = 64, CLI_LIST_MAX = 64 };
enum { CLI_GONE = 1, CLI_INTERRUPTED = 130 }; /* exit codes in addition to sysexits */

/* A parsed command line. Its texts are borrowed from argv. A flag that was not set is
 * NULL, empty or 0. */
struct cli_args {
    const struct cli_command *command;
    const char *subcommand; /* second word of the command name; NULL: none */
    int argc;               /* the whole command line, for workers */
    char **argv;
    const char *arg[CLI_ARGS_MAX];
    unsigned arg_count;
    struct ctl_http *http; /* client of the daemon; NULL: the command does not use one */
    bool human;            /* print tables; else JSON */
    char *url, *token_file, *ca_file, *cert_file, *key_file;
    char *reason, *state, *queue, *from, *to, *id_prefix, *cursor, *rate;
    char *after, *at, *id, *key, *topic, *source, *sample;
    char *route, *conf;
    struct opt_list headers, with; /* flags that may be repeated */
    bool all, dry_run, json, table, payload, wait, connect, repair, delete, help;
    int64_t max;
};

struct cli_command {
    const char *name, *subcommand; /* subcommand: second word of the name; NULL: none */
    const char *arg_names;         /* the arguments, as the usage line shows them */
    const char *help;              /* NULL: not listed */
    unsigned min_args, max_args;   /* number of arguments */
    unsigned sets;                 /* sets of flags: bits of enum cli_set */
    int (*run)(struct cli_args *o);
    /* The HTTP request to the daemon. Each {} in path is replaced by the next argument.
     * method NULL: no request. */
    const char *method, *path;
    const struct ctl_view *view; /* table of the response; NULL: print each member */
    int64_t patience_ms;         /* added to the usual timeout */
    const char *more;            /* extra paragraph of the manual page; NULL: none */
};

enum cli_set {
    CLI_ASKS = 1,     /* needs a running daemon */
    CLI_SHOWS = 2,    /* prints a table or JSON */
    CLI_JOBS = 4,     /* selects jobs */
    CLI_DEAD = 8,     /* selects dead letters */
    CLI_MANY = 16,    /* reads several pages */
    CLI_CHANGES = 32, /* changes many jobs */
    CLI_REPLAYS = 64,
    CLI_MOVES = 128,
    CLI_WRITES = 256, /* sends a message */
    CLI_EXPLAINS = 512,
    CLI_TAPS = 1024,
    CLI_DRAINS = 2048,
    CLI_CHECKS = 4096,
    CLI_AUDITS = 8192,
    CLI_IMPORTS = 16384,
    CLI_QUEUED = 32768, /* a job that may be in a queue */
    CLI_ANY = 65536,    /* for a flag: every command accepts it */
    CLI_REWINDS = 131072
};

struct cli_flag {
    const char *name, *value; /* value: as the usage shows it; NULL: no value */
    enum opt_type type;       /* OPT_BOOL, OPT_STR, OPT_INT from 1, or OPT_LIST */
    size_t offset;            /* in struct cli_args */
    unsigned sets;            /* the commands of these sets accept it */
    const char *query;        /* query parameter of the request; NULL: none */
    const char *help;
};

struct cli_code { /* an exit code */
    int code;
    const char *help;
};

/* Each ends with a row of zeros. */
extern const struct cli_command cli_commands[];
extern const struct cli_flag cli_flags[];
extern const struct cli_code cli_codes[];

/* Prints an error and the usage to standard error. Returns EX_USAGE. */
int cli_usage_error(const struct cli_args *o, const char *what, const char *arg);

/* Each returns an exit code. */
int cli_help(struct cli_args *o);
int cli_run(struct cli_args *o);
int cli_options(struct cli_args *o);
int cli_version(struct cli_args *o);
int cli_worker(struct cli_args *o);
int cli_check(struct cli_args *o);
int cli_audit(struct cli_args *o);
/* Returns 0: all jobs imported; 1: some jobs were skipped and remain in the original; 64:
 * wrong usage; 66: no data of the original found; 69: a Redis is not reachable; 78: wrong
 * configuration. */
int cli_import(struct cli_args *o);

#endif
