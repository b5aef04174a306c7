/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job_move.c - another due time for a job that waits: it is looked for in the bucket
 * of its id, and moved where it is.
 */
#include "bridge/admin/job_list.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/engine/bridge.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"
#include "bridge/store/store.h"

#include <stdlib.h>

struct moving {
    struct route *route;
    struct bucket *bucket;
    int64_t at_ms, after_ms;
    job_move_cb *cb;
    void *arg;
    enum job_move_code code;
    int64_t due_ms;
    size_t id_n;
    char id[JOB_ID_MAX];
};

static void answer(void *arg)
{
    struct moving *m = arg;
    m->cb(m->arg, m->code, m->due_ms);
    if (m->route)
        m->route->refs--;
    free(m);
}

static enum job_move_code code_of(char answer)
{
    static const struct {
        char answer;
        enum job_move_code code;
    } rows[] = {{MOVE_DUE_MOVED, JOB_MOVE_OK},
                {MOVE_DUE_HELD, JOB_MOVE_HELD},
                {MOVE_DUE_IN_FLIGHT, JOB_MOVE_IN_FLIGHT},
                {MOVE_DUE_DEAD, JOB_MOVE_DEAD},
                {MOVE_DUE_EXPIRES, JOB_MOVE_EXPIRES},
                {MOVE_DUE_NOT_THERE, JOB_MOVE_NONE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].answer == answer)
            return rows[i].code;
    return JOB_MOVE_AWAY;
}

static void on_moved(void *arg, const struct store_move_due_reply *reply)
{
    struct moving *m = arg;
    m->code = reply ? code_of(reply->code) : JOB_MOVE_AWAY;
    m->due_ms = reply ? reply->due_ms : 0;
    answer(m);
}

static struct slice id_of(const struct moving *m)
{
    return (struct slice){m->id, m->id_n};
}

/* What ends it by its own word only its record knows; of a queue also the script. */
static bool would_expire(struct moving *m, struct slice record)
{
    struct err err;
    struct job *job = job_decode(id_of(m), record, &m->route->names, &err);
    int64_t now_ms = clock_now_ms(bucket_clock(m->bucket), loop_mono_us());
    int64_t due_ms = m->at_ms > 0 ? m->at_ms : now_ms + m->after_ms;
    bool ends = job && job->expires_ms > 0 && job->expires_ms < due_ms;
    if (ends)
        m->due_ms = job->expires_ms;
    job_free(job);
    return ends;
}

static void on_found(void *arg, const struct store_look_reply *look)
{
    struct moving *m = arg;
    static const struct {
        char state;
        enum job_move_code code;
    } rows[] = {{LOOK_NOT_THERE, JOB_MOVE_NONE},
                {LOOK_ENDED, JOB_MOVE_NONE},
                {LOOK_IN_FLIGHT, JOB_MOVE_IN_FLIGHT},
                {LOOK_DEAD, JOB_MOVE_DEAD}};
    bool waits = look && (look->state == LOOK_WAITS || look->state == LOOK_READY);
    if (waits && !would_expire(m, look->record)) {
        store_move_due(m->bucket, id_of(m), m->at_ms, m->after_ms, on_moved, m);
        return;
    }
    m->code = waits ? JOB_MOVE_EXPIRES : JOB_MOVE_AWAY;
    for (size_t i = 0; look && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].state == look->state)
            m->code = rows[i].code;
    answer(m);
}

static void look(struct moving *m)
{
    store_look(m->bucket, LOOK_WHICH_ID, id_of(m), on_found, m);
}

static void refuse(struct moving *m, enum job_move_code code)
{
    m->code = code;
    loop_defer(answer, m);
}

void job_move(struct bridge *bridge, struct slice route, const struct job_move *how,
              job_move_cb *cb, void *arg)
{
    struct moving *m = mem_alloc(sizeof(*m));
    m->route = route_of_name(bridge, route);
    if (m->route)
        m->route->refs++; /* a queue's bucket is none of its route's */
    m->at_ms = how->at_ms;
    m->after_ms = how->after_ms;
    m->cb = cb;
    m->arg = arg;
    m->id_n = how->id.n <= JOB_ID_MAX ? how->id.n : 0;
    memcpy(m->id, how->id.p ? how->id.p : "", m->id_n);
    if (m->route == NULL) {
        refuse(m, JOB_MOVE_NO_ROUTE);
    } else if (!route_is_open(m->route)) {
        refuse(m, JOB_MOVE_AWAY);
    } else if (m->route->sink->rules == NULL) {
        m->bucket = route_bucket(m->route, id_of(m))->bucket;
        look(m);
    } else if (how->queue.n == 0) {
        refuse(m, JOB_MOVE_IS_QUEUE);
    } else if (!queue_name_is_good(how->queue)) {
        refuse(m, JOB_MOVE_NO_QUEUE);
    } else {
        m->bucket = queue_borrow(m->route->sink, how->queue)->bucket;
        look(m);
    }
}
