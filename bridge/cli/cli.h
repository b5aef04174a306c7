/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.h - the command line: a table of commands, a table of flags, and the parsed line.
 * Help and shell completion are generated from the tables, and the manual page from the
 * help.
 */
#ifndef BRIDGE_CLI_H
#define BRIDGE_CLI_H

#include "bridge/base/buf.h"
#include "bridge/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* Runs `tarry worker NAME ...`, the worker process that a plugin starts. Returns the exit
 * code; EX_USAGE if there is no worker of that name. Defined in bridge/plugins.c. */
int plugins_worker(int argc, char **argv);

/* Runs the command in argv. Returns its exit code, one of cli_codes. */
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
    bool human;            /* print tables; else JSON, and json is set */
    char *url, *token_file, *ca_file, *cert_file, *key_file;
    char *reason, *state, *queue, *from, *to, *id_prefix, *cursor, *rate;
    char *ahead, *after, *at, *id, *key, *topic, *source, *sample;
    char *route, *conf, *target, *timeout;
    struct opt_list headers, with; /* flags that may be repeated */
    bool all, dry_run, yes, group, json, table, payload, wait, connect, repair, delete,
        help, strict;
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
    CLI_REWINDS = 131072,
    CLI_WORDS = 262144, /* all arguments are plain words, also those with dashes */
    CLI_BULK = 524288,  /* changes one job or many */
    CLI_GROUPS = 1048576,
    CLI_SELECTS = 2097152, /* selects pending jobs to change */
    CLI_AHEADS = 4194304
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

/* Prints one line to standard error: the error, and how to see the usage. Returns
 * EX_USAGE. */
int cli_usage_error(const struct cli_args *o, const char *what, const char *arg);

/* Each returns an exit code. */
int cli_help(struct cli_args *o);
int cli_run(struct cli_args *o);
int cli_options(struct cli_args *o);
int cli_version(struct cli_args *o);
int cli_worker(struct cli_args *o);
/* Prints the completions of a command line: cli_complete.c. */
int cli_complete(struct cli_args *o);
int cli_check(struct cli_args *o);
int cli_audit(struct cli_args *o);
/* Returns 0: all jobs imported; 1: some jobs were skipped and remain in the original; 64:
 * wrong usage; 66: no data of the original found; 69: a Redis is not reachable; 78: wrong
 * configuration. */
int cli_import(struct cli_args *o);

/* --- ctl*.c: the operator's commands send requests to the HTTP API of a running daemon
 * (etc/openapi.yaml) and print the responses --- */

enum { CTL_TAP_WAIT_MS = 10000 }; /* length of one long poll */
#define CTL_URL_DEFAULT "http://127.0.0.1:7701"

/* --- ctl_http.c --- */
struct ctl_request {
    const char *method, *path;      /* path includes the query, percent-encoded */
    struct slice body;              /* p NULL: none */
    const struct opt_list *headers; /* "Name: value"; NULL: none */
    int64_t patience_ms;            /* added to the usual timeout */
};
/* Creates a client from the flags of o, which must outlive it. NULL: the flags are wrong;
 * the error was printed. */
struct ctl_http *ctl_http_new(const struct cli_args *o);
void ctl_http_free(struct ctl_http *h); /* NULL is allowed */
/* Returns the response. NULL: the error was printed, and *code is the exit code. */
json_t *ctl_http_request(struct ctl_http *h, const struct ctl_request *ask, int *code);
/* Like ctl_http_request(), with the method of the command and no body. Frees path. */
json_t *ctl_http_get(const struct cli_args *o, struct buf *path, int *code);
/* Sends GET path, for a response that is not JSON. *status: HTTP status; *text: borrowed
 * until the next call. Returns -1 if there is no response; *code is then the exit code.
 */
int ctl_http_text(struct ctl_http *h, const char *path, long *status, struct slice *text,
                  int *code);

/* Appends the path of the command with its arguments, and a query from the flags. */
void ctl_path_add(struct buf *out, const struct cli_args *o);
/* Appends ?key=value or &key=value; value NULL: nothing. */
void ctl_query_add(struct buf *out, const char *key, const char *value);

/* --- ctl_view.c: prints responses as tables or member by member --- */
/* Appends s with control characters escaped for a terminal: \t \n \\ \xNN. */
void ctl_text_add(struct buf *out, struct slice s);
/* Prints one value in ASCII. flags: for jansson, such as JSON_COMPACT for one line. */
void ctl_print_json(const json_t *v, size_t flags);
enum ctl_kind {
    CTL_TEXT,
    CTL_COUNT,
    CTL_ALARM, /* a count that should be 0 */
    CTL_BYTES,
    CTL_WHEN, /* ms since 1970, shown relative to now */
    CTL_SPAN, /* ms */
    CTL_STATE
};
struct ctl_column {
    const char *title, *member; /* member may be nested: "lateness.p50_ms" */
    enum ctl_kind kind;
};
struct ctl_view {
    const char *items;                /* the member that contains the items */
    const struct ctl_column *columns; /* ends with a row of zeros */
    size_t kept;      /* number of first columns shown on a narrow terminal; 0: all */
    const char *note; /* member that is printed below the table, for the items that have
                       * it, behind the first column; NULL: none */
};
/* Prints the items as a table, or as one line of JSON each. now_ms 0: the clock of this
 * host. */
void ctl_view_print(const struct cli_args *o, const struct ctl_view *view,
                    const json_t *items, int64_t now_ms);
/* Prints a whole response. */
void ctl_answer_print(const struct cli_args *o, const json_t *answer);
/* Appends a value in human-readable form. */
void ctl_value_add(struct buf *out, const json_t *v, enum ctl_kind kind, int64_t now_ms);
/* Returns the label for a value of ctl_value_add(), without the unit: "due" for "due_ms".
 */
struct slice ctl_name_shown(const char *name, const json_t *v);
/* Replaces the progress line on standard error, if that is a terminal. NULL: removes it.
 * */
void ctl_progress(const char *text);
extern const struct ctl_view ctl_view_routes, ctl_view_jobs, ctl_view_dead,
    ctl_view_targets, ctl_view_rewind, ctl_view_queues, ctl_view_groups;

/* --- ctl_list.c --- */
/* After this call, the first SIGINT only sets ctl_interrupted(). A second one ends the
 * program. */
void ctl_catch_interrupt(void);
bool ctl_interrupted(void);

int64_t ctl_mono_ms(void); /* monotonic */

/* Requests page after page. */
struct ctl_walk {
    struct cli_args *o;
    const char *did; /* verb of the sum, such as "replayed"; NULL: only list */
    int64_t left;    /* maximum of further items; -1: no limit */
    double rate;     /* items per second at most; 0: no limit */
    int64_t total;   /* as counted before; 0: not known */
    /* Handles a page; NULL: print its items. */
    void (*each)(struct ctl_walk *w, const json_t *answer);
    json_t *groups; /* for each() */
    bool limited;   /* left was set */
    int64_t done, refused, in_flight, skipped, looked;
    char *cursor; /* where to continue; NULL: finished */
};
/* Reads pages until the last, the limit or a signal. Returns an exit code. */
int ctl_walk(struct ctl_walk *w);
/* Appends the sum of the pages so far: "replayed 3, refused 0, examined 7". */
void ctl_walk_sum(const struct ctl_walk *w, struct buf *out);

/* --- the commands; each returns an exit code --- */
int ctl_request(struct cli_args *o); /* sends the request and prints the response */
int ctl_status(struct cli_args *o);
int ctl_ready(struct cli_args *o);
int ctl_routes(struct cli_args *o);
int ctl_ahead(struct cli_args *o);
/* Prints why counts of a response may be missing. code: the exit code so far. */
int ctl_complain_trouble(const json_t *answer, int code);
int ctl_rewind(struct cli_args *o);
int ctl_control(struct cli_args *o);
int ctl_list(struct cli_args *o);
int ctl_dead_list(struct cli_args *o);
int ctl_dead_replay(struct cli_args *o);
int ctl_dead_drop(struct cli_args *o);
int ctl_jobs_cancel(struct cli_args *o);
int ctl_jobs_now(struct cli_args *o);
int ctl_jobs_move(struct cli_args *o);
int ctl_queues_purge(struct cli_args *o);
int ctl_tap(struct cli_args *o);
int ctl_send(struct cli_args *o);
int ctl_explain(struct cli_args *o);

#endif
