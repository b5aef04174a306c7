/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_complete.c - `tarry complete`, which the completions of bash, zsh and fish run
 * (etc/completion/).
 *
 * Its arguments are the words after "tarry"; the last one is incomplete, and may be
 * empty. It prints one line per completion: the word, a tab, its help. ":files" means:
 * complete the names of files.
 */
#include "bridge/cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

struct line {
    const struct cli_command *command;
    const char *const *words;
    unsigned count;   /* of complete words */
    unsigned first;   /* index of the first argument in words */
    const char *last; /* the incomplete word */
};

static void offer(const struct line *line, const char *word, const char *help)
{
    if (strncmp(word, line->last, strlen(line->last)) == 0)
        printf("%s\t%s\n", word, help);
}

static void offer_commands(const struct line *line)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (c->help && (c == cli_commands || strcmp(c->name, c[-1].name) != 0))
            offer(line, c->name, c->help);
}

static void offer_subcommands(const struct line *line)
{
    for (const struct cli_command *c = cli_commands; c->name; c++)
        if (c->subcommand && strcmp(c->name, line->words[0]) == 0)
            offer(line, c->subcommand, c->help);
}

static bool accepts(const struct line *line, const struct cli_flag *f)
{
    return f->sets & (line->command->sets | CLI_ANY);
}

static void offer_flags(const struct line *line)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++)
        if (accepts(line, f))
            offer(line, f->name, f->help);
}

/* Returns the flag whose value follows word i, or NULL. */
static const struct cli_flag *flag_before(const struct line *line, unsigned i)
{
    for (const struct cli_flag *f = cli_flags; i >= line->first && f->name; f++)
        if (f->value && accepts(line, f) && strcmp(f->name, line->words[i]) == 0)
            return f;
    return NULL;
}

/* Offers the routes of the daemon, if one responds. */
static void offer_routes(const struct line *line)
{
    static const struct cli_command routes = {
        .method = "GET", .path = "/v1/admin/routes", .sets = CLI_ASKS};
    struct cli_args o = {.command = &routes};
    struct buf path = {0};
    const json_t *route;
    size_t i;
    int code;
    o.http = ctl_http_new(&o);
    if (o.http == NULL)
        return;
    ctl_path_add(&path, &o);
    json_t *answer = ctl_http_get(&o, &path, &code);
    json_array_foreach(json_object_get(answer, "routes"), i, route)
    {
        const char *name = json_string_value(json_object_get(route, "name"));
        const char *state = json_string_value(json_object_get(route, "state"));
        if (name)
            offer(line, name, state ? state : "");
    }
    json_decref(answer);
    ctl_http_free(o.http);
}

static void offer_arguments(const struct line *line)
{
    const char *names = line->command->arg_names;
    unsigned before = 0;
    for (unsigned i = line->first; i < line->count; i++)
        before += line->words[i][0] != '-' && flag_before(line, i - 1) == NULL;
    if (strstr(names, "FILE"))
        puts(":files");
    else if (strcmp(names, "ROUTE ...") == 0 ||
             (before == 0 && strncmp(names + (*names == '['), "ROUTE", 5) == 0))
        offer_routes(line);
}

/* Sets line->command and line->first. Returns false if the words are no command. */
static bool find_command(struct line *line)
{
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (c->help == NULL || strcmp(c->name, line->words[0]) != 0)
            continue;
        line->command = c;
        line->first = c->subcommand ? 2 : 1;
        if (c->subcommand == NULL || line->count < 2 ||
            strcmp(c->subcommand, line->words[1]) == 0)
            return true;
    }
    return false;
}

int cli_complete(struct cli_args *o)
{
    struct line line = {.words = o->arg, .last = ""};
    if (o->arg_count > 0) {
        line.count = o->arg_count - 1;
        line.last = o->arg[line.count];
    }
    if (line.count == 0) {
        offer_commands(&line);
        return EX_OK;
    }
    if (!find_command(&line))
        return EX_OK;
    const struct cli_flag *flag = flag_before(&line, line.count - 1);
    if (line.count < line.first)
        offer_subcommands(&line);
    else if (flag && strcmp(flag->value, "FILE") == 0)
        puts(":files");
    else if (flag == NULL && *line.last == '-')
        offer_flags(&line);
    else if (flag == NULL)
        offer_arguments(&line);
    return EX_OK;
}
