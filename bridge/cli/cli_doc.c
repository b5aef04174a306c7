/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_doc.c - `tarry doc WHAT`: prints the manual pages (mdoc) and the words for shell
 * completion, both generated from the tables. A test compares etc/man with the output.
 */
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"
#include "bridge/opt.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define DOC_DATE "November 22, 2026"
enum { DOC_WIDTH = 76 };

/* --- mdoc --- */

/* Print one word. Escape characters that roff interprets. */
static void put_word(const char *word, size_t n, bool first)
{
    if (first && (*word == '.' || *word == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < n; i++) {
        if (word[i] == '\\')
            fputs("\\e", stdout);
        else if (word[i] == '-' && i + 1 < n && word[i + 1] == '-')
            fputs("\\-", stdout);
        else
            putchar(word[i]);
    }
}

/* Print words on lines of at most DOC_WIDTH characters, without the last newline. */
static void put_text(const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > 0 && column + 1 + n > DOC_WIDTH) {
            putchar('\n');
            column = 0;
        } else if (column > 0) {
            putchar(' ');
            column++;
        }
        put_word(text, n, column == 0);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
}

/* Print one sentence per line, as roff requires. Each starts with a capital letter, and
 * the paragraph ends with a stop. */
static void put_paragraph(const char *text)
{
    size_t n = strlen(text);
    for (const char *p = text; *p;) {
        const char *stop = strstr(p, ". ");
        char *line = strndup(p, stop ? (size_t)(stop - p) + 1 : strlen(p));
        if (line == NULL)
            abort();
        line[0] = (char)toupper((unsigned char)line[0]);
        put_text(line);
        p += strlen(line) + (stop != NULL);
        free(line);
        puts(*p == '\0' && n > 0 && !strchr(".?", text[n - 1]) ? "." : "");
    }
}

static void put_head(const char *name, const char *section, const char *line)
{
    printf(".\\\" SPDX-License-Identifier: BSD-2-Clause\n"
           ".\\\" Made by: tarry doc %s.%s\n"
           ".Dd " DOC_DATE "\n.Dt %s %s\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n",
           name, section, strcmp(section, "1") == 0 ? "TARRY" : "TARRY.CONF", section,
           name, line);
}

/* --- tarry(1) --- */

static void put_places(const char *places)
{
    if (*places)
        printf(" Ar %s", places);
}

static void put_synopsis(void)
{
    puts(".Sh SYNOPSIS");
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (c->help == NULL)
            continue;
        printf(".Nm\n.Cm %s%s%s", c->name, c->subcommand ? " " : "",
               c->subcommand ? c->subcommand : "");
        put_places(c->arg_names);
        puts("\n.Op Ar options");
    }
}

/* Flags of these sets are listed once for all commands. A command lists only its other
 * flags. */
enum { COMMON = CLI_ASKS | CLI_SHOWS | CLI_ANY };

static void put_flag(const struct cli_flag *f)
{
    printf(".It Fl \\-%s", f->name + 2);
    if (f->value)
        printf(" Ar %s", f->value);
    putchar('\n');
    put_paragraph(f->help);
}

static bool has_flags(unsigned sets)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if ((f->sets & sets & ~(unsigned)COMMON) != 0)
            return true;
    return false;
}

static void put_command(const struct cli_command *c)
{
    printf(".It Cm %s%s%s", c->name, c->subcommand ? " " : "",
           c->subcommand ? c->subcommand : "");
    put_places(c->arg_names);
    putchar('\n');
    put_paragraph(c->help);
    if (c->more)
        put_paragraph(c->more);
    if (!has_flags(c->sets))
        return;
    puts(".Bl -tag -width Ds -compact");
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if ((f->sets & c->sets & ~(unsigned)COMMON) != 0)
            put_flag(f);
    puts(".El");
}

static void put_tarry(void)
{
    put_head("tarry", "1", "deliver messages later");
    put_synopsis();
    puts(".Sh DESCRIPTION\n.Nm\n"
         "accepts messages for later delivery from Kafka, MQTT and HTTP,\n"
         "stores them in Redis until they are due,\n"
         "and delivers them to Kafka, MQTT, HTTP callbacks,\n"
         "or queues that consumers pull from.\n"
         "Most commands ask a running daemon over its admin listener.\n"
         "On a terminal they print tables; elsewhere, or with\n.Fl \\-json ,\nJSON.\n"
         ".Pp\nThe commands are:\n.Bl -tag -width Ds");
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (c->help)
            put_command(c);
    puts(".El\n.Pp\nOptions of all commands that ask a daemon or show something:\n"
         ".Bl -tag -width Ds");
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if (f->sets & COMMON)
            put_flag(f);
    puts(
        ".El\n.Pp\nThe arguments after\n.Fl \\-\n"
        "are not options, so an id or a target can begin with any character.\n"
        ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
        ".It Ev TARRY_URL\nThe URL of the daemon; the option\n.Fl \\-url\noverrides it.\n"
        ".It Ev TARRY_TOKEN\nThe token; the option\n.Fl \\-token-file\noverrides it.\n"
        ".It Ev NO_COLOR\nIf it is set, tables have no colours.\n.El\n"
        ".Sh EXIT STATUS\n.Bl -tag -width Ds -compact");
    for (const struct cli_code *c = cli_codes; c->help; c++) {
        printf(".It %d\n", c->code);
        put_paragraph(c->help);
    }
    puts(".El\n.Sh EXAMPLES\n"
         "Show the state of the daemon, its routes and pending jobs:\n.Bd -literal "
         "-offset indent\n"
         "tarry status\ntarry routes\ntarry jobs list orders\n.Ed\n.Pp\n"
         "Check whether a route would accept a message, and when it would be delivered:\n"
         ".Bd -literal -offset indent\n"
         "tarry explain orders \\-\\-after 1h30m \\-\\-header \"x-tenant: a\" "
         "'{\"n\":1}'\n"
         ".Ed\n.Pp\n"
         "Stop deliveries while the receiver is being repaired:\n.Bd -literal -offset "
         "indent\n"
         "tarry pause orders\ntarry resume orders\n.Ed\n"
         ".Sh SEE ALSO\n.Xr tarry.conf 5");
}

/* --- tarry.conf(5) --- */

static void put_option(const struct opt *row)
{
    char *facts = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&facts, &n);
    if (out == NULL)
        abort();
    opt_print_facts(row, out);
    fclose(out);
    printf(".It Ic %s\n", row->name);
    put_paragraph(row->help);
    fputs(".br\n", stdout);
    put_text(facts);
    putchar('\n');
    free(facts);
}

static void put_group(void *arg, const char *title, const char *help,
                      const struct opt *rows)
{
    (void)arg;
    fputs(".Ss \"", stdout); /* quote the title: .Ss needs one argument */
    for (; *title; title++)
        if (*title == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*title);
    puts("\\&\"");
    put_paragraph(help);
    if (rows->name == NULL)
        return;
    puts(".Bl -tag -width Ds");
    for (; rows->name; rows++)
        put_option(rows);
    puts(".El");
}

static void put_tarry_conf(void)
{
    put_head("tarry.conf", "5", "configuration of tarry");
    puts(".Sh DESCRIPTION\nThe configuration file of\n.Xr tarry 1 .");
    put_paragraph(
        "The file has the syntax of libconfig: groups in braces, settings that end with "
        "a semicolon, lists in brackets, strings in quotes. In a string, "
        "${env:NAME}, ${env:NAME:-else}, ${file:PATH} and ${cred:NAME} are "
        "replaced by the value of an environment variable, the content of a file, or "
        "a systemd credential.");
    puts(".Pp");
    put_paragraph("Durations are written \"1500ms\", \"30s\", \"1h30m\", \"7d\"; sizes "
                  "\"256KiB\", \"64MiB\". The command tarry check FILE lists every "
                  "error in a file with its line.");
    puts(".Sh OPTIONS");
    conf_each_group(put_group, NULL);
    puts(".Sh FILES\n.Bl -tag -width Ds\n.It Pa /etc/tarry/tarry.conf\n"
         "The configuration of the service.\n"
         ".It Pa /usr/share/doc/tarry/examples/tarry.conf\n"
         "Every option with its default.\n.El\n"
         ".Sh SEE ALSO\n.Xr tarry 1");
}

/* --- completion, for etc/completion/tarry.bash --- */

static bool is(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* Print the names of all commands, each once, or the second words of the commands of this
 * name. Returns whether there are any. */
static bool put_words(const char *name)
{
    bool any = false;
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        bool again = c != cli_commands && is(c->name, c[-1].name);
        const char *word = name ? c->subcommand : c->name;
        if (c->help == NULL || word == NULL || (name ? !is(c->name, name) : again))
            continue;
        printf("%s%s", any ? " " : "WORDS ", word);
        any = true;
    }
    return any;
}

static bool names_file(const char *flag)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if (is(f->name, flag) && is(f->value, "FILE"))
            return true;
    return false;
}

/* Print what may follow the n words written so far: WORDS, FILE, ROUTE or NONE, then the
 * words or flags. */
static void put_completion(const char *const *written, unsigned n)
{
    const struct cli_command *c = cli_commands;
    if (n < 2 && put_words(n > 0 ? written[0] : NULL))
        return;
    while (c->name &&
           !(c->help && is(c->name, written[0]) &&
             (c->subcommand == NULL || (n > 1 && is(c->subcommand, written[1])))))
        c++;
    if (c->name == NULL)
        return;
    bool first = n == (c->subcommand ? 2 : 1);
    bool route =
        first && (strncmp(c->arg_names, "ROUTE", 5) == 0 || is(c->arg_names, "[ROUTE]"));
    bool file = names_file(written[n - 1]) || strstr(c->arg_names, "FILE");
    fputs(file ? "FILE" : route ? "ROUTE" : "NONE", stdout);
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if (f->sets & (c->sets | CLI_ANY))
            printf(" %s", f->name);
}

int cli_doc(struct cli_args *o)
{
    const char *what = o->arg[0];
    if (is(what, "tarry.1"))
        put_tarry();
    else if (is(what, "tarry.conf.5"))
        put_tarry_conf();
    else if (is(what, "complete"))
        put_completion(o->arg + 1, o->arg_count - 1);
    else
        return cli_usage_error(o, "it makes tarry.1 and tarry.conf.5, not ", what);
    return EX_OK;
}
