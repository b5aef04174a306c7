/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world.h - what the files of the simulated world share. One process simulates one seed;
 * nothing is freed before it ends, except what grows with the simulated time.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "tests/sim/host.h"
#include "tests/sim/redis_model.h"

#include <stdio.h>

enum { CORES_MAX = 3, KEYS_MAX = 1000, SERVERS_MAX = 8, CONSUMERS_MAX = 6 };
#define NEVER INT64_MAX
#define MS INT64_C(1000)
#define SECOND (1000 * MS)

/* --- world.c: time, chance, the story --- */

/* A fault or a job of a plan. Its chances are its own: it happens alike if others are
 * left out. */
struct step {
    int64_t us;
    uint64_t stream;
    unsigned number;
    bool kept;
};

struct steps {
    struct step *at;
    size_t n, begun; /* all; up to the last one that has begun */
};

/* What one seed is like. */
struct plan {
    unsigned cores, servers;
    unsigned masters; /* of a Redis Cluster; 0: it is none */
    int64_t faults_end_us;
    int64_t fault_every_us;               /* mean; NEVER: none */
    int64_t record_every_us;              /* mean */
    unsigned jobs_max, bursts, burst_max; /* bursts: one in so many is of many jobs */
    unsigned messages;     /* one request in so many is a message of the session */
    unsigned cancels;      /* one job in so many comes with a cancel of another */
    unsigned queued, keys; /* one request in so many is for the queue; different keys */
    int64_t outcomes_every_us; /* the receiver answers then, at once */
    unsigned read_max; /* records of the log that a reader fetches at once, mostly */
    int64_t far_ms;    /* the longest delay */
    bool fsync_always;
    unsigned replicas;   /* of each server */
    unsigned wait_for;   /* durability = "replicas:N"; 0: none */
    bool checks_fsync;   /* durability = "fsync" */
    bool by_key;         /* order = "key" */
    unsigned buckets;    /* of each route */
    unsigned consumers;  /* of the queue; 0: no queue */
    bool log_is_queued;  /* the records of the log are for the queue */
    bool latest;         /* start = "latest" */
    bool static_members; /* of the consumer group */
    bool rewinds;        /* operators rewind the log */
    bool sessions;       /* some producers use the session */
    unsigned lab;        /* one job in so many is one of the laboratory; 0: none */
    bool global_ids;     /* of its queues */
    bool clock_jumps;
    enum {
        ALL_FAULTS,
        ONLY_MOVES,
        ONLY_JUMPS,
        ONLY_SCRIPTS
    } only;              /* the only faults that happen */
    uint64_t left_out;   /* kinds of faults that do not happen, as bits */
    unsigned sink_fails; /* one delivery in so many; 0: none */
    int64_t slow_us;     /* how long a delivery lasts at most; 0: it is fast */
    int64_t horizon_ms, batch_max, in_flight_max, queue_max_jobs;
    int64_t latency_max_us; /* to Redis, one way, mostly */
    struct steps faults, jobs;
    bool whole_time; /* else the faults end soon after the last step that is kept */
};

struct totals {
    int64_t simulated_us, jobs, deliveries, faults, lives, turns, redis_commands;
};

struct world {
    int64_t now_us; /* since the beginning */
    uint64_t seed;
    uint64_t order;   /* another one: other chances of the cores and the network */
    uint64_t *stream; /* where chance() draws from */
    struct plan plan;
    struct totals totals;
    FILE *story; /* NULL: not written */
    int64_t last_fault_us;
    int64_t pausing_us;      /* the last one that may pause a source */
    int64_t shared_fault_us; /* the last one that was not of one core only */
    int64_t hurt_us;         /* the end of the last one before all have ended */
    bool healed;             /* faults have ended */
    bool failed;
    bool counts;      /* what it reaches */
    char reason[256]; /* of the failure */
};
extern struct world world;

uint64_t chance(void);                        /* 32 bits */
int64_t between(int64_t least, int64_t most); /* both included */
bool one_in(unsigned n);
/* Mostly near least, seldom near most: for delays. */
int64_t skewed(int64_t least, int64_t most);

/* Calls fn(arg, number) at that time; of equal times in the order of the calls. It draws
 * from the stream of the caller. */
void at(int64_t us, void (*fn)(void *arg, int64_t number), void *arg, int64_t number);
void after(int64_t us, void (*fn)(void *arg, int64_t number), void *arg, int64_t number);

/* Runs until then, or until a guarantee is broken. until_done: or until all jobs have
 * left. */
void world_run(int64_t until_us, bool until_done);

/* One line of the story. */
void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A guarantee was broken: the seed fails. */
void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Something happened that may cause duplicates. */
void fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, but only to what this core has in flight, until then. */
void fault_of(struct sim_core *core, int64_t until_us, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The end of all faults so far, also of those that last beyond the present; NEVER: calls
 * of a script are yet to fail. */
int64_t faults_end_us(void);
int64_t faults_over_us(void); /* the same, but a clock may not have regained its time */
/* Whether no fault has affected this core after that time. */
bool core_is_calm_since(const struct sim_core *core, int64_t us);

/* --- plan.c --- */

/* Returns the state of a stream of chances: of the seed, a kind of thing, and its number.
 */
uint64_t stream_new(char kind, uint64_t number);
/* Sets where chance() draws from; returns what it was before. */
uint64_t *draw_from(uint64_t *stream);
/* Chooses when the faults and the jobs of the plan happen. */
void plan_steps(struct plan *p);
int64_t plan_end_us(const struct plan *p);
/* Leaves out all steps but those of the words: "f3", "j10-12", "sink" (it fails), "time"
 * (the whole), "o1" (order of chances). No words: keeps all. */
void plan_keep(struct plan *p, const char *const *words, size_t n);

/* --- seed.c --- */

extern const char conf_file[];
/* Writes the configuration. Again: with other limits and retries, which is no fault. */
void seed_write_conf(void);

/* --- faults.c --- */

void faults_init(void); /* those of the plan */
/* The kinds, as bits of left_out, that concern a change of the number of buckets. */
uint64_t faults_of_buckets(void);
/* Called when the daemon has ended by itself: starts it again. */
void core_ended(struct sim_core *core, int code);

/* --- reached.c --- */

void reached_open(void);          /* before the first seed */
void reached_use(unsigned child); /* each child process has a table of its own */
void reached_watch(void);         /* counts the commands that Redis executes */
void reached(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void reached_line(struct slice line);   /* of the log of a core */
void reached_write(const char *path);   /* "COUNT NAME" of all seeds */
const char *reached_script(int script); /* the name of a script of lua/ */
const char *reached_sha(int script);

/* --- world_core.c --- */

struct sim_core {
    unsigned index;
    struct sim_entry *entry;
    unsigned life;
    bool alive;
    int64_t mono_offset_us, wall_offset_us;
    uint64_t random; /* of the daemon */
    uint64_t stream; /* of the world, for this core and its connections */
    int64_t turn_at, until_us, busy_until_us;
    int64_t fault_us;     /* the end of the last fault of its own; may be in the future */
    unsigned log_buckets; /* of the route log, as it has read at its start */
    bool reloads;         /* and has not said how that ended */
    bool has_started;     /* this life is ready */
    int64_t refused_us;   /* it has last refused another number */
    struct inbox *inbox;
    struct coroutine *coroutine;
    struct image *image; /* its variables, as they were after loading */
};
extern struct sim_core cores[CORES_MAX];

/* Loads CORES_MAX copies of the file; called once, before the seeds. */
void cores_load(const char *file);
void core_start(struct sim_core *core);
void core_kill(struct sim_core *core, const char *why);
/* Stops to run until then, as after SIGSTOP. */
void core_stall(struct sim_core *core, int64_t until_us);
void core_signal(struct sim_core *core, int signo);
/* Copies the bytes of the event. */
void core_event(struct sim_core *core, const struct event *event);
void core_forget(struct sim_core *core, const void *of); /* drops its events */

/* --- world_servers.c: the Redis servers --- */

struct server {
    unsigned index, port;
    struct redis_model *redis;
    bool down;
    int64_t clock_us;         /* its time minus world.now_us */
    int64_t latest_ms;        /* the latest time that it has had */
    int64_t regained_us;      /* when its clock shows that time again; past: it does */
    int64_t synced_us;        /* the disk has all until then */
    bool fails_move;          /* the script that fails is lua/move.lua */
    bool pauses_nobody;       /* it fails for consumers only */
    int64_t script_failed_us; /* when the script last failed */
};
#define SERVERS_CLOCK_US (1795000000 * SECOND) /* clock_us at the beginning */
extern struct server servers[SERVERS_MAX];     /* the first plan.servers of them */

void servers_init(void);
struct server *server_at(const char *host, const char *port); /* NULL: there is none */
struct server *any_server(void);
struct server *server_of(struct slice key); /* that has the key, or may get it */
int64_t server_now_us(const struct server *s);
void server_tick(struct server *s); /* sets the clock of the model */
/* The latest time that any of them has had. */
int64_t servers_latest_ms(void);
/* Returns when the clocks of all will have passed this time. */
int64_t servers_due_us(int64_t due_ms);
void servers_sync(void *arg, int64_t number); /* every second from now on */
void server_crash(struct server *s, size_t lost);
void server_start(struct server *s);
void server_set_clock(struct server *s, int64_t by_us); /* changes it */
void server_choose_clock(struct server *s); /* at most an hour from the right time */
/* The server has lost all that it executed since then. promised: but nothing that was
 * accepted. */
void server_lost(struct server *s, int64_t since_us, bool promised);
/* Returns when the last clock that was set back shows its former time again. */
/* `to` gets keys with times by the clock of `from`. */
void server_inherits(struct server *to, struct server *from);
int64_t servers_regained_us(void);
int64_t servers_last_loss_us(void); /* when a crash lost commands; 0: never */
bool servers_are_up(void);
void servers_heal(void); /* ends their faults */

/* --- world_replicas.c --- */

void replicas_init(void);
void replicas_heal(void);
void replicas_note_command(struct server *s); /* it has executed a command */
void replicas_note_time(struct server *s);    /* ends its WAITs that are over */
void replicas_of_crashed(struct server *s);
/* Faults. */
void replica_halts(void); /* receives nothing for a time */
void replica_leaves(void);
/* Whether so many are online as durability requires. */
bool replicas_are_enough(void);
void fail_over(void);

/* --- world_cluster.c: the servers as a Redis Cluster; plan.masters 0: nothing --- */

void cluster_init(void);
struct server *cluster_holder(struct slice key);
bool cluster_moves(struct slice key); /* its slot is on its way */
void cluster_server_starts(struct server *s);
/* Faults: a slot moves to another node; a node replaces another; a node does not hear the
 * others. */
void cluster_move_slot(struct sim_core *core);
void cluster_fail_over(struct sim_core *core);
void cluster_isolate(struct sim_core *core);
void cluster_heal(void); /* after servers_heal() */
bool cluster_is_whole(void);

/* --- world_net.c: connections --- */

/* host, port: of a server; the connection is refused if there is none. */
struct conn *conn_open(struct sim_core *core, void *net, const char *host,
                       const char *port);
void conn_send(struct conn *conn, struct slice bytes);
void conn_close(struct conn *conn);
void conns_of_dead(struct sim_core *core); /* the core was killed */
/* Cuts connections of a core: both ends notice (quietly false), or none of them. */
void conns_cut(struct sim_core *core, bool quietly);
void conns_slow(struct sim_core *core,
                int64_t until_us); /* its replies are held until then */
/* Nothing of this core reaches the server until then, and nobody is told. */
void conns_block(struct sim_core *core, struct server *s, int64_t until_us);
void conns_of_crashed(struct server *s); /* the server has crashed */

/* --- world_jobs.c, world_log.c, world_requests.c, world_receiver.c --- */

void jobs_init(void);
void jobs_submitted(struct sim_core *core, int64_t number, unsigned incarnation);
void jobs_stored(struct sim_core *core, int64_t number, int outcome, const char *reason);
/* The number of buckets has changed. Another bucket does not know the records that it did
 * not store, so those without a commit are delivered again. */
void log_rebucketed(void);
unsigned log_offsets_at(int64_t to_ms, struct group_row *rows, int64_t *ends);
bool log_is_made(void);
void log_truncate(struct sim_core *core); /* faults */
void log_grow(struct sim_core *core);
void log_delete(struct sim_core *core);
int group_call(struct sim_core *core, enum group_call what, const struct group_row *rows,
               unsigned n, uint64_t round);
bool group_event(struct sim_core *core, struct group_event *event);
bool group_has_left(struct sim_core *core);
bool group_is_lost(struct sim_core *core);
bool group_watermarks(struct sim_core *core, int32_t partition, int64_t *low,
                      int64_t *end);
void group_stalled(struct sim_core *core); /* it stalls */
bool group_may_rewind(void);
void group_drop(struct sim_core *core); /* faults */
void group_rewind(struct sim_core *core);
const struct record *jobs_request(struct sim_core *core, int64_t number);
void jobs_answered(struct sim_core *core, int64_t number, int outcome);
void jobs_deliver(struct sim_core *core, void *delivery, struct slice payload,
                  unsigned attempt, int64_t timeout_ms, bool dead);
void jobs_core_changed(struct sim_core *core); /* it has started or died */
bool jobs_are_done(void);                      /* nothing more is to be expected */
int64_t jobs_latest_us(void);                  /* when the last job must have left */
void jobs_judge(void);                         /* at the end */
void jobs_server_lost(int64_t since_us, bool promised); /* see server_lost() */

struct sim_core *any_core(void); /* that is alive, or NULL */

/* --- world_queue.c: consumers --- */

void consumers_init(void);
const struct ask *consumer_ask(struct sim_core *core, int64_t consumer);
void consumer_pulled(struct sim_core *core, int64_t consumer, int code,
                     const struct pulled *jobs, unsigned n);
void consumer_finished(struct sim_core *core, int64_t consumer, int code);

/* --- alive.c: nothing stalls without a fault --- */

void alive_init(void);
void alive_started(struct sim_core *core);
void alive_paused(struct sim_core *core, int source, bool paused);
bool alive_is_paused(const struct sim_core *core); /* one of its sources */
/* A request was answered: stored or not. */
void alive_answered(int64_t first_asked_us, bool stored);

/* --- memory.c: the memory of a core is bounded --- */

void memory_started(struct sim_core *core);
/* One of its sources may submit again. */
void memory_resumed(struct sim_core *core);
void memory_judge(void);

/* --- reconf.c: configurations that a core must refuse, or that lack a route --- */

#define ROUTES_MAX 2
extern struct reconf {
    unsigned buckets[ROUTES_MAX]; /* as written: of "log", "web" */
    unsigned buckets_max;         /* that any route ever had */
    bool lacks_web;               /* there is no route "web" */
    bool has_changed;             /* the buckets were once other ones */
} reconf;
void reconf_init(void);
void reconf_other_buckets(struct sim_core *core); /* faults */
void reconf_unnoticed_buckets(struct sim_core *core);
void reconf_less_routes(struct sim_core *core);
bool reconf_has_buckets(void);
void reconf_started(struct sim_core *core);
void reconf_line(struct sim_core *core, struct slice line); /* of its log */
/* When the configuration is the right one again, at the latest. */
int64_t reconf_us(void);
void reconf_end(void); /* of the faults: writes the right configuration */
/* A core has ended, since it refuses the configuration. Returns whether it may. */
bool reconf_refused(struct sim_core *core);
/* Redis has executed lua/meta.lua; or a crash has lost its last commands. */
void reconf_meta(bool crashed);

/* --- world_session.c --- */

void session_init(void);
void session_call(struct sim_core *core, enum session_call call, unsigned count);
bool session_event(struct sim_core *core, struct session_event *event);
void session_core_changed(struct sim_core *core);
bool session_exists(void);
void session_cut(struct sim_core *core); /* faults */
void session_take_over(struct sim_core *core);
void session_lose(struct sim_core *core);

/* --- lab.c: further features (lab.h) --- */

void lab_write_conf(FILE *out, bool routes); /* else the source and the sinks */
void lab_init(void);
bool lab_produce(struct step *step); /* whether the step is one of the laboratory */
const struct lab_ask *lab_ask(struct sim_core *core, void *call);
void lab_answer(struct sim_core *core, void *call, const struct lab_answer *answer);
void lab_deliver(struct sim_core *core, void *delivery, const struct lab_delivery *d);
void lab_server_lost(int64_t since_us);
int64_t lab_latest_us(void);
bool lab_is_done(void);
void lab_judge(void);

/* --- judge.c --- */

/* Whether only dead letters remain in Redis. */
bool judge_is_quiet(void);
void judge_redis(int64_t dead);
/* Audits a bucket. base: of its keys; ids: of a queue with global ids, else NULL. */
void judge_bucket(const char *base, const char *ids, const char *kind);

/* --- judge_keys.c --- */

/* lua/audit.lua of each bucket in Redis. At any time. */
void judge_audit(void);
void judge_audits(void); /* begins to do so, now and then */
/* Which keys remain, when all jobs have left. */
void judge_keys(void);

#endif
