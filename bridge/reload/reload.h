/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload.h - replaces the configuration while the daemon runs. It is read and checked as
 * a whole, then taken over as a whole, or refused with every reason.
 *
 * A source or sink whose options are the same continues: it keeps its connections. A
 * route continues in any case. A source that changes is suspended, finishes its work and
 * is stopped; then the new one starts. A sink that changes finishes its deliveries beside
 * the new one (leave.h), unless both would disturb each other.
 *
 * Every step that can fail comes before the switch (reload_swap.c) and can be undone
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
/* Reads the file now, or after the reload under way; all calls until then share one
 * reload. Calls cb once, never before it returns; NULL: nobody waits. */
void reload_ask(struct bridge *bridge, reload_cb *cb, void *arg);
/* The daemon stops: answers all who wait. The stop ends what a reload has made. */
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
