/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.c - the operator's commands: a table of commands and a table of flags. A new one is
 * one row and one function.
 */
#include "bridge/ctl.h"
#include "bridge/ctl_parts.h"
#include "bridge/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#define URL_DEFAULT "http://127.0.0.1:7700"

/* Bits: which commands take the flag. */
enum flag_set {
    FOR_ANY = 1,
    FOR_MANY = 2,
    FOR_CHANGE = 4,
    FOR_REPLAY = 8,
    FOR_LINES = 16
};
struct flag {
    const char *name, *value; /* value: as the usage shows it; NULL: it takes none */
    size_t offset;            /* of a const char *, or of a bool, in struct ctl */
    enum flag_set set;
    const char *help;
};
static const struct flag flags[] = {
    {"--url", "URL", offsetof(struct ctl, url), FOR_ANY,
     "the daemon: http://HOST:PORT, https://..., unix:/PATH; default TARRY_URL, "
     "or " URL_DEFAULT},
    {"--reason", "WORD", offsetof(struct ctl, reason), FOR_MANY, "only of this reason"},
    {"--from", "TIME", offsetof(struct ctl, from), FOR_MANY,
     "buried then or later: RFC 3339, or seconds since 1970"},
    {"--to", "TIME", offsetof(struct ctl, to), FOR_MANY, "buried then or earlier"},
    {"--id-prefix", "P", offsetof(struct ctl, id_prefix), FOR_MANY,
     "only ids that begin so"},
    {"--max", "N", offsetof(struct ctl, max), FOR_MANY, "so many at most; list: 100"},
    {"--all", NULL, offsetof(struct ctl, all), FOR_MANY, "every one"},
    {"--cursor", "C", offsetof(struct ctl, cursor), FOR_MANY,
     "go on where an earlier call left off"},
    {"--rate", "N", offsetof(struct ctl, rate), FOR_REPLAY,
     "due one after the other, N per second"},
    {"--dry-run", NULL, offsetof(struct ctl, dry_run), FOR_CHANGE,
     "only count what would be done"},
    {"--json", NULL, offsetof(struct ctl, json), FOR_LINES, "a line of JSON for each"},
};
enum { FLAGS = sizeof(flags) / sizeof(flags[0]) };

static int cancel(const struct ctl *c);
static int job(const struct ctl *c);
static int targets(const struct ctl *c);
static int go_on(const struct ctl *c);

static const struct command {
    const char *name, *word; /* word: the second one; NULL: there is none */
    const char *places, *help;
    int least, most; /* of places */
    unsigned sets;   /* of flags */
    int (*run)(const struct ctl *c);
} commands[] = {
    {"cancel", NULL, "ROUTE ID", "take a job back before it is delivered", 2, 2, FOR_ANY,
     cancel},
    {"job", NULL, "ROUTE ID", "show where a job stands", 2, 2, FOR_ANY, job},
    {"dead", "list", "ROUTE", "the dead letters: buried, reason, attempts, id, error", 1,
     1, FOR_ANY | FOR_MANY | FOR_LINES, ctl_dead_list},
    {"dead", "show", "ROUTE ID", "one of them, whole", 2, 2, FOR_ANY, ctl_dead_show},
    {"dead", "replay", "ROUTE [ID]", "deliver them anew", 1, 2,
     FOR_ANY | FOR_MANY | FOR_CHANGE | FOR_REPLAY | FOR_LINES, ctl_dead_replay},
    {"dead", "drop", "ROUTE [ID]", "delete them", 1, 2,
     FOR_ANY | FOR_MANY | FOR_CHANGE | FOR_LINES, ctl_dead_drop},
    {"targets", NULL, "ROUTE", "its targets: name, state, in flight, delivered, failed",
     1, 1, FOR_ANY | FOR_LINES, targets},
    {"go-on", NULL, "ROUTE TARGET", "deliver to a target again that was stopped", 2, 2,
     FOR_ANY, go_on},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]), PLACES = 2, HELP_COLUMN = 34 };

/* --- usage --- */

static void print_usage(FILE *out, const char *name)
{
    unsigned sets = 0;
    fputs("usage:\n", out);
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (strcmp(command->name, name) != 0)
            continue;
        sets |= command->sets;
        int n = fprintf(out, "  tarry %s%s%s %s", name, command->word ? " " : "",
                        command->word ? command->word : "", command->places);
        fprintf(out, "%*s%s\n", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "", command->help);
    }
    for (size_t i = 0; i < FLAGS; i++)
        if (flags[i].set & sets)
            fprintf(out, "  %-11s %-4s %s\n", flags[i].name,
                    flags[i].value ? flags[i].value : "", flags[i].help);
    fprintf(out, "  %-11s %-4s %s\n", "--", "", "behind it nothing is a flag");
}

static int wrong(const char *name, const char *what, const char *arg)
{
    struct buf text = {0};
    ctl_text_add(&text, slice_of(arg));
    fprintf(stderr, "tarry %s: %s%.200s\n", name, what, buf_str(&text));
    buf_free(&text);
    print_usage(stderr, name);
    return -1;
}

/* --- the command line --- */

static const struct command *command_named(const char *name, const char *word)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0 &&
            (commands[i].word == NULL || strcmp(commands[i].word, word ? word : "") == 0))
            return &commands[i];
    return NULL;
}

/* Gives how many arguments were taken; -1: wrong. */
static int take_flag(struct ctl *c, const struct command *command, char **argv)
{
    for (size_t i = 0; i < FLAGS; i++) {
        if (strcmp(argv[0], flags[i].name) != 0 || !(flags[i].set & command->sets))
            continue;
        char *field = (char *)c + flags[i].offset;
        if (flags[i].value == NULL) {
            *(bool *)field = true;
            return 1;
        }
        if (argv[1] == NULL)
            return wrong(command->name, "a value is missing after ", argv[0]);
        *(const char **)field = argv[1];
        return 2;
    }
    return wrong(command->name, "no such option here: ", argv[0]);
}

static int read_max(struct ctl *c, const struct command *command)
{
    char *end = NULL;
    if (c->max == NULL)
        return 0;
    c->max_letters = strtoll(c->max, &end, 10);
    if (c->max[0] < '0' || c->max[0] > '9' || *end != '\0' || c->max_letters < 1)
        return wrong(command->name, "--max is a number from 1 on, not ", c->max);
    return 0;
}

/* argv begins behind the words of the command, and ends with NULL. */
static int parse(struct ctl *c, const struct command *command, char **argv)
{
    const char **const places[] = {&c->route, &c->name};
    const int most = command->most < PLACES ? command->most : PLACES;
    int place = 0;
    bool flags_over = false; /* by "--": ids and targets may begin with anything */
    while (*argv) {
        int taken = 1;
        if (!flags_over && strcmp(*argv, "--") == 0)
            flags_over = true;
        else if (!flags_over && strncmp(*argv, "--", 2) == 0)
            taken = take_flag(c, command, argv);
        else if (place < most && **argv)
            *places[place++] = *argv;
        else
            return wrong(command->name,
                         "one argument too many, or an empty one: ", *argv);
        if (taken < 0)
            return -1;
        argv += taken;
    }
    if (place < command->least)
        return wrong(command->name, "an argument is missing: ", command->places);
    return read_max(c, command);
}

int ctl_main(int argc, char **argv)
{
    const char *name = argv[1], *word = argc > 2 ? argv[2] : NULL;
    const char *url = getenv("TARRY_URL");
    struct ctl c = {.url = url && *url ? url : URL_DEFAULT};
    if (word && strcmp(word, "--help") == 0) {
        print_usage(stdout, name);
        return EX_OK;
    }
    const struct command *command = command_named(name, word);
    if (command == NULL) {
        wrong(name, "it takes one of these words, not ", word ? word : "none");
        return EX_USAGE;
    }
    if (parse(&c, command, argv + (command->word ? 3 : 2)) < 0)
        return EX_USAGE;
    c.http = ctl_http_new(c.url);
    if (c.http == NULL)
        return EX_USAGE;
    int code = command->run(&c);
    ctl_http_free(c.http);
    return code;
}

/* --- the short ones --- */

/* Asks, and leaves the rest to show. Takes path. */
static int ask(const struct ctl *c, const char *method, struct buf *path,
               void (*show)(const struct ctl *c, const json_t *answer))
{
    int code;
    json_t *answer = ctl_http_ask(c->http, method, buf_str(path), &code);
    buf_free(path);
    if (answer)
        show(c, answer);
    json_decref(answer);
    return code;
}

static void show_cancelled(const struct ctl *c, const json_t *answer)
{
    (void)c;
    (void)answer;
    puts("cancelled");
}

static int cancel(const struct ctl *c)
{
    struct buf path = {0};
    ctl_path_add(&path, c->route, "jobs", c->name);
    return ask(c, "DELETE", &path, show_cancelled);
}

static void show_whole(const struct ctl *c, const json_t *answer)
{
    (void)c;
    ctl_print_json(answer, JSON_INDENT(2));
}

static int job(const struct ctl *c)
{
    struct buf path = {0};
    ctl_path_add(&path, c->route, "jobs", c->name);
    return ask(c, "GET", &path, show_whole);
}

static void show_target(const json_t *target)
{
    static const char *const columns[] = {"target", "state", "in_flight", "delivered",
                                          "failed"};
    struct buf line = {0};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        buf_add_str(&line, i ? "\t" : "");
        ctl_member_add(&line, target, columns[i]);
    }
    puts(buf_str(&line));
    buf_free(&line);
}

static void show_targets(const struct ctl *c, const json_t *answer)
{
    size_t i;
    json_t *target;
    json_array_foreach(json_object_get(answer, "targets"), i, target)
    {
        if (c->json)
            ctl_print_json(target, JSON_COMPACT);
        else
            show_target(target);
    }
}

static int targets(const struct ctl *c)
{
    struct buf path = {0};
    ctl_path_add(&path, c->route, "targets", NULL);
    return ask(c, "GET", &path, show_targets);
}

static void show_going_on(const struct ctl *c, const json_t *answer)
{
    (void)c;
    (void)answer;
    puts("it goes on");
}

static int go_on(const struct ctl *c)
{
    struct buf path = {0};
    ctl_path_add(&path, c->route, "targets/go-on", NULL);
    ctl_query_add(&path, "target", c->name);
    return ask(c, "POST", &path, show_going_on);
}
