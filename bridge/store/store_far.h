/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_far.h - the second tier: jobs due later than redis.horizon wait in a list for
 * each slot of due time (lua/lib/far.lua), and move to the others shortly before.
 * Internal to the store.
 *
 * Here: when a slot is moved. Half a horizon before it begins its entries are fetched,
 * some hundred in a call, one call at a time on each server, with rests in between as
 * long as there is time; so claims and enqueues get their turns also where a million jobs
 * are due in one second. Every instance that hears of a slot may move it, the owner of
 * the bucket first: the script gives each entry once. Nothing is asked while no slot's
 * time has come. Loop thread.
 */
#ifndef BRIDGE_STORE_FAR_H
#define BRIDGE_STORE_FAR_H

#include <sys/queue.h>

#include <stdbool.h>
#include <stdint.h>

struct bucket;
struct store;
struct timer;

struct far {             /* of a bucket */
    int64_t first_ms;    /* start of its first slot, Redis' clock; -1: none is known of */
    bool left_to_owner;  /* another instance comes first */
    struct timer *timer; /* until that one's time; NULL: there was none yet */
    bool listed;         /* its time has come, and it is in line */
    TAILQ_ENTRY(bucket) link;
};

struct movers {       /* of a store */
    bool allowed;     /* this process moves */
    int64_t early_ms; /* before its start a slot's time has come */
    TAILQ_HEAD(, bucket) line;
    struct timer *timer; /* the end of a rest */
};

void far_init(struct store *st);
void far_fini(struct store *st);
void far_close(struct bucket *b);
/* What is due later goes to the second tier, in ms; 0: nothing does. */
int64_t far_horizon_ms(const struct store *st);
/* Redis says where the first slot of the bucket begins now; -1: it has none. */
void far_note(struct bucket *b, int64_t first_ms);
/* Once a second: goes on with what could not be asked, and after a clock was set. */
void far_tick(struct store *st);

#endif
