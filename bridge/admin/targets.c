/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/operator.h"
#include "bridge/bridge.h"
#include "bridge/engine/route.h"

#include <stdlib.h>

bool source_targets(struct source *src, struct slice route, pace_each *each, void *arg)
{
    const struct route *r = route_of_name(src->bridge, route);
    if (r && r->pace)
        pace_list(r->pace, each, arg);
    return r != NULL;
}

struct question {
    struct source *src;
    void (*cb)(void *arg, enum target_code code);
    void *arg;
    enum target_code code;
};

static void on_known(void *arg)
{
    struct question *q = arg;
    q->cb(q->arg, q->code);
    q->src->open--;
    free(q);
}

static void on_lifted(void *arg, int answer)
{
    struct question *q = arg;
    q->code = answer == 0   ? TARGET_GOES_ON
              : answer == 1 ? TARGET_NOT_STOPPED
                            : TARGET_AWAY;
    on_known(q);
}

void source_target_go_on(struct source *src, struct slice route, struct slice target,
                         void (*cb)(void *arg, enum target_code code), void *arg)
{
    const struct route *r = route_of_name(src->bridge, route);
    struct question *q = mem_alloc(sizeof(*q));
    *q = (struct question){src, cb, arg, r ? TARGET_NOT_STOPPED : TARGET_NO_ROUTE};
    src->open++;
    if (r && r->pace)
        pace_go_on(r->pace, target, on_lifted, q);
    else
        loop_defer(on_known, q);
}
