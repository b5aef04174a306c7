/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.c - parses a command line with the tables of cli_rows.c, and runs the command.
 */
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"
#include "bridge/base/version.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { HELP_COLUMN = 34, FLAG_COLUMN = 24, LINE_MAX = 80 };

/* --- help --- */

static const char *title_of(const struct cli_command *command, char *room, size_t size)
{
    snprintf(room, size, "tarry %s%s%s%s%s", command->name,
             command->subcommand ? " " : "",
             command->subcommand ? command->subcommand : "",
             *command->arg_names ? " " : "", command->arg_names);
    return room;
}

/* Print a title, and its help text from a column on, wrapped to several lines. */
static void print_entry(FILE *out, const char *title, int column, const char *help)
{
    int at = fprintf(out, "  %s", title);
    opt_print_help(help, at, column, (size_t)(LINE_MAX - column), out);
}

/* name NULL matches all commands; subcommand NULL matches all commands of that name. */
static bool matches(const struct cli_command *c, const char *name, const char *subcommand)
{
    return c->help && (name == NULL || strcmp(c->name, name) == 0) &&
           (subcommand == NULL ||
            (c->subcommand && strcmp(c->subcommand, subcommand) == 0));
}

static unsigned print_commands(const char *name, const char *subcommand, FILE *out)
{
    unsigned sets = 0;
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        char title[128];
        if (!matches(c, name, subcommand))
            continue;
        sets |= c->sets;
        print_entry(out, title_of(c, title, sizeof(title)), HELP_COLUMN, c->help);
        if (name && c->more)
            print_entry(out, "", HELP_COLUMN, c->more);
    }
    return sets;
}

static void print_flags(unsigned sets, FILE *out)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++) {
        char title[64];
        snprintf(title, sizeof(title), "%s %s", f->name, f->value ? f->value : "");
        if (f->sets & (sets | CLI_ANY))
            print_entry(out, title, FLAG_COLUMN, f->help);
    }
    print_entry(out, "--", FLAG_COLUMN, "the arguments after it are not options");
}

/* Print the help of one command, of all commands of a name (subcommand NULL), or of all.
 */
static void usage(const char *name, const char *subcommand, FILE *out)
{
    fputs("usage:\n", out);
    unsigned sets = print_commands(name, subcommand, out);
    if (name) {
        fputs("options:\n", out);
        print_flags(sets, out);
        return;
    }
    fputs("tarry COMMAND --help shows the options. Exit codes:\n", out);
    for (const struct cli_code *c = cli_codes; c->help; c++) {
        char title[8];
        snprintf(title, sizeof(title), "%d", c->code);
        print_entry(out, title, 7, c->help);
    }
}

int cli_help(struct cli_args *o)
{
    const char *name = o->arg_count > 0 ? o->arg[0] : NULL;
    const char *subcommand = o->arg_count > 1 ? o->arg[1] : NULL;
    for (const struct cli_command *c = cli_commands; name && c->name; c++)
        if (matches(c, name, subcommand)) {
            usage(name, subcommand, stdout);
            return EX_OK;
        }
    if (name)
        return cli_usage_error(o, "unknown command ", subcommand ? subcommand : name);
    puts("tarry " TARRY_VERSION
         " - accepts messages for later delivery, and delivers them");
    usage(NULL, NULL, stdout);
    return EX_OK;
}

int cli_usage_error(const struct cli_args *o, const char *what, const char *arg)
{
    struct buf text = {0};
    ctl_text_add(&text, slice_of(arg));
    fprintf(stderr, "tarry %s: %s%.200s\n", o->command->name, what, buf_str(&text));
    buf_free(&text);
    usage(o->command->name, o->subcommand, stderr);
    return EX_USAGE;
}

/* --- choice of the command --- */

/* With --help as subcommand any command of the name matches. */
static bool matches_subcommand(const struct cli_command *command, const char *subcommand)
{
    return command->subcommand == NULL ||
           (subcommand && (strcmp(command->subcommand, subcommand) == 0 ||
                           strcmp(subcommand, "--help") == 0));
}

/* Returns NULL if no command has this name and subcommand. */
static const struct cli_command *find_command(const char *name, const char *subcommand)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, name) == 0 && matches_subcommand(c, subcommand))
            return c;
    return NULL;
}

/* Returns NULL after printing an error. subcommand may be NULL or unknown. */
static const struct cli_command *choose(const char *name, const char *subcommand)
{
    const struct cli_command *command = find_command(name, subcommand);
    struct opt_names names = {0};
    struct cli_args of_name = {0};
    char hint[OPT_HINT_SIZE];
    if (command)
        return command;
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (strcmp(c->name, name) == 0)
            of_name.command = c;
        if (c->help && (c == cli_commands || strcmp(c->name, c[-1].name) != 0))
            opt_names_add(&names, c->name);
    }
    opt_hint(&names, name, hint);
    if (of_name.command)
        cli_usage_error(&of_name,
                        subcommand ? "unknown subcommand: " : "missing subcommand",
                        subcommand ? subcommand : "");
    else
        fprintf(stderr, "tarry: unknown command \"%.60s\"; %s\n", name, hint);
    return NULL;
}

/* --- flags and arguments --- */

/* An empty value is allowed: the daemon checks it. */
static struct opt row_of(const struct cli_flag *f)
{
    return (struct opt){f->name, f->type, f->offset, .min = 1, .optional = true};
}

static int parse_value(struct cli_args *o, const struct cli_flag *flag, const char *value)
{
    const struct opt row = row_of(flag);
    struct opt_list *list = (void *)((char *)o + flag->offset);
    char why[600];
    struct err err;

    if (row.type == OPT_LIST && list->n == CLI_LIST_MAX)
        return cli_usage_error(o, "too many of ", row.name);
    if (row.type == OPT_LIST) {
        opt_list_add(list, value);
        return EX_OK;
    }
    if (opt_set_text(&row, o, value, &err) == 0)
        return EX_OK;
    snprintf(why, sizeof(why), "%s %s", row.name, err.text);
    return cli_usage_error(o, why, "");
}

/* argv[0] is a flag. *taken: the number of arguments it used. */
static int parse_flag(struct cli_args *o, char **argv, int *taken)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++) {
        if (strcmp(argv[0], f->name) != 0 || !(f->sets & (o->command->sets | CLI_ANY)))
            continue;
        if (f->value == NULL)
            return parse_value(o, f, "true");
        *taken = 2;
        if (argv[1] == NULL)
            return cli_usage_error(o, "missing value after ", argv[0]);
        return parse_value(o, f, argv[1]);
    }
    return cli_usage_error(o, "unknown option: ", argv[0]);
}

static void free_flags(struct cli_args *o)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        opt_free((const struct opt[]){row_of(f), {0}}, o);
}

/* A payload may be empty; a route, id or file must not. */
static bool may_be_empty(const struct cli_args *o)
{
    return (o->command->sets & CLI_WRITES) && o->arg_count > 0;
}

/* argv starts after the name of the command, and ends with NULL. */
static int parse_args(struct cli_args *o, char **argv)
{
    bool flags_over = false; /* after "--": ids and targets may start with dashes */
    while (*argv) {
        int taken = 1, code = EX_OK;
        if (!flags_over && strcmp(*argv, "--") == 0)
            flags_over = true;
        else if (!flags_over && strncmp(*argv, "--", 2) == 0)
            code = parse_flag(o, argv, &taken);
        else if (o->arg_count < o->command->max_args && (**argv || may_be_empty(o)))
            o->arg[o->arg_count++] = *argv;
        else
            code = cli_usage_error(o, "unexpected or empty argument: ", *argv);
        if (code != EX_OK)
            return code;
        argv += taken;
    }
    return EX_OK;
}

static int run(struct cli_args *o)
{
    o->human = !o->json && (o->table || isatty(STDOUT_FILENO));
    if (!(o->command->sets & CLI_ASKS))
        return o->command->run(o);
    o->http = ctl_http_new(o);
    if (o->http == NULL)
        return EX_USAGE;
    int code = o->command->run(o);
    ctl_http_free(o->http);
    return code;
}

static int read_and_run(struct cli_args *o, char **args)
{
    int code = parse_args(o, args);
    if (code != EX_OK)
        return code;
    if (o->help) {
        usage(o->command->name, o->subcommand, stdout);
        return EX_OK;
    }
    if (o->arg_count < o->command->min_args)
        return cli_usage_error(o, "missing argument: ", o->command->arg_names);
    return run(o);
}

/* --- main --- */

/* Accept --version and --help as commands. */
static const char *name_of(const char *arg)
{
    return strcmp(arg, "--version") == 0 ? "version"
           : strcmp(arg, "--help") == 0  ? "help"
                                         : arg;
}

int cli_main(int argc, char **argv)
{
    struct cli_args o = {.argc = argc, .argv = argv};
    if (argc < 2) {
        usage(NULL, NULL, stderr);
        return EX_USAGE;
    }
    const char *name = name_of(argv[1]), *subcommand = argc > 2 ? argv[2] : NULL;
    o.command = choose(name, subcommand);
    if (o.command == NULL)
        return EX_USAGE;
    o.subcommand = matches(o.command, name, subcommand) ? subcommand : NULL;
    int code = read_and_run(&o, argv + (o.subcommand ? 3 : 2));
    free_flags(&o);
    if (code == EX_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        perror("tarry: standard output");
        return EX_IOERR;
    }
    return code;
}
