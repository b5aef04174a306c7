/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_dead.c - dead letters. An operator walks through their pages, and replays or drops
 * some meanwhile: a walk shows each that existed all the time; a replayed job is
 * delivered or dead again; a dropped one is never delivered.
 */
#include "tests/sim/lab.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"
#include "bridge/store/store.h"

#include <glib.h>

enum { BUCKETS = 2, PAGE = 3, WALK_EVERY_S = 15 };
#define ROUTE "dying"

struct letter {
    int64_t number;
    char id[40];
    const struct sim_core *core; /* that had it last */
    int64_t handed_us;
    int64_t dead_us;    /* rejected without a fault: a letter since then; 0: it is not */
    int64_t shown_us;   /* a page has shown it first; 0: none */
    int64_t changed_us; /* a replay or drop was sent; 0: never */
    int64_t dropped_us; /* and answered */
    bool left, rejected, vague;
    bool delivered; /* once: this outcome may end the letter, also after its lease expired
                     */
    unsigned walk;  /* the last one that has shown it */
};

static GPtrArray *letters;
static GHashTable *by_id;
static int64_t lost_us; /* the last time that Redis lost commands */
static struct walk {
    struct lab_call *page;
    uint64_t stream;
    unsigned number;
    int64_t begun_us;
    char after[LAB_ID_MAX];
} walk;

/* Whether the letter existed at that time, and nothing can have ended it since. */
static bool exists_since(const struct letter *l, int64_t us)
{
    bool was_dead = l->dead_us && l->dead_us < us,
         was_shown = l->shown_us && l->shown_us < us && !l->delivered;
    return (was_dead || was_shown) && l->changed_us == 0 && !l->vague;
}

static void next_page(struct walk *w)
{
    w->page->ask.after = w->after;
    lab_send(w->page);
}

static void begin_walk(void *arg, int64_t number)
{
    struct walk *w = arg;
    (void)number;
    w->number++;
    w->begun_us = world.now_us;
    w->page->ask.bucket = w->page->ask.after_ms = 0;
    w->after[0] = '\0';
    next_page(w);
}

static void end_walk(struct walk *w)
{
    unsigned had_to_show = 0;
    for (guint i = 0; i < letters->len; i++) {
        const struct letter *l = letters->pdata[i];
        if (!exists_since(l, w->begun_us))
            continue;
        had_to_show++;
        if (l->walk != w->number)
            broken("lab: the dead letter %s existed at %.3f, but no page shows it", l->id,
                   (double)w->begun_us / 1e6);
    }
    tell("lab: walk %u had to show %u dead letters", w->number, had_to_show);
    after(WALK_EVERY_S * SECOND, begin_walk, w, 0);
}

static void on_changed(struct lab_call *call, const struct lab_answer *answer)
{
    struct letter *l = call->of;
    tell("lab: %s %s: %lld", call->ask.what == DEAD_WHAT_DROP ? "drop" : "replay", l->id,
         answer ? (long long)answer->done : -1);
    if (answer == NULL) {
        l->vague = true;
        return;
    }
    if (answer->done == 0 && !l->vague && !l->delivered)
        broken("lab: the dead letter %s is not found", l->id);
    if (answer->done > 0 && call->ask.what == DEAD_WHAT_DROP)
        l->dropped_us = world.now_us;
    if (answer->done == 0)
        l->left = true; /* it stays */
}

static void change_some(struct walk *w)
{
    if (world.healed || letters->len == 0 || !one_in(3))
        return;
    struct letter *l = letters->pdata[between(0, letters->len - 1)];
    if (!exists_since(l, world.now_us))
        return;
    struct lab_call *call =
        lab_call_new(LAB_DEAD, ROUTE, l->id, on_changed, l, &w->stream);
    call->ask.what = one_in(3) ? DEAD_WHAT_DROP : DEAD_WHAT_REPLAY;
    call->ask.max = 1;
    l->changed_us = world.now_us;
    l->left = call->ask.what ==
              DEAD_WHAT_DROP; /* a replay may be delivered before its answer */
    lab_send(call);
}

static void on_page(struct lab_call *call, const struct lab_answer *answer)
{
    struct walk *w = call->of;
    if (answer == NULL) { /* the same page again */
        lab_send_later(call, SECOND);
        return;
    }
    for (unsigned i = 0; i < answer->n; i++) {
        struct letter *l = g_hash_table_lookup(by_id, answer->items[i].id);
        /* It may be dropped while a page is on its way, and stored again afterwards. */
        if (l == NULL || (l->dropped_us && l->dropped_us < call->sent_us && !l->vague))
            broken("lab: a page shows %s", answer->items[i].id);
        else
            l->walk = w->number;
        if (l && l->shown_us == 0 && lost_us < call->sent_us)
            l->shown_us = world.now_us;
    }
    change_some(w);
    if (answer->more) {
        call->ask.after_ms = answer->after_ms;
        snprintf(w->after, sizeof(w->after), "%s", answer->after);
    } else {
        call->ask.bucket++;
        call->ask.after_ms = 0;
        w->after[0] = '\0';
    }
    if (call->ask.bucket == BUCKETS)
        end_walk(w);
    else
        lab_send_later(call, skewed(100, SECOND));
}

static void init(void)
{
    letters = g_ptr_array_new();
    by_id = g_hash_table_new(g_str_hash, g_str_equal);
    walk.stream = stream_new('w', 0);
    walk.page = lab_call_new(LAB_DEAD, ROUTE, "", on_page, &walk, &walk.stream);
    walk.page->ask.what = DEAD_WHAT_LIST;
    walk.page->ask.max = PAGE;
    uint64_t *before = draw_from(&walk.stream);
    after(5 * SECOND, begin_walk, &walk, 0);
    draw_from(before);
}

static void write_conf(FILE *out, bool routes)
{
    if (routes)
        fprintf(out,
                "  dying: { from = \"lab\"; to = \"dying\"; match = \"dying\"; topic = "
                "\"x\"; buckets = %d; };\n",
                BUCKETS);
    else
        fprintf(out, "  dying: { type = \"lab\"; };\n");
}

static void on_stored(struct lab_call *call, const struct lab_answer *answer)
{
    struct letter *l = call->of;
    if (answer && answer->code != NOT_STORED)
        return;
    l->vague = true; /* it may be stored twice */
    lab_send_later(call, skewed(10 * MS, 5 * SECOND));
}

static void produce(struct step *step, int64_t number)
{
    for (int64_t n = one_in(3) ? between(2, 10) : 1, i = 0; i < n; i++) {
        struct letter *l = mem_alloc(sizeof(*l));
        l->number = lab_number(number, i);
        snprintf(l->id, sizeof(l->id), "letter-%lld", (long long)l->number);
        g_ptr_array_add(letters, l);
        g_hash_table_insert(by_id, l->id, l);
        struct lab_call *call =
            lab_call_new(LAB_SUBMIT, ROUTE, l->id, on_stored, l, &step->stream);
        call->ask.number = l->number;
        lab_send(call);
    }
}

/* Two seconds after a rejection. */
static void note_dead(void *arg, int64_t handed_us)
{
    struct letter *l = arg;
    if (l->handed_us == handed_us &&
        core_is_calm_since(l->core, handed_us - 15 * SECOND) && !l->vague)
        l->dead_us = world.now_us;
}

static void deliver(struct sim_core *core, void *delivery, const struct lab_delivery *d)
{
    struct letter *l = g_hash_table_lookup(by_id, d->id);
    must(l != NULL);
    tell("lab: core%u delivers %s, attempt %u", core->index, d->id, d->attempt);
    if (l->dropped_us && !l->vague)
        broken("lab: core%u delivers %s, which was dropped at %.6f", core->index, d->id,
               (double)l->dropped_us / 1e6);
    if (l->dead_us && l->changed_us == 0 && !l->vague)
        broken("lab: core%u delivers %s, which is a dead letter", core->index, d->id);
    uint64_t *before = draw_from(&core->stream);
    bool rejects = one_in(2);
    draw_from(before);
    l->core = core;
    l->handed_us = world.now_us;
    l->left = true;
    l->rejected = l->rejected || rejects;
    l->delivered = l->delivered || !rejects;
    if (rejects)
        after(2 * SECOND, note_dead, l, l->handed_us);
    before = draw_from(&core->stream);
    /* Some are rejected together, so they are buried in the same ms. */
    int64_t after_us = one_in(2) ? MS : skewed(100, 20 * MS);
    lab_outcome(core, delivery, after_us, rejects ? REJECTED : DELIVERED);
    draw_from(before);
}

static void lost(int64_t since_us)
{
    lost_us = world.now_us;
    for (guint i = 0; i < letters->len; i++) {
        struct letter *l = letters->pdata[i];
        l->vague = !exists_since(l, since_us);
        if (l->dropped_us >= since_us)
            l->dropped_us = 0; /* the drop may be lost */
    }
}

static int64_t latest_us(void)
{
    return world.now_us;
}

static bool is_done(void)
{
    for (guint i = 0; i < letters->len; i++) {
        const struct letter *l = letters->pdata[i];
        if (l->left || l->vague)
            continue;
        if (world.now_us > faults_end_us() + 180 * SECOND)
            broken("G2: lab: %s is not delivered", l->id);
        return false;
    }
    return lab_redis("HLEN", "tarry:{dying/0}:pool", "") ==
               lab_redis("ZCARD", "tarry:{dying/0}:error", "") &&
           lab_redis("HLEN", "tarry:{dying/1}:pool", "") ==
               lab_redis("ZCARD", "tarry:{dying/1}:error", "");
}

static void judge(void)
{
    for (guint i = 0; i < letters->len && !world.failed; i++) {
        const struct letter *l = letters->pdata[i];
        if (exists_since(l, world.now_us) &&
            lab_redis("ZSCORE", "tarry:{dying/0}:error", l->id) < 0 &&
            lab_redis("ZSCORE", "tarry:{dying/1}:error", l->id) < 0)
            broken("lab: the dead letter %s is gone", l->id);
    }
}

const struct lab_feature lab_dead = {
    .write_conf = write_conf,
    .init = init,
    .produce = produce,
    .deliver = deliver,
    .lost = lost,
    .latest_us = latest_us,
    .is_done = is_done,
    .judge = judge,
};
