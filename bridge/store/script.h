/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * script.h - the Lua scripts of lua/, embedded at build time, loaded once per connection
 * and called by their digest.
 */
#ifndef BRIDGE_SCRIPT_H
#define BRIDGE_SCRIPT_H

#include "bridge/base/histogram.h"
#include "bridge/redis/redis.h"
#include "bridge/redis/resp.h"
#include "bridge/store/calls.h"

#include <stdint.h>

struct lua_file {
    const char *name; /* "claim" for lua/claim.lua */
    const char *text;
};
extern const struct lua_file
    lua_files[]; /* made by etc/build/embed-lua.sh; ends with NULLs */

const char *script_name(enum script s);
/* Of a change that was sent again, pairs: its answer, and that of the first run, which
 * was lost. NULL: the script knows. */
extern const char *const script_again[SCRIPTS];

struct scripts { /* the same on all servers */
    char sha[SCRIPTS][41];
    /* For the metrics: calls sent, and how long their answers took. */
    uint64_t calls[SCRIPTS];
    struct histogram took[SCRIPTS];
};
struct script_load { /* onto one server */
    struct scripts *scripts;
    unsigned open; /* not answered yet */
    unsigned failed;
    void (*done)(void *arg, bool ok);
    void *arg;
};

/* Sends SCRIPT LOAD for each; done is called when all are answered. None may be open. */
void scripts_load(struct script_load *load, struct scripts *s, struct redis *r,
                  void (*done)(void *arg, bool ok), void *arg);

/* The arguments of one call, reused from call to call; zeroed is ready. */
struct args {
    struct resp command;
};
void args_free(struct args *a);
/* Starts a call: EVALSHA digest key-count keys. */
void args_begin(struct args *a, const struct scripts *s, enum script script,
                const struct slice *keys, unsigned key_count);
void args_slice(struct args *a, struct slice s); /* copied */
void args_number(struct args *a, int64_t n);
void args_number_or_none(struct args *a, int64_t n); /* '' for 0 */
void args_letter(struct args *a, char letter);       /* '' for 0 */
void args_flag(struct args *a, bool on);
/* As one: the letter, 0: none; + if the change was sent before; its number, 0: none. */
void args_how(struct args *a, char letter, bool again, int64_t number);
void args_send(struct args *a, struct scripts *s, enum script script, struct redis *r,
               redis_reply_cb *cb, void *arg);

#endif
