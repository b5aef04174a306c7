/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_import.c - `tarry import`: imports the jobs of another delay queue from its Redis.
 */
#include "bridge/base/buf.h"
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"
#include "bridge/import/import_internal.h"

#include <stdio.h>
#include <sysexits.h>

/* Writes the URL to text. arg may be a reference (env:NAME, file:PATH), because `ps`
 * shows arguments to everybody. If arg itself contains a password, this function
 * overwrites it. */
static int take_url(char *arg, struct buf *text)
{
    struct err err;
    if (strncmp(arg, "env:", 4) == 0 || strncmp(arg, "file:", 5) == 0) {
        if (conf_refer(arg, text, &err) == 0)
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
                                 .with = &o->with,
                                 .dry_run = o->dry_run,
                                 .delete = o->delete};
    struct buf url = {0};
    int code = EX_USAGE;
    if (o->conf == NULL)
        return cli_usage_error(o, "--conf FILE is required", "");
    if (order.dry_run && order.delete)
        return cli_usage_error(o, "--dry-run and --delete cannot be combined", "");
    if (take_url((char *)(uintptr_t)o->arg[1], &url) == 0) {
        order.url = buf_str(&url);
        code = import_run(&order);
    }
    text_wipe(&url);
    return code;
}
