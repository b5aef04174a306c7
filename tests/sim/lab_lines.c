/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_lines.c - queues whose names the producers invent: limits of deliveries, expiry,
 * leases that are renewed, releases with a delay, deletes, ids that are used again (also
 * in another queue), whole queues that are deleted.
 */
#include "tests/sim/lab_lines.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

#include <glib.h>

struct lines_queue lines_queues[QUEUES];
static GPtrArray *lines, *ids;
static GHashTable *by_number;

int64_t lines_server_ms(int64_t us)
{
    return (us + servers[0].clock_us) / 1000;
}

struct line *lines_find(int64_t number)
{
    return g_hash_table_lookup(by_number, (void *)(intptr_t)(number + 1));
}

void lines_end(struct line *line, int64_t us, const char *by)
{
    line->closed = true;
    if (line->ended_us == 0) {
        line->ended_us = us;
        line->ended_by = by;
    }
}

static void doubt_formers(struct line *line)
{
    for (line = line->former; line; line = line->former)
        line->vague = line->closed = true;
}

static void on_submitted(struct lab_call *call, const struct lab_answer *answer)
{
    struct line *line = call->of;
    if (answer == NULL || answer->code == NOT_STORED) {
        line->vague = true; /* Redis may have it, and the next request replaces it */
        lab_send_later(call, skewed(10 * MS, 5 * SECOND));
        return;
    }
    line->answered_us = world.now_us;
    tell("lab: job %lld (%s, %s) is answered %d", (long long)line->number, line->id->text,
         lines_queues[line->queue].name, answer->code);
    if (answer->code == STORED_ALREADY) {
        if (line->former == NULL && line->id->last == line && call->sent == 1)
            broken("lab: job %lld has a new id, and is answered as known",
                   (long long)line->number);
        line->closed = true; /* the former one stays */
        if (call->sent > 1)  /* or an attempt before was stored, and has replaced it */
            doubt_formers(line);
        return;
    }
    if (answer->code != STORED && answer->code != STORED_REPLACED)
        broken("lab: job %lld is answered %d", (long long)line->number, answer->code);
    line->accepted_us = call->first_us;
    for (struct line *former = line->former; former; former = former->former) {
        former->vague = former->vague || line->vague;
        former->moved = former->moved || former->queue != line->queue;
        lines_end(former, world.now_us, "replaced");
    }
}

void lines_submit(struct line *line, bool replaces)
{
    struct lab_call *call =
        lab_call_new(LAB_SUBMIT, lines_queues[line->queue].name, line->id->text,
                     on_submitted, line, line->submit->stream);
    int n = 0;
    call->ask.number = line->number;
    if (line->due_ms) {
        snprintf(line->due, sizeof(line->due), "%lld", (long long)line->due_ms);
        call->ask.headers[n][0] = "deliver-at";
        call->ask.headers[n++][1] = line->due;
    }
    if (line->expires_ms) {
        snprintf(line->expires, sizeof(line->expires), "%lld",
                 (long long)line->expires_ms);
        call->ask.headers[n][0] = "deliver-before";
        call->ask.headers[n++][1] = line->expires;
    }
    if (replaces) {
        call->ask.headers[n][0] = "delay-op";
        call->ask.headers[n++][1] = "replace";
    }
    line->submit = call;
    lab_send(call);
}

/* Whether another call may end the new job, or be ended by it: their order is not known.
 */
static bool is_disturbed(const struct line *line)
{
    for (const struct line *former = line->former; former; former = former->former)
        if (!former->answered_us)
            return true;
    return line->id->deletes > 0 || line->id->vague ||
           lines_queues[line->queue].destroys > 0 ||
           lines_queues[line->queue].vague_until_us > world.now_us;
}

struct line *lines_new(struct line_id *id, int64_t number)
{
    struct line *line = mem_alloc(sizeof(*line));
    line->number = number;
    line->id = id;
    line->former = id->last;
    line->queue = id->last ? id->last->queue : (int)between(0, QUEUES - 1);
    if (id->last && world.plan.global_ids && one_in(2))
        line->queue = (int)between(0, QUEUES - 1);
    line->vague = line->closed = is_disturbed(line);
    if (line->vague && line->former)
        line->former->vague = line->former->closed = true;
    id->last = line;
    g_ptr_array_add(lines, line);
    g_hash_table_insert(by_number, (void *)(intptr_t)(number + 1), line);
    return line;
}

static void on_destroyed(struct lab_call *call, const struct lab_answer *answer)
{
    int queue = (int)(intptr_t)call->of;
    lines_queues[queue].destroys--;
    tell("lab: the queue %s is deleted: %d", lines_queues[queue].name,
         answer ? answer->code : -1);
    if (answer == NULL || answer->code == QUEUE_AWAY)
        lines_queues[queue].vague_until_us = world.now_us + 60 * SECOND;
    for (guint i = 0; i < lines->len; i++) {
        struct line *line = lines->pdata[i];
        if (line->queue == queue && line->accepted_us && answer &&
            answer->code == QUEUE_OK && line->accepted_us < call->first_us &&
            line->answered_us)
            lines_end(line, world.now_us, "deleted with its queue");
    }
}

static void destroy(struct step *step)
{
    int queue = (int)between(0, QUEUES - 1);
    struct lab_call *call =
        lab_call_new(LAB_DESTROY, lines_queues[queue].name, "", on_destroyed,
                     (void *)(intptr_t)queue, &step->stream);
    lines_queues[queue].destroys++;
    for (guint i = 0; i < lines->len; i++) {
        struct line *line = lines->pdata[i];
        if (line->queue == queue) {
            line->closed = true;
            line->vague = line->vague || !line->answered_us;
        }
    }
    lab_send(call);
}

/* No job has had this id. */
static void on_unknown(struct lab_call *call, const struct lab_answer *answer)
{
    (void)call;
    if (answer && answer->code != QUEUE_NONE && answer->code != QUEUE_AWAY)
        broken("lab: the end of a job that never was is answered %d", answer->code);
}

static void produce(struct step *step, int64_t number)
{
    static struct lab_call of_step; /* only its stream */
    struct line_id *id;
    bool again = ids->len > 0 && one_in(5);
    if (again) {
        id = ids->pdata[between(0, ids->len - 1)];
    } else {
        id = mem_alloc(sizeof(*id));
        snprintf(id->text, sizeof(id->text), "line-%lld", (long long)number);
        g_ptr_array_add(ids, id);
    }
    struct line *line = lines_new(id, number);
    int64_t now_ms = servers_latest_ms();
    of_step.stream = &step->stream;
    line->submit = &of_step;
    line->due_ms = one_in(3) ? 0 : now_ms + skewed(1, 60000);
    if (one_in(6))
        line->expires_ms = (line->due_ms ? line->due_ms : now_ms) + between(1, 30000);
    lines_submit(line, again && one_in(2));
    if (one_in(60))
        destroy(step);
    if (one_in(20))
        lab_send(lab_call_new(LAB_DELETE, lines_queues[between(0, QUEUES - 1)].name,
                              "never", on_unknown, NULL, &step->stream));
}
static void init(void)
{
    lines = g_ptr_array_new();
    ids = g_ptr_array_new();
    by_number = g_hash_table_new(NULL, NULL);
    for (int i = 0; i < QUEUES; i++)
        snprintf(lines_queues[i].name, sizeof(lines_queues[i].name), "lab/q%d", i);
    lines_pull_init();
}

static void write_conf(FILE *out, bool routes)
{
    if (routes)
        fprintf(out, "  lab: { from = \"lab\"; to = \"lab\"; match = \"lab/#\"; };\n");
    else
        fprintf(out,
                "  lab: { type = \"queue\"; lease = \"5s\"; tries = %d; global_ids = "
                "%s; };\n",
                TRIES, world.plan.global_ids ? "true" : "false");
}

/* Jobs answered since then, without an answer, or touched may be gone or back. */
static void lost(int64_t since_us)
{
    for (guint i = 0; i < lines->len; i++) {
        struct line *line = lines->pdata[i];
        bool near = line->answered_us == 0 || line->answered_us >= since_us ||
                    line->ended_us >= since_us || line->received > 0;
        line->vague = line->vague || near;
        line->closed = line->closed || near;
    }
}

static void key_of(char key[64], int queue, const char *part)
{
    snprintf(key, 64, world.plan.global_ids ? "tarry:{lab}:%s:%s" : "tarry:{lab:%s}:%s",
             lines_queues[queue].name, part);
}

static bool is_dead(const struct line *line)
{
    char key[64];
    key_of(key, line->queue, "error");
    return lab_redis("ZSCORE", key, line->id->text) >= 0;
}

static bool has_left(const struct line *line)
{
    return line->closed ||
           (line->expires_ms && line->expires_ms < servers_latest_ms() - 10000);
}

static int64_t latest_us(void)
{
    int64_t latest_ms = 0;
    for (guint i = 0; i < lines->len; i++) {
        const struct line *line = lines->pdata[i];
        latest_ms = line->due_ms > latest_ms ? line->due_ms : latest_ms;
    }
    int64_t due_us = servers_due_us(latest_ms);
    return due_us > servers_regained_us() ? due_us : servers_regained_us();
}

static bool is_done(void)
{
    for (guint i = 0; i < lines->len; i++) {
        const struct line *line = lines->pdata[i];
        if (has_left(line) || is_dead(line))
            continue;
        int64_t due_us = servers_due_us(line->due_ms), from_us = faults_end_us();
        if (world.now_us > (due_us > from_us ? due_us : from_us) + 180 * SECOND)
            broken("G2: lab: %lld %s, was due at %.3f, and is not received",
                   (long long)line->number,
                   line->accepted_us ? "was accepted" : "was never accepted",
                   (double)due_us / 1e6);
        return false;
    }
    for (int i = 0; i < QUEUES; i++) { /* also jobs whose end is not known */
        char pool[64], dead[64], far[64];
        key_of(pool, i, "pool");
        key_of(dead, i, "error");
        key_of(far, i, "far");
        if (lab_redis("HLEN", pool, "") != lab_redis("ZCARD", dead, "") ||
            lab_redis("ZCARD", far, "") > 0)
            return false;
    }
    return true;
}

static void judge(void)
{
    for (guint i = 0; i < lines->len && !world.failed; i++) {
        const struct line *line = lines->pdata[i];
        if (line->vague || line->closed || !is_dead(line))
            continue;
        if (lab_is_calm_since(line->accepted_us) && line->received < TRIES)
            broken("lab: %lld is dead after %u deliveries of %d", (long long)line->number,
                   line->received, TRIES);
    }
}

const struct lab_feature lab_lines = {
    .write_conf = write_conf,
    .init = init,
    .produce = produce,
    .lost = lost,
    .latest_us = latest_us,
    .is_done = is_done,
    .judge = judge,
};
