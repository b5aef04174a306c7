/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_internal.h - shared by the files of the Redis model. */
#ifndef TESTS_SIM_REDIS_MODEL_INTERNAL_H
#define TESTS_SIM_REDIS_MODEL_INTERNAL_H

#include "bridge/base/mem.h"
#include "tests/sim/redis_model.h"

#include <glib.h>
#include <lua.h>

/* --- redis_model_memory.c --- */

/* n: as it was allocated. */
void *block_new(size_t n);
void block_free(void *p, size_t n);
void *block_resize(void *p, size_t old, size_t n); /* p NULL: new; n 0: freed */

/* --- redis_model_data.c: the values --- */

enum value_type { VALUE_HASH, VALUE_ZSET, VALUE_LIST };

/* Bytes on the heap, p behind the struct; the keys of all hash tables. */
struct slice *bytes_new(struct slice s);
void bytes_free(void *bytes);

struct member {
    double score;
    int edge; /* only of a searched position: before (-1) or behind (1) all members of
                 this score */
    struct slice *name;
    GSequenceIter *at;
};

struct value {
    enum value_type type;
    int64_t expires_ms; /* 0: never */
    GHashTable *table; /* of a hash: struct slice -> struct slice; of a sorted set: struct
                          slice -> struct member */
    GSequence *order;  /* of a sorted set: its members by score and name */
    GPtrArray *list;   /* of struct slice */
};

struct db {
    GHashTable *keys; /* struct slice -> struct value */
};

void db_init(struct db *db);
void db_fini(struct db *db);
void db_copy(const struct db *from, struct db *to); /* to: not initialised */
size_t db_size(const struct db *db);                /* entries of all values */
void db_drop_key(struct db *db, struct slice key);
/* A cursor of HSCAN and ZSCAN is the least hash of the members that are still to be
 * returned. */
guint bytes_hash(gconstpointer bytes);
gboolean bytes_equal(gconstpointer a, gconstpointer b);
int by_bytes(struct slice a, struct slice b); /* as memcmp() */

void zset_put(struct value *zset, struct slice name, double score);
bool zset_remove(struct value *zset, struct slice name);

/* --- one command --- */

/* A command of a connection or of a script. */
struct call {
    struct redis_model *m;
    struct slice *args; /* args[0]: its name */
    unsigned count;
    struct buf *out; /* its reply, in RESP */
};

enum { COMMAND_WRITE = 1, COMMAND_DENY_OOM = 2, COMMAND_NO_SCRIPT = 4 };
struct command {
    const char *name;
    int arity; /* number of arguments with the name; negative: at least that many */
    unsigned flags;
    void (*run)(struct call *c);
};
/* End with a row of zeros. */
extern const struct command hash_commands[], zset_commands[], key_commands[],
    server_commands[], replica_commands[], cluster_commands[];

enum { NUMBER_BYTES = 32 };
/* Write the text of a number, without a terminating 0; return its length. */
size_t int_text(char *to, int64_t n);
size_t number_text(char *to, double n); /* as Redis writes a score */

void reply_error(struct call *c, const char *text); /* "ERR ..." */
void reply_int(struct call *c, int64_t n);
void reply_bulk(struct call *c, struct slice s); /* p NULL: nil */
void reply_array(struct call *c, size_t n);
void reply_score(struct call *c, double score);
void reply_ok(struct call *c);
/* Return whether the argument is valid; otherwise they reply with an error. */
bool parse_digits(struct slice text, int64_t *n); /* at most 15 digits, no sign */
bool parse_int(struct slice text, int64_t *n);
bool arg_int(struct call *c, unsigned i, int64_t *n);
bool arg_is(const struct call *c, unsigned i, const char *word); /* ignores case */

/* Returns the value of a key that has not expired, or NULL. */
struct value *live(struct redis_model *m, struct slice key);
/* Returns the value of the key. NULL: there is none, or *failed is set because it has
 * another type. */
struct value *call_find(struct call *c, unsigned key, enum value_type type, bool *failed);
/* The same; makes a missing value. NULL: it has another type. */
struct value *call_make(struct call *c, unsigned key, enum value_type type);
/* Removes the key if its value has become empty. */
void call_tidy(struct call *c, unsigned key, const struct value *v);
/* Replies to HSCAN or ZSCAN. add: appends the two texts of a member to the reply. */
void call_scan(struct call *c, enum value_type type,
               void (*add)(struct call *c, const struct slice *name, void *data));

/* --- redis_model.c --- */

struct redis_model {
    struct db db;
    int64_t now_us;
    struct redis_faults faults;
    struct redis_replica replicas[REDIS_REPLICAS_MAX];
    struct slice primary[2]; /* of REPLICAOF: host and port */
    bool fsync_always;       /* a setting that clients can read */
    GHashTable *commands;    /* struct slice -> struct command */
    GPtrArray *conns;        /* struct redis_conn */
    redis_command_cb *on_command;
    void *on_command_arg;
    uint64_t random; /* set from the time before each command, so that a replay chooses
                        alike */
    /* scripts */
    lua_State *lua;
    GPtrArray *scripts; /* struct script; also those flushed */
    bool replays;       /* the disk: all scripts are there */
    bool script_wrote, script_oom;
    struct buf call_args, call_reply; /* of redis.call(); kept for the next one */
    /* as a node of a cluster */
    struct redis_view *view; /* NULL: it is none */
    bool serves;             /* the command is of a connection */
    bool is_asking;          /* after ASKING */
    redis_publish_cb *on_publish;
    void *on_publish_arg;
    /* the disk */
    bool records, wrote; /* wrote: the running command has called a command that writes */
    struct db synced, later; /* copies of the data; later: replaces `synced` when nothing
                                before it is needed any more */
    GPtrArray *journal;      /* struct entry: commands since `synced` that wrote */
    size_t uncopied_args;    /* of the commands since the last copy */
    /* Numbers of commands that wrote: all; those in `synced` and `later`; those that a
     * crash cannot lose. later_at 0: there is no such copy. */
    uint64_t offset, synced_at, later_at, durable;
};

struct redis_conn {
    struct redis_model *m;
    redis_output_cb *output;
    void *arg;
    struct buf in, out;
    GHashTable *channels; /* NULL: no subscription; struct slice */
    bool is_asking;       /* its next command */
    uint64_t wrote_at;    /* the offset after its last command that wrote */
    struct {
        bool is_open;     /* later commands wait */
        int64_t replicas; /* that must have wrote_at */
        int64_t until_us; /* by the clock of the server */
    } wait;
};

/* Executes the command and appends its reply. by_script: checks what Redis checks for a
 * script. */
void model_execute(struct call *c, bool by_script);
uint64_t model_random(struct redis_model *m);
/* Executes the commands that a connection has sent. */
void model_continue(struct redis_conn *c);
/* Reports a reply to the observer of the model. */
void model_report(const struct call *c, struct slice reply);
/* Appends what PUBLISH sends; returns the number of receivers. */
unsigned model_publish(struct redis_model *m, struct slice channel, struct slice message);

/* --- redis_model_replicas.c --- */

/* Whether the call is a WAIT that has no reply yet. */
bool model_wait(struct redis_conn *conn, struct call *c);
/* Returns how many replicas have that many commands. */
unsigned model_replicas_with(const struct redis_model *m, uint64_t offset);
/* Returns the number of commands that each replica which is online has. */
uint64_t model_replicated(const struct redis_model *m);

/* --- redis_model_cluster.c --- */

/* Replies with an error if this node does not serve the keys of the command; returns
 * whether it did. */
bool model_redirects(struct call *c, bool by_script);
bool model_is_replica(const struct redis_model *m);

/* --- redis_model_scripts.c --- */

struct source {
    struct slice *text;
    char sha[41];
    struct buf code; /* of Lua */
};

/* A script of one server. */
struct script {
    const struct source *source;
    int reference; /* of the function, in Lua's registry */
    bool loaded;   /* false: SCRIPT FLUSH has removed it */
};

/* Compiles the script. Replies with its SHA-1. */
void model_script_load(struct call *c, struct slice text);
void model_scripts_flush(struct redis_model *m);
/* Returns NULL if it is not loaded; during a replay of the disk all are. */
const struct script *model_find_script(const struct redis_model *m, struct slice sha);

/* --- redis_model_lua.c --- */

void model_lua_open(struct redis_model *m);
void model_lua_close(struct redis_model *m);
void model_evalsha(struct call *c);

#endif
