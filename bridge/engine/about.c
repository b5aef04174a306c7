/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/about.h"
#include "bridge/engine/bridge.h"

struct log_about about_job(const struct route *route, struct slice id,
                           const struct job *job)
{
    const struct header *trace = job ? job_header(job, "traceparent") : NULL;
    return (struct log_about){.route = route->conf->name,
                              .job = id,
                              .traceparent =
                                  trace ? trace->value : (struct slice){NULL, 0}};
}
