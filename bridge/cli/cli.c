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

/* --- errors --- */

/* Print one line: what, arg, and the hint. */
static int hinted_error(const struct cli_args *o, const char *what, const char *arg,
                        const char *hint)
{
    struct buf text = {0};
    ctl_text_add(&text, slice_of(arg));
    fprintf(stderr, "tarry %s%s%s: %s%.200s; %s\n", o->command->name,
            o->subcommand ? " " : "", o->subcommand ? o->subcommand : "", what,
            buf_str(&text), hint);
    buf_free(&text);
    return EX_USAGE;
}

int cli_usage_error(const struct cli_args *o, const char *what, const char *arg)
{
    char hint[OPT_HINT_SIZE];
    snprintf(hint, sizeof(hint), "see: tarry %s%s%s --help", o->command->name,
             o->subcommand ? " " : "", o->subcommand ? o->subcommand : "");
    return hinted_error(o, what, arg, hint);
}

/* --- choice of the command --- */

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* With --help as subcommand any command of the name matches. */
static bool matches_subcommand(const struct cli_command *command, const char *subcommand)
{
    return command->subcommand == NULL ||
           (subcommand &&
            (strcmp(command->subcommand, subcommand) == 0 || is_help(subcommand)));
}

/* Returns NULL if no command has this name and subcommand. */
static const struct cli_command *find_command(const char *name, const char *subcommand)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, name) == 0 && matches_subcommand(c, subcommand))
            return c;
    return NULL;
}

/* Print that no command has this name and subcommand (NULL: none was given). */
static int unknown_command(const char *name, const char *subcommand)
{
    struct opt_names names = {0}, subcommands = {0};
    char hint[OPT_HINT_SIZE];
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (c->help && (c == cli_commands || strcmp(c->name, c[-1].name) != 0))
            opt_names_add(&names, c->name);
        if (c->subcommand && strcmp(c->name, name) == 0)
            opt_names_add(&subcommands, c->subcommand);
    }
    bool group = subcommands.n > 0;
    const struct cli_args o = {.command = &(struct cli_command){.name = name}};
    opt_hint(group ? &subcommands : &names, group && subcommand ? subcommand : name,
             hint);
    free(group ? names.v : subcommands.v);
    if (group)
        return hinted_error(&o,
                            subcommand ? "unknown subcommand: " : "missing subcommand",
                            subcommand ? subcommand : "", hint);
    fprintf(stderr, "tarry: unknown command \"%.60s\"; %s\n", name, hint);
    return EX_USAGE;
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
    if (name && subcommand && find_command(name, NULL)) {
        o->command = find_command(name, NULL);
        return cli_usage_error(o, "the command has no subcommand ", subcommand);
    }
    if (name)
        return unknown_command(name, subcommand);
    puts("tarry " TARRY_VERSION
         " - accepts messages for later delivery, and delivers them");
    usage(NULL, NULL, stdout);
    return EX_OK;
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

static int unknown_flag(const struct cli_args *o, const char *arg)
{
    struct opt_names names = {0};
    char hint[OPT_HINT_SIZE];
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if (f->sets & (o->command->sets | CLI_ANY))
            opt_names_add(&names, f->name);
    const char *nearest = opt_nearest(names.v, arg);
    free(names.v);
    if (nearest == NULL)
        return cli_usage_error(o, "unknown option: ", arg);
    snprintf(hint, sizeof(hint), "did you mean \"%s\"?", nearest);
    return hinted_error(o, "unknown option: ", arg, hint);
}

/* Returns the flag of this name, which ends at n, or NULL. */
static const struct cli_flag *find_flag(const struct cli_args *o, const char *name,
                                        size_t n)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if (slice_is((struct slice){name, n}, f->name) &&
            (f->sets & (o->command->sets | CLI_ANY)))
            return f;
    return NULL;
}

/* argv[0] is a flag: --name VALUE or --name=VALUE. *taken: the number of arguments it
 * used. */
static int parse_flag(struct cli_args *o, char **argv, int *taken)
{
    size_t n = strcspn(argv[0], "=");
    const char *value = argv[0][n] ? argv[0] + n + 1 : NULL;
    const struct cli_flag *f =
        is_help(argv[0]) ? find_flag(o, "--help", 6) : find_flag(o, argv[0], n);
    if (f == NULL)
        return unknown_flag(o, argv[0]);
    if (f->value == NULL)
        return value ? cli_usage_error(o, "the option needs no value: ", argv[0])
                     : parse_value(o, f, "true");
    if (value)
        return parse_value(o, f, value);
    *taken = 2;
    if (argv[1] == NULL)
        return cli_usage_error(o, "missing value after ", argv[0]);
    return parse_value(o, f, argv[1]);
}

static void free_flags(struct cli_args *o)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        opt_free((const struct opt[]){row_of(f), {0}}, o);
}

/* A payload may be empty; a route, id or file must not. */
static bool may_be_empty(const struct cli_args *o)
{
    return ((o->command->sets & CLI_WRITES) && o->arg_count > 0) ||
           (o->command->sets & CLI_WORDS);
}

/* "-" alone is an argument: standard input. */
static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] != '\0';
}

/* argv starts after the name of the command, and ends with NULL. */
static int parse_args(struct cli_args *o, char **argv)
{
    /* after "--": ids and targets may start with dashes */
    bool flags_over = o->command->sets & CLI_WORDS;
    while (*argv) {
        int taken = 1, code = EX_OK;
        if (!flags_over && strcmp(*argv, "--") == 0)
            flags_over = true;
        else if (!flags_over && is_flag(*argv))
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

/* Choose table or JSON. The flags override TARRY_FORMAT. */
static int choose_format(struct cli_args *o)
{
    const char *format = getenv("TARRY_FORMAT");
    if (!(o->command->sets & (CLI_SHOWS | CLI_AUDITS)) || format == NULL ||
        *format == '\0')
        format = "table";
    if (strcmp(format, "table") != 0 && strcmp(format, "json") != 0)
        return cli_usage_error(o, "TARRY_FORMAT must be table or json, not ", format);
    o->json |= !o->table && strcmp(format, "json") == 0;
    o->human = !o->json;
    return EX_OK;
}

static int run(struct cli_args *o)
{
    int wrong = choose_format(o);
    if (wrong)
        return wrong;
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

/* Accept --version, -V, --help and -h as commands. */
static const char *name_of(const char *arg)
{
    bool version = strcmp(arg, "--version") == 0 || strcmp(arg, "-V") == 0;
    return version ? "version" : is_help(arg) ? "help" : arg;
}

int cli_main(int argc, char **argv)
{
    struct cli_args o = {.argc = argc, .argv = argv};
    if (argc < 2) {
        usage(NULL, NULL, stderr);
        return EX_USAGE;
    }
    const char *name = name_of(argv[1]), *subcommand = argc > 2 ? argv[2] : NULL;
    o.command = find_command(name, subcommand);
    if (o.command == NULL)
        return unknown_command(name, subcommand);
    o.subcommand = matches(o.command, name, subcommand) ? subcommand : NULL;
    int code = read_and_run(&o, argv + (o.subcommand ? 3 : 2));
    free_flags(&o);
    if (code == EX_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        perror("tarry: standard output");
        return EX_IOERR;
    }
    return code;
}
