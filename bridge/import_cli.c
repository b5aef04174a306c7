/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/import_cli.h"
#include "bridge/import_parts.h"
#include "bridge/plugin.h"

#include <stdio.h>
#include <sysexits.h>

static const char usage[] =
    "usage: tarry import TYPE REDIS-URL --conf FILE [--source NAME] [--dry-run]\n"
    "                    [--delete] [--with NAME=VALUE ...]\n"
    "TYPE        what to move over from: the type of the source that takes its place\n"
    "REDIS-URL   the original's own Redis; stop the original first\n"
    "--conf      tarry's configuration: its Redis, sources and routes\n"
    "--source    the source that takes its place, where there are several of that type\n"
    "--dry-run   only count\n"
    "--delete    delete there what tarry has here; without it nothing is changed there\n"
    "--with      what the original was configured with, where it was not its default\n"
    "Run twice, it moves what has come since, and what tarry has delivered meanwhile "
    "once\n"
    "more unless it was deleted.\n";

struct word { /* an option with a value, or with none */
    const char *name;
    size_t offset;
    enum { TEXT, FLAG, LIST } kind;
};
static const struct word words[] = {
    {"--conf", offsetof(struct import_order, conf_file), TEXT},
    {"--source", offsetof(struct import_order, source), TEXT},
    {"--dry-run", offsetof(struct import_order, dry_run), FLAG},
    {"--delete", offsetof(struct import_order, delete), FLAG},
    {"--with", 0, LIST},
};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

static const struct word *find(const char *arg)
{
    for (size_t i = 0; i < WORDS; i++)
        if (strcmp(arg, words[i].name) == 0)
            return &words[i];
    return NULL;
}

static void print_usage(FILE *out)
{
    fputs(usage, out);
    fputs("types:", out);
    for (size_t i = 0; source_plugins[i] != NULL; i++)
        if (source_plugins[i]->import != NULL)
            fprintf(out, " %s", source_plugins[i]->name);
    fputs("; a wrong --with tells what can be given\n", out);
}

static int wrong(const char *what, const char *arg)
{
    fprintf(stderr, "tarry import: %s%.200s\n", what, arg);
    print_usage(stderr);
    return -1;
}

/* Gives how many arguments were taken; -1: wrong. */
static int take_option(struct import_order *order, char **argv, int left)
{
    const struct word *word = find(argv[0]);
    if (word == NULL)
        return wrong("no such option: ", argv[0]);
    char *field = (char *)order + word->offset;
    if (word->kind == FLAG) {
        *(bool *)field = true;
        return 1;
    }
    if (left < 2)
        return wrong("a value is missing after ", argv[0]);
    if (word->kind == TEXT)
        *(const char **)field = argv[1];
    else if (order->with_count < IMPORT_WITH_MAX)
        order->with[order->with_count++] = argv[1];
    else
        return wrong("too many of ", argv[0]);
    return 2;
}

static int parse(struct import_order *order, int argc, char **argv)
{
    const char **places[] = {&order->type, &order->url};
    size_t place = 0;
    for (int i = 2; i < argc;) {
        if (argv[i][0] == '-') {
            int taken = take_option(order, argv + i, argc - i);
            if (taken < 0)
                return -1;
            i += taken;
        } else if (place < 2) {
            *places[place++] = argv[i++];
        } else {
            return wrong("one argument too many: ", argv[i]);
        }
    }
    if (place < 2)
        return wrong("TYPE and REDIS-URL are needed", "");
    if (order->conf_file == NULL)
        return wrong("--conf FILE is needed", "");
    if (order->dry_run && order->delete)
        return wrong("--dry-run and --delete exclude each other", "");
    return 0;
}

int import_main(int argc, char **argv)
{
    struct import_order order = {0};
    if (argc > 2 && strcmp(argv[2], "--help") == 0) {
        print_usage(stdout);
        return EX_OK;
    }
    return parse(&order, argc, argv) < 0 ? EX_USAGE : import_run(&order);
}
