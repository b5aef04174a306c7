/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_lines_pull.c - consumers of these queues: what they receive, and what they may do
 * with it.
 */
#include "tests/sim/lab_lines.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

enum {
    CONSUMERS = 4,
    PULL_MAX = 4,
    LEASE_MS = 5000,
    AHEAD_MS = 1000, /* of a token: lua/lib/claim.lua */
    QUIET_S = 15     /* a cut that nobody notices is known after this */
};

static struct consumer {
    struct lab_call *pull;
    uint64_t stream;
} consumers[CONSUMERS];

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
        lines_end(line, world.now_us,
                  call->ask.op == LAB_ACK ? "acknowledged" : "deleted");
    if (call->ask.op == LAB_RELEASE) {
        line->lease_ms = 0;
        if (!is_repeated_release(call)) {
            line->put_off_ms = hold->lease_ms;
            line->not_before_ms = lines_server_ms(call->first_us) + call->ask.ms;
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
        lab_call_new(op, lines_queues[hold->line->queue].name, hold->line->id->text,
                     on_finished, hold, hold->call->stream);
    call->ask.lease = op == LAB_DELETE ? 0 : hold->lease_ms;
    call->ask.ms = ms;
    hold->line->id->deletes += op == LAB_DELETE;
    if (op == LAB_ACK || op == LAB_DELETE) {
        hold->line->closed = true;
        /* Without the answer to its submission the core may store it again. */
        hold->line->vague = hold->line->vague || !hold->line->answered_us;
    }
    if (op == LAB_RELEASE)
        hold->line->lease_ms = 0; /* it may be available from now on */
    /* It may end earlier from now on, and its answer may be lost. */
    int64_t ends_ms = lines_server_ms(world.now_us) + ms;
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
    if (line->ended_us && from_ms > lines_server_ms(line->ended_us) + AHEAD_MS)
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
    struct line *moved = lines_new(line->id, ++moves);
    moved->submit = call;
    lines_submit(moved, true);
}

static void receive(struct consumer *c, const struct lab_item *item)
{
    struct line *line = lines_find(item->number);
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
    call->ask.topic = lines_queues[between(0, QUEUES - 1)].name;
    call->ask.ms = world.healed ? 100 : skewed(0, 5000);
    call->ask.max = (unsigned)between(1, PULL_MAX);
    lab_send_later(call, skewed(1, 200 * MS));
}

void lines_pull_init(void)
{
    for (int i = 0; i < CONSUMERS; i++) {
        struct consumer *c = &consumers[i];
        c->stream = stream_new('l', (uint64_t)i);
        c->pull =
            lab_call_new(LAB_PULL, lines_queues[0].name, "", on_pulled, c, &c->stream);
        c->pull->ask.max = 1;
        lab_send_later(c->pull, SECOND);
    }
}
