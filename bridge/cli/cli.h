/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.h - the command line: a table of commands, a table of flags, and one parsed line.
 * The help, the manual page and the completion come from the tables.
 */
#ifndef BRIDGE_CLI_H
#define BRIDGE_CLI_H

#include "bridge/conf/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_http;
struct ctl_view;

/* `tarry worker NAME ...`: the worker process of a plugin, started by the plugin itself.
 * Gives the exit code; EX_USAGE if there is no such worker. In bridge/plugins.c. */
int plugins_worker(int argc, char **argv);

/* Runs the subcommand and gives its exit code: one of cli_codes. */
int cli_main(int argc, char **argv);

enum { CLI_PLACES_MAX = 64, CLI_LIST_MAX = 64 };
enum { CLI_GONE = 1, CLI_INTERRUPTED = 130 }; /* exit codes beside those of sysexits */

/* One command line. Words and places are borrowed from it; a flag that was not given is
 * NULL, empty or 0. */
struct cli_order {
    const struct cli_command *command;
    const char *word; /* the second one of its name; NULL: none was given */
    int argc;         /* whole, for workers */
    char **argv;
    const char *place[CLI_PLACES_MAX];
    unsigned place_count;
    struct ctl_http *http; /* the daemon; NULL: the command asks none */
    bool human;            /* tables for a person; else JSON */
    char *url, *token_file, *ca_file, *cert_file, *key_file;
    char *reason, *state, *queue, *from, *to, *id_prefix, *cursor, *rate;
    char *after, *at, *id, *key, *topic, *source, *sample;
    char *route, *conf;
    struct opt_list headers, with; /* of flags that may be given more than once */
    bool all, dry_run, json, table, payload, wait, connect, repair, delete, help;
    int64_t max;
};

struct cli_command {
    const char *name, *word; /* word: the second one; NULL: there is none */
    const char *places;      /* as the usage shows them */
    const char *help;        /* NULL: not listed */
    unsigned least, most;    /* of places */
    unsigned sets;           /* of flags, bits of enum cli_set */
    int (*run)(struct cli_order *o);
    /* What is asked of the daemon; {} stands for the places, in their order. method NULL:
     * nothing is. */
    const char *method, *path;
    const struct ctl_view *view; /* of the answer, as a table; NULL: member by member */
    int64_t patience_ms; /* beyond the usual, for an answer that may take longer */
    const char *more;    /* a paragraph for the manual; NULL: help says it all */
};

enum cli_set {
    CLI_ASKS = 1,     /* a running daemon */
    CLI_SHOWS = 2,    /* something, as a table or as JSON */
    CLI_JOBS = 4,     /* chooses jobs */
    CLI_DEAD = 8,     /* chooses dead letters */
    CLI_MANY = 16,    /* page after page */
    CLI_CHANGES = 32, /* many */
    CLI_REPLAYS = 64,
    CLI_MOVES = 128,
    CLI_WRITES = 256, /* a message */
    CLI_EXPLAINS = 512,
    CLI_TAPS = 1024,
    CLI_DRAINS = 2048,
    CLI_CHECKS = 4096,
    CLI_AUDITS = 8192,
    CLI_IMPORTS = 16384,
    CLI_QUEUED = 32768, /* a job, perhaps in a queue */
    CLI_ANY = 65536,    /* of a flag: every command takes it */
    CLI_REWINDS = 131072
};

struct cli_flag {
    const char *name, *value; /* value: as the usage shows it; NULL: it takes none */
    enum opt_type type;       /* OPT_BOOL, OPT_STR, OPT_INT from 1 on, or OPT_LIST: may be
                               * repeated */
    size_t offset;            /* in struct cli_order */
    unsigned sets;            /* whose commands take it */
    const char *query;        /* of the request; NULL: it is not a part of that */
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

/* Says on standard error what is wrong, and how it goes. Gives EX_USAGE. */
int cli_wrong(const struct cli_order *o, const char *what, const char *arg);

/* Each gives an exit code. */
int cli_help(struct cli_order *o);
int cli_doc(struct cli_order *o);
int cli_run(struct cli_order *o);
int cli_options(struct cli_order *o);
int cli_version(struct cli_order *o);
int cli_worker(struct cli_order *o);
int cli_check(struct cli_order *o);
int cli_audit(struct cli_order *o);
/* 0: all moved. 1: some jobs could not be moved and are still where they were. 64: used
 * wrongly. 66: nothing of the original is there. 69: a Redis is away. 78: configuration.
 */
int cli_import(struct cli_order *o);

#endif
