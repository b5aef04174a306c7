/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload.h - another configuration while the daemon runs: read and checked whole, then
 * taken over whole, or refused with every reason, and the one in use goes on.
 *
 * What is the same in both is not touched: a source keeps its connection and its place in
 * its group, a sink its connections, a route what it has under way. A route changes in
 * place. A source is held, ended, and begun anew when nothing of it is open; a new sink
 * takes the deliveries from now on, and the old one ends with those it has (leave.h).
 * Whatever can fail comes before anything is taken over, and is undone; so does whatever
 * takes longer than daemon.stop_timeout, unless something has been ended by then. So a
 * source that begins only when Redis is there waits for that, and a reload ends no
 * daemon. Loop thread.
 */
#ifndef BRIDGE_RELOAD_H
#define BRIDGE_RELOAD_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct reload;

/* file: read again each time; copied. */
struct reload *reload_new(struct bridge *bridge, const char *file);
/* After core_release(). NULL is fine. */
void reload_free(struct reload *r);

struct reload_reply {
    bool ok;
    uint64_t generation;  /* of the configuration in use: 1 is that of the start */
    struct slice changed; /* ok: names, a line each; none: nothing differs */
    struct slice errors;  /* not ok: "file:line: message" and the like, a line each */
};
typedef void reload_cb(void *arg, const struct reload_reply *reply);
/* The file as it is now, or later if a reload is under way; all who ask meanwhile share
 * the next one. cb is called once, never within; NULL: nobody waits. */
void reload_ask(struct bridge *bridge, reload_cb *cb, void *arg);
/* The daemon stops: who waits is answered, and what was begun is left to the stop. */
void reload_end(struct bridge *bridge);

struct reload_told { /* for status and metrics; wall clock */
    const char *file;
    uint64_t generation, good, refused;
    int64_t loaded_ms; /* when the one in use was */
    bool last_ok;
    int64_t last_ms;   /* of the last try; the start is one */
    const char *error; /* its lines; "" it was good */
};
struct reload_told reload_told(const struct bridge *bridge);
/* POST /v1/admin/reload; the configuration in the status and the metrics. */
extern const struct admin_more reload_admin;

#endif
