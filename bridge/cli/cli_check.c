/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_check.c - `tarry check`: is the configuration good, and does all that it names
 * answer?
 */
#include "bridge/cli/cli_parts.h"
#include "bridge/cli/probe.h"
#include "bridge/conf/conf.h"

#include <stdio.h>
#include <sysexits.h>

int cli_check(struct cli_order *o)
{
    struct conf *conf = conf_open(o->place[0]);
    int code = EX_OK;
    if (conf == NULL)
        return EX_CONFIG;
    fputs(buf_str(&conf->warnings), stderr);
    fprintf(o->connect && !o->human ? stderr : stdout,
            "%s: good; sources: %zu, sinks: %zu, routes: %zu\n", o->place[0],
            conf->source_count, conf->sink_count, conf->route_count);
    if (o->connect)
        code = probe_all(conf, o->human) == 0 ? EX_OK : EX_UNAVAILABLE;
    conf_free(conf);
    return code;
}
