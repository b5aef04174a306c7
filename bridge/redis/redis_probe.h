/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_probe.h - facts about a Redis server: its clock, its persistence, and its memory.
 * Read once per connection; its usage is read repeatedly. Loop thread.
 *
 * It uses CONFIG GET if allowed, else only INFO.
 */
#ifndef BRIDGE_REDIS_PROBE_H
#define BRIDGE_REDIS_PROBE_H

#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

/* An estimate of Redis' clock. Only TIME of Redis decides whether a job is due. The
 * daemon needs an estimate to turn "in 3 s" into a due time and to sleep until a due
 * time. Each TIME reply gives a lower and an upper bound of the offset to our monotonic
 * clock, because Redis read its clock after the command was sent and before the reply
 * arrived. Pure: the caller passes all times. */
enum { CLOCK_SAMPLES = 8 };

/* A zeroed clock is valid and not set. */
struct clock {
    int64_t low_us[CLOCK_SAMPLES], high_us[CLOCK_SAMPLES]; /* Redis' time minus ours */
    unsigned count, next;
    int64_t best_low_us, best_high_us;
};

/* Adds one TIME reply. sent_us, received_us: our monotonic clock. redis_us: the time in
 * the reply. All in microseconds. */
void clock_sample(struct clock *c, int64_t sent_us, int64_t received_us,
                  int64_t redis_us);
bool clock_is_set(const struct clock *c);
/* Redis' time in ms, never too early: a delay counted from it is never too short. */
int64_t clock_now_ms(const struct clock *c, int64_t mono_us);
/* How long to sleep, in us, until Redis' clock has certainly reached due_ms; 0: it has.
 * */
int64_t clock_until_us(const struct clock *c, int64_t mono_us, int64_t due_ms);

enum redis_persistence {
    PERSISTS_UNKNOWN,      /* not reported, or only that an append-only file exists */
    PERSISTS_NOTHING,      /* in memory only */
    PERSISTS_SNAPSHOTS,    /* no append-only file, only snapshots */
    PERSISTS_EVERY_SECOND, /* append-only file, synced each second or by the kernel */
    PERSISTS_EVERY_WRITE   /* appendfsync always */
};

struct redis_facts {
    enum redis_persistence persistence;
    int evicts;           /* maxmemory-policy is not noeviction: Redis may drop jobs */
    unsigned replicas;    /* connected replicas */
    int64_t min_replicas; /* min-replicas-to-write; -1: unknown */
    int64_t used_bytes, max_bytes; /* -1: unknown; max_bytes 0: no limit */
    int64_t clients, blocked_clients;
    unsigned db; /* set by the caller: keys and expiring_keys count it */
    int64_t keys, expiring_keys;
    char version[24];
    /* Inputs of persistence; -1: unknown. */
    int appends, fsync_always, no_fsync_on_rewrite; /* CONFIG GET */
    int saves;                                      /* CONFIG GET; 0: no snapshots */
    int aof_enabled;                                /* INFO */
};

typedef void redis_probe_cb(void *arg, bool answered);
/* Fills in facts, which must stay valid until cb. cb is called once, at once or later. r
 * must be up. answered false: the connection was lost, or Redis could not answer yet. */
void redis_probe(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                 void *arg);
/* Name of the level: "unknown", "memory", "snapshots", "every-second", "every-write". */
const char *redis_persistence_name(enum redis_persistence persistence);
/* Updates only memory, replicas, clients and keys, with INFO. */
void redis_probe_usage(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                       void *arg);

/* The option durability. */
struct durability {
    bool fsync;
    unsigned replicas; /* for WAIT; 0: none */
};
int durability_parse(const char *text, struct durability *out, struct err *err);
/* memory_mark: "90%" or a size. */
struct memory_mark {
    unsigned percent; /* 0: use bytes */
    int64_t bytes;    /* both 0: no mark */
};
int memory_mark_parse(const char *text, struct memory_mark *out, struct err *err);
/* Whether used memory is above the mark. was: the previous result; true stays true until
 * usage falls 5 % below the mark. */
bool memory_mark_passed(const struct memory_mark *mark, const struct redis_facts *facts,
                        bool was);
/* Checks the requirements. -1: the server is too old for our scripts or cannot provide
 * `want`; err says what to change. Too few replicas are no error, because they may
 * connect later. An unknown version ("") is accepted. */
int redis_facts_fit(const struct redis_facts *facts, const struct durability *want,
                    struct err *err);
/* Reports each fact that an operator should know as one sentence. serious: jobs may be
 * lost. */
typedef void redis_warn_cb(void *arg, bool serious, const char *text);
void redis_facts_judge(const struct redis_facts *facts, const struct durability *want,
                       redis_warn_cb *warn, void *arg);
/* Logs these sentences: serious ones as errors, others as warnings. */
void redis_facts_warn(const struct redis_facts *facts, const struct durability *want);

/* The pure parts of a probe, in call order: reset, the text of each section of INFO, each
 * parameter of CONFIG GET (value p NULL: not permitted), the result. */
void redis_facts_begin(struct redis_facts *facts);
void redis_facts_info(struct redis_facts *facts, struct slice text);
void redis_facts_config(struct redis_facts *facts, struct slice name, struct slice value);
enum redis_persistence redis_facts_persistence(const struct redis_facts *facts);

#endif
