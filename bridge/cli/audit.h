/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * audit.h - `tarry audit`: goes through the buckets of a configuration in small steps,
 * while daemons work on them, and says what does not agree (lua/audit.lua).
 */
#ifndef BRIDGE_AUDIT_H
#define BRIDGE_AUDIT_H

#include "bridge/base/buf.h"
#include "bridge/store/store_audit.h"

struct cli_order;

/* The command; gives the exit code. */
int audit_main(struct cli_order *o);

/* --- between audit.c and audit_print.c --- */

struct audit_order {
    const char *conf_file;
    const char *route; /* NULL: all */
    bool json, repair;
};
struct audit_sums {
    struct audit_counts counts;
    uint64_t buckets, findings;
};
struct audit_paper {
    const struct audit_order *order;
    struct buf list;   /* the findings of the bucket under way, as they are printed */
    unsigned listed;   /* of them */
    uint64_t findings; /* of the bucket under way; more than are listed */
    struct audit_sums sums;
};

void audit_print_begin(struct audit_paper *p);
void audit_print_found(struct audit_paper *p, const struct audit_finding *f);
/* The bucket is through. Prints it, and the next begins. */
void audit_print_bucket(struct audit_paper *p, const char *name,
                        const struct audit_counts *counts);
/* why: it ended before all was seen; NULL: it did not. */
void audit_print_end(struct audit_paper *p, const char *why);

#endif
