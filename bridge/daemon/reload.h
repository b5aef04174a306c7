/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload.h - replaces the configuration while the daemon runs. tarry reads and checks the
 * whole file, then applies it as a whole, or rejects it with all reasons.
 *
 * A source or sink with unchanged options continues and keeps its connections. A route
 * always continues. A source that changes is suspended, finishes its work and is stopped;
 * then the new one starts. A sink that changes finishes its deliveries beside the new one
 * (leave.h), unless both would disturb each other.
 *
 * Every step that can fail precedes the switch (reload_swap.c) and can be undone
 * (reload_undo.c). A reload that takes longer than daemon.stop_timeout is undone, too,
 * unless it has already stopped a source or sink. Loop thread.
 */
#ifndef BRIDGE_RELOAD_H
#define BRIDGE_RELOAD_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct reload;

/* file: read at each reload; copied. */
struct reload *reload_new(struct bridge *bridge, const char *file);
/* Call it after core_release(). r may be NULL. */
void reload_free(struct reload *r);

struct reload_reply {
    bool ok;
    uint64_t generation;  /* of the configuration in use; 1: the one of the start */
    struct slice changed; /* ok: names, one per line; empty: nothing has changed */
    struct slice errors;  /* not ok: one error per line, mostly "file:line: message" */
};
typedef void reload_cb(void *arg, const struct reload_reply *reply);
/* Reload now, or after the reload under way; all calls until then share one reload. Calls
 * cb once, after reload_ask() has returned; cb may be NULL. */
void reload_ask(struct bridge *bridge, reload_cb *cb, void *arg);
/* The daemon stops: answer all callers. The stop ends the parts that a reload has
 * created. */
void reload_end(struct bridge *bridge);

struct reload_status { /* for status and metrics; wall clock */
    const char *file;
    uint64_t generation, good, refused;
    int64_t loaded_ms; /* when the configuration in use was loaded */
    bool last_ok;
    int64_t last_ms;   /* of the last attempt; the start counts */
    const char *error; /* one error per line; "": the last attempt succeeded */
};
struct reload_status reload_status(const struct bridge *bridge);
/* POST /v1/admin/reload; the configuration in the status and the metrics. */
extern const struct admin_more reload_admin;

#endif
