/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/flow.h"
#include "bridge/base/mem.h"

void flow_submitted(struct flow *f, int64_t bytes)
{
    f->jobs++;
    f->bytes += bytes;
}

void flow_answered(struct flow *f, int64_t bytes)
{
    f->jobs--;
    f->bytes -= bytes;
    must(f->jobs >= 0 && f->bytes >= 0);
}

bool flow_wants_pause(const struct flow *f, bool store_accepts_jobs)
{
    if (!store_accepts_jobs)
        return true;
    int64_t part = f->paused ? 2 : 1;
    return f->jobs * part >= f->max_jobs || f->bytes * part >= f->max_bytes;
}
