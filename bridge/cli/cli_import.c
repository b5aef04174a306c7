/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_import.c - `tarry import`: imports the jobs of another delay queue from its Redis.
 */
#include "bridge/base/buf.h"
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/cli/cli.h"
#include "bridge/import/import_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

enum { URL_MAX_BYTES = 4096 };

static int read_env(const char *name, struct buf *out, struct err *err)
{
    const char *text = getenv(name);
    if (text == NULL)
        return err_set(err, "the environment variable %s is not set", name);
    buf_add_str(out, text);
    return 0;
}

static int read_file(const char *path, struct buf *out, struct err *err)
{
    if (buf_add_file(out, path, URL_MAX_BYTES, err) < 0)
        return err_in(err, path);
    while (out->n > 0 && out->p[out->n - 1] == '\n')
        out->n--;
    return 0;
}

/* A URL may come from these, because `ps` shows arguments to everybody. */
static const struct holder {
    const char *prefix;
    int (*read)(const char *name, struct buf *out, struct err *err);
} holders[] = {{"env:", read_env}, {"file:", read_file}};

/* Resolve the argument to a URL in text. If the argument itself contains a password,
 * overwrite the argument, so that `ps` does not show it. */
static int take_url(char *arg, struct buf *text)
{
    struct err err;
    for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++) {
        const size_t n = strlen(holders[i].prefix);
        if (strncmp(arg, holders[i].prefix, n) != 0)
            continue;
        if (holders[i].read(arg + n, text, &err) == 0)
            return 0;
        fprintf(stderr, "tarry import: REDIS-URL: %s\n", err.text);
        return -1;
    }
    buf_add_str(text, arg);
    if (redact_finds(arg))
        memset(arg, 'x', strlen(arg));
    return 0;
}

int cli_import(struct cli_args *o)
{
    struct import_order order = {.type = o->arg[0],
                                 .conf_file = o->conf,
                                 .source = o->source,
                                 .dry_run = o->dry_run,
                                 .delete = o->delete};
    struct buf url = {0};
    int code = EX_USAGE;
    if (o->conf == NULL)
        return cli_usage_error(o, "--conf FILE is required", "");
    if (order.dry_run && order.delete)
        return cli_usage_error(o, "--dry-run and --delete cannot be combined", "");
    if (o->with.n > IMPORT_WITH_MAX)
        return cli_usage_error(o, "too many of ", "--with");
    for (size_t i = 0; i < o->with.n; i++)
        order.with[order.with_count++] = o->with.v[i];
    if (take_url((char *)(uintptr_t)o->arg[1], &url) == 0) {
        order.url = buf_str(&url);
        code = import_run(&order);
    }
    text_wipe(&url);
    return code;
}
