/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_words.c - the commands that need neither a daemon nor much else.
 */
#include "bridge/cli/cli_parts.h"
#include "bridge/conf/conf.h"
#include "bridge/daemon.h"
#include "bridge/plugins.h"
#include "bridge/version.h"

#include <sysexits.h>

int cli_run(struct cli_order *o)
{
    return daemon_run(o->place[0]);
}

int cli_options(struct cli_order *o)
{
    struct conf *conf = o->place_count > 0 ? conf_open(o->place[0]) : NULL;
    if (o->place_count > 0 && conf == NULL)
        return EX_CONFIG;
    conf_print_options(stdout);
    conf_free(conf);
    return EX_OK;
}

int cli_version(struct cli_order *o)
{
    (void)o;
    version_print(stdout);
    return EX_OK;
}

int cli_worker(struct cli_order *o)
{
    return plugins_worker(o->argc, o->argv);
}
