/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_lines.c - queues whose names the producers invent: limits of deliveries, expiry,
 * leases that are renewed, releases with a delay, deletes, ids that are used again (also
 * in another queue), whole queues that are deleted.
 */
#include "tests/sim/lab.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

#include <glib.h>

enum {
    QUEUES = 5,
    CONSUMERS = 4,
    PULL_MAX = 4,
    LEASE_MS = 5000,
    TRIES = 6,
    AHEAD_MS = 1000, /* of a token: lua/lib/claim.lua */
    TOKENS = 16,
    QUIET_S = 15 /* a cut that nobody notices is known after this */
};

/* All jobs of one id. */
struct line_id {
    char text[40];
    struct {
        int64_t token, clock_us; /* clock_us: of the server, when it was received */
    } tokens[TOKENS];            /* the last ones */
    unsigned token_count;
    struct line *last; /* the last job that was sent with it */
    unsigned deletes;  /* that have no answer */
    bool vague;        /* one never had */
};

struct line {
    int64_t number;
    struct line_id *id;
    struct line *former; /* of its id */
    int queue;
    struct lab_call *submit;
    char due[24], expires[24];
    int64_t due_ms, expires_ms;                 /* 0: none */
    int64_t accepted_us, answered_us, ended_us; /* ended: acked, deleted or replaced */
    const char *ended_by;
    int64_t granted_ms, lease_ms;      /* the present lease, as far as a consumer knows */
    int64_t not_before_ms, put_off_ms; /* since a release; the lease that it ended */
    unsigned received;
    bool vague;  /* its end is not known: a crash, a call without an answer */
    bool closed; /* it may leave without being seen: refused, replaced, expired */
    bool moved; /* replaced by a job of another queue: its own queue does not record that,
                   and takes a repeated outcome that finds no job for the first one */
};

static struct {
    char name[8];
    unsigned destroys; /* that have no answer */
    int64_t vague_until_us;
} queues[QUEUES];
static GPtrArray *lines, *ids;
static GHashTable *by_number;
static struct consumer {
    struct lab_call *pull;
    uint64_t stream;
} consumers[CONSUMERS];

static int64_t at_server_ms(int64_t us)
{
    return (us + servers[0].clock_us) / 1000;
}

/* --------------------------------------------------------------------- producing */

static void end(struct line *line, int64_t us, const char *by)
{
    line->closed = true;
    /* Without its answer the core may send it to Redis again. */
    line->vague = line->vague || !line->answered_us;
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
         queues[line->queue].name, answer->code);
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
        end(former, world.now_us, "replaced");
    }
}

static void submit(struct line *line, bool replaces)
{
    struct lab_call *call =
        lab_call_new(LAB_SUBMIT, queues[line->queue].name, line->id->text, on_submitted,
                     line, line->submit->stream);
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
    return line->id->deletes > 0 || line->id->vague || queues[line->queue].destroys > 0 ||
           queues[line->queue].vague_until_us > world.now_us;
}

static struct line *line_new(struct line_id *id, int64_t number)
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
    queues[queue].destroys--;
    tell("lab: the queue %s is deleted: %d", queues[queue].name,
         answer ? answer->code : -1);
    if (answer == NULL || answer->code == QUEUE_AWAY)
        queues[queue].vague_until_us = world.now_us + 60 * SECOND;
    for (guint i = 0; i < lines->len; i++) {
        struct line *line = lines->pdata[i];
        if (line->queue == queue && line->accepted_us && answer &&
            answer->code == QUEUE_OK && line->accepted_us < call->first_us &&
            line->answered_us)
            end(line, world.now_us, "deleted with its queue");
    }
}

static void destroy(struct step *step)
{
    int queue = (int)between(0, QUEUES - 1);
    struct lab_call *call =
        lab_call_new(LAB_DESTROY, queues[queue].name, "", on_destroyed,
                     (void *)(intptr_t)queue, &step->stream);
    queues[queue].destroys++;
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
    struct line *line = line_new(id, number);
    int64_t now_ms = servers_latest_ms();
    of_step.stream = &step->stream;
    line->submit = &of_step;
    line->due_ms = one_in(3) ? 0 : now_ms + skewed(1, 60000);
    if (one_in(6))
        line->expires_ms = (line->due_ms ? line->due_ms : now_ms) + between(1, 30000);
    submit(line, again && one_in(2));
    if (one_in(60))
        destroy(step);
    if (one_in(20))
        lab_send(lab_call_new(LAB_DELETE, queues[between(0, QUEUES - 1)].name, "never",
                              on_unknown, NULL, &step->stream));
}

/* --------------------------------------------------------------------- consuming */

struct hold {
    struct line *line;
    int64_t lease_ms;
    struct lab_call *call;
};

/* If its core may have lost the connection, it may have sent the call again. */
static bool is_repeated(const struct lab_call *call)
{
    return !core_is_calm_since(call->asked, call->first_us - QUIET_S * SECOND);
}

/* The answer says that the lease has ended, but not that the release has ended it. */
static bool is_repeated_release(const struct lab_call *call)
{
    return call->ask.op == LAB_RELEASE && is_repeated(call);
}

static void on_finished(struct lab_call *call, const struct lab_answer *answer)
{
    struct hold *hold = call->of;
    struct line *line = hold->line;
    long long number = line->number;
    static const char *const ops[] = {[LAB_ACK] = "acknowledges",
                                      [LAB_DELETE] = "deletes",
                                      [LAB_RELEASE] = "releases",
                                      [LAB_TOUCH] = "renews"};
    tell("lab: a consumer %s %lld: %d", ops[call->ask.op], number,
         answer ? answer->code : -1);
    line->id->deletes -= call->ask.op == LAB_DELETE;
    if (answer == NULL || answer->code == QUEUE_AWAY) {
        line->vague = true;
        line->id->vague = line->id->vague || call->ask.op == LAB_DELETE;
        if (call->ask.op == LAB_ACK)
            lab_send_later(call, skewed(10 * MS, 2 * SECOND));
        return;
    }
    bool may_count = is_repeated_release(call) || (line->moved && is_repeated(call));
    bool sure = call->sent == 1 && !line->vague && !may_count;
    if (sure && answer->code == QUEUE_OK && line->ended_us &&
        line->ended_us < call->first_us && call->ask.op != LAB_DELETE)
        broken("lab: a token of %lld counts, but it was %s at %.6f", number,
               line->ended_by, (double)line->ended_us / 1e6);
    /* No new job replaces it, and no expiry ends it. */
    bool is_present = line->id->last == line && !line->closed && line->expires_ms == 0;
    if (sure && is_present && answer->code != QUEUE_OK &&
        line->lease_ms == hold->lease_ms && lab_is_calm_since(call->sent_us) &&
        !world.plan.clock_jumps && hold->lease_ms > servers_latest_ms() + 500)
        broken("lab: the token of %lld is refused (%d), but it is valid", number,
               answer->code);
    if (answer->code != QUEUE_OK)
        return;
    if (call->ask.op == LAB_ACK || call->ask.op == LAB_DELETE)
        end(line, world.now_us, call->ask.op == LAB_ACK ? "acknowledged" : "deleted");
    if (call->ask.op == LAB_RELEASE) {
        line->lease_ms = 0;
        if (!is_repeated_release(call)) {
            line->put_off_ms = hold->lease_ms;
            line->not_before_ms = at_server_ms(call->first_us) + call->ask.ms;
        }
    } else if (call->ask.op == LAB_TOUCH) {
        line->lease_ms = hold->lease_ms = answer->lease;
        line->granted_ms = answer->lease - call->ask.ms;
    }
}

static void act(struct hold *hold, enum lab_op op, int64_t ms)
{
    if (op == LAB_DELETE && hold->line->id->last != hold->line)
        return; /* it would delete another one */
    struct lab_call *call =
        lab_call_new(op, queues[hold->line->queue].name, hold->line->id->text,
                     on_finished, hold, hold->call->stream);
    call->ask.lease = op == LAB_DELETE ? 0 : hold->lease_ms;
    call->ask.ms = ms;
    hold->line->id->deletes += op == LAB_DELETE;
    if (op == LAB_ACK || op == LAB_DELETE)
        hold->line->closed = true;
    if (op == LAB_RELEASE)
        hold->line->lease_ms = 0; /* it may be available from now on */
    /* It may end earlier from now on, and its answer may be lost. */
    int64_t ends_ms = at_server_ms(world.now_us) + ms;
    if (op == LAB_TOUCH && ends_ms < hold->line->lease_ms)
        hold->line->lease_ms = ends_ms;
    lab_send(call);
}

static void work(void *arg, int64_t number)
{
    struct hold *hold = arg;
    (void)number;
    unsigned dice = world.healed ? 99 : (unsigned)between(0, 40);
    if (dice < 2)
        return; /* it abandons the job */
    if (dice < 6)
        act(hold, LAB_RELEASE, one_in(2) ? 0 : skewed(1, 20000));
    else if (dice < 8)
        act(hold, LAB_DELETE, 0);
    else if (dice < 12)
        act(hold, LAB_TOUCH, between(1000, 10000)); /* and abandons it */
    else
        act(hold, LAB_ACK, 0);
}

/* ------------------------------------------------------------------------ judging */

/* If the clock was set back, a claim may have the time of an earlier one. */
static void check_token(struct line_id *id, int64_t token)
{
    int64_t clock_us = servers[0].clock_us, ahead_us = AHEAD_MS * MS;
    for (unsigned i = 0; i < id->token_count && i < TOKENS; i++)
        if (id->tokens[i].token == token && id->tokens[i].clock_us <= clock_us + ahead_us)
            broken("lab: %s is received with a token that it had before", id->text);
    unsigned next = id->token_count++ % TOKENS;
    id->tokens[next].token = token;
    id->tokens[next].clock_us = clock_us;
}

/* from_ms: when Redis granted the lease, at the latest: a token may be ahead. */
static void check_received(struct line *line, const struct lab_item *item)
{
    long long number = line->number;
    int64_t from_ms = item->lease - LEASE_MS;
    if (line->due_ms > servers_latest_ms())
        broken("G1: lab: %lld is received before it is due", number);
    check_token(line->id, item->lease);
    if (world.plan.clock_jumps || line->vague)
        return;
    if (line->expires_ms && from_ms - AHEAD_MS > line->expires_ms)
        broken("lab: %lld is received %lld ms after its time", number,
               (long long)(from_ms - line->expires_ms));
    if (line->ended_us && from_ms > at_server_ms(line->ended_us) + AHEAD_MS)
        broken("lab: %lld is received, but was %s at %.6f", number, line->ended_by,
               (double)line->ended_us / 1e6);
    if (item->lease > line->put_off_ms && from_ms < line->not_before_ms)
        broken("lab: %lld is received %lld ms before the end of its delay", number,
               (long long)(line->not_before_ms - from_ms));
    if (from_ms > line->granted_ms && from_ms < line->lease_ms && !line->closed)
        broken("lab: %lld is received until %lld, but is held until %lld", number,
               (long long)item->lease, (long long)line->lease_ms);
    if (item->attempts > TRIES)
        broken("lab: %lld is received for the %u. time, of %d", number, item->attempts,
               TRIES);
    if (lab_is_calm_since(line->accepted_us) && item->attempts < line->received)
        broken("lab: %lld is delivery %u, but it was received %u times", number,
               item->attempts, line->received);
}

static void move(const struct line *line, struct lab_call *call)
{
    static int64_t moves = (int64_t)1 << 40;
    struct line *moved = line_new(line->id, ++moves);
    moved->submit = call;
    submit(moved, true);
}

static void receive(struct consumer *c, const struct lab_item *item)
{
    struct line *line =
        g_hash_table_lookup(by_number, (void *)(intptr_t)(item->number + 1));
    must(line != NULL);
    tell("lab: consumer %d receives %lld (%s), delivery %u", (int)(c - consumers),
         (long long)line->number, item->id, item->attempts);
    world.totals.deliveries++;
    line->received++;
    check_received(line, item);
    if (item->lease - LEASE_MS > line->granted_ms) {
        line->granted_ms = item->lease - LEASE_MS;
        line->lease_ms = item->lease;
    }
    struct hold *hold = mem_alloc(sizeof(*hold));
    *hold = (struct hold){line, item->lease, c->pull};
    if (!world.healed && one_in(8)) /* its id is used again, or moves at once */
        move(line, c->pull);
    after(one_in(4) ? 0 : skewed(1, one_in(10) ? 9 * SECOND : 50 * MS), work, hold, 0);
}

static void on_pulled(struct lab_call *call, const struct lab_answer *answer)
{
    struct consumer *c = call->of;
    for (unsigned i = 0; answer && answer->code == QUEUE_OK && i < answer->n; i++)
        receive(c, &answer->items[i]);
    call->ask.topic = queues[between(0, QUEUES - 1)].name;
    call->ask.ms = world.healed ? 100 : skewed(0, 5000);
    call->ask.max = (unsigned)between(1, PULL_MAX);
    lab_send_later(call, skewed(1, 200 * MS));
}

static void init(void)
{
    lines = g_ptr_array_new();
    ids = g_ptr_array_new();
    by_number = g_hash_table_new(NULL, NULL);
    for (int i = 0; i < QUEUES; i++)
        snprintf(queues[i].name, sizeof(queues[i].name), "lab/q%d", i);
    for (int i = 0; i < CONSUMERS; i++) {
        struct consumer *c = &consumers[i];
        c->stream = stream_new('l', (uint64_t)i);
        c->pull = lab_call_new(LAB_PULL, queues[0].name, "", on_pulled, c, &c->stream);
        c->pull->ask.max = 1;
        lab_send_later(c->pull, SECOND);
    }
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
             queues[queue].name, part);
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
