/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_probe.h - what is known of a Redis server: its clock, how it keeps what it was
 * told, and how much room it has. Asked once per connection; memory again and again. Loop
 * thread.
 *
 * CONFIG GET where it is allowed, else INFO alone.
 */
#ifndef BRIDGE_REDIS_PROBE_H
#define BRIDGE_REDIS_PROBE_H

#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

/* Redis' clock, as seen from here. Due is judged by Redis' TIME alone. To turn "in 3 s"
 * into a due time, and to sleep until one, the daemon needs to know that clock between
 * two replies: each TIME reply gives a lower and an upper bound of the offset to our
 * monotonic clock (it was read after the command left and before the reply came). Pure:
 * times are handed in. */
enum { CLOCK_SAMPLES = 8 };

/* Zeroed is ready, and knows nothing yet. */
struct clock {
    int64_t low_us[CLOCK_SAMPLES], high_us[CLOCK_SAMPLES]; /* Redis' time minus ours */
    unsigned count, next;
    int64_t best_low_us, best_high_us;
};

/* One TIME reply: when the command left and the reply came (our monotonic clock), and
 * what it said. All in microseconds. */
void clock_sample(struct clock *c, int64_t sent_us, int64_t received_us,
                  int64_t redis_us);
bool clock_is_set(const struct clock *c);
/* Redis' time in ms, rounded up, and never less than it truly is: a delay counted from
 * here is never too short. */
int64_t clock_now_ms(const struct clock *c, int64_t mono_us);
/* How long to sleep, in us, until Redis' clock surely shows due_ms; 0 when it does. */
int64_t clock_until_us(const struct clock *c, int64_t mono_us, int64_t due_ms);

enum redis_durability {
    KEEPS_UNKNOWN, /* the server does not say, or only that it has an append-only file */
    KEEPS_NOTHING, /* in memory only */
    KEEPS_SNAPSHOTS, /* no append-only file; at most snapshots */
    KEEPS_SECOND, /* an append-only file, synced each second, or by the kernel's will */
    KEEPS_ALL     /* appendfsync always */
};

struct redis_facts {
    enum redis_durability keeps;
    bool evicts;          /* maxmemory-policy is not noeviction: it may drop jobs */
    unsigned replicas;    /* connected */
    int64_t min_replicas; /* min-replicas-to-write; -1: it does not say */
    int64_t used_bytes, max_bytes; /* -1: not known; max 0: no limit */
    char run_id[41], version[24];
    /* What tells of keeps: */
    bool appends_told, fsync_told; /* CONFIG GET has said so */
    bool appends, fsync_always, saves;
    bool rests_on_rewrite; /* no-appendfsync-on-rewrite */
    int aof_enabled;       /* of INFO; -1: it does not say */
};

typedef void redis_probe_cb(void *arg, bool answered);
/* Fills facts in; it must stay until cb, which is called once, at once or later. r must
 * be up. answered false: the connection went. */
void redis_probe(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                 void *arg);
/* Only used_bytes, max_bytes and replicas, by INFO. */
void redis_probe_memory(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                        void *arg);

/* durability: of the configuration. */
struct durability {
    bool fsync;
    unsigned replicas; /* of WAIT; 0: none */
};
int durability_parse(const char *text, struct durability *out, struct err *err);
/* memory_mark: "90%" or a size. */
struct memory_mark {
    unsigned percent; /* 0: bytes counts */
    int64_t bytes;    /* 0 and percent 0: no mark */
};
int memory_mark_parse(const char *text, struct memory_mark *out, struct err *err);
/* Is it above its mark? was: it was so before; then it stays so until 5 % below. */
bool memory_mark_passed(const struct memory_mark *mark, const struct redis_facts *facts,
                        bool was);
/* -1: the server is too old for our scripts, or cannot do what was asked for, and err
 * says what to change. Too few replicas are no reason: they may come. An unknown version
 * ("") passes. */
int redis_facts_fit(const struct redis_facts *facts, const struct durability *want,
                    struct err *err);
/* What an operator should know, a sentence each. warn: serious: jobs may be lost. */
typedef void redis_warn_cb(void *arg, bool serious, const char *text);
void redis_facts_judge(const struct redis_facts *facts, const struct durability *want,
                       redis_warn_cb *warn, void *arg);
/* Logs them: the serious ones as errors, the others as warnings. */
void redis_facts_warn(const struct redis_facts *facts, const struct durability *want);

/* The pure parts of a probe, in the order of their use: nothing known, the text of each
 * section of INFO, each parameter of CONFIG GET (value p NULL: forbidden), the end. */
void redis_facts_begin(struct redis_facts *facts);
void redis_facts_info(struct redis_facts *facts, struct slice text);
void redis_facts_config(struct redis_facts *facts, const char *name, struct slice value);
enum redis_durability redis_facts_keeps(const struct redis_facts *facts);

#endif
