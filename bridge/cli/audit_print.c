/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * audit_print.c - what an audit says: a line for each bucket, or one JSON object.
 */
#include "bridge/base/text.h"
#include "bridge/cli/audit.h"

#include <inttypes.h>
#include <stdio.h>

enum { LIST_MAX = 100 }; /* findings of one bucket by name; the others are counted */

/* What each kind means, and what --repair does about it. */
static const struct row {
    const char *kind, *means, *repaired;
} rows[] = {
    {"no-index", "is kept, but waits nowhere", "due now"},
    {"twice", "stands in several places", "stays where it is delivered"},
    {"no-body", "waits, but is not kept: it is lost", "taken out"},
    {"orphan", "notes of a job that is not there", "deleted"},
    {"order", "the order of its key is broken", "put right"},
    {"sums", "so many more jobs than the sums tell of", "the sums begin here"},
    {"counts", "so many more places than jobs", "by the repairs above"},
    {"?", "found by a newer version", ""},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct row *row_of(struct slice kind)
{
    size_t i = 0;
    while (i + 1 < ROWS && !slice_is(kind, rows[i].kind))
        i++;
    return &rows[i];
}

void audit_print_begin(struct audit_paper *p)
{
    if (p->order->json)
        fputs("{\"buckets\":[", stdout);
    else
        printf("%-32s %10s %10s %10s %10s %10s %10s %9s\n", "bucket", "jobs", "waiting",
               "in flight", "dead", "held", "ended", "findings");
}

static void add_json(struct buf *out, const struct audit_finding *f, bool first,
                     bool repaired)
{
    buf_add_str(out, first ? "{\"kind\":" : ",{\"kind\":");
    text_add_json(out, f->kind);
    buf_add_str(out, ",");
    text_add_json_id(out, f->id);
    buf_add_str(out, repaired ? ",\"repaired\":true}" : "}");
}

static void add_line(struct buf *out, const struct audit_finding *f, bool repaired)
{
    const struct row *row = row_of(f->kind);
    buf_addf(out, "  %-8.*s ", SLICE_ARG(f->kind));
    text_add_json(out, f->id); /* ids hold any bytes */
    buf_addf(out, " %s", row->means);
    if (repaired)
        buf_addf(out, "; %s", row->repaired);
    buf_add_str(out, "\n");
}

void audit_print_found(struct audit_paper *p, const struct audit_finding *f)
{
    p->findings++;
    if (p->listed == LIST_MAX)
        return;
    if (p->order->json)
        add_json(&p->list, f, p->listed == 0, p->order->repair);
    else
        add_line(&p->list, f, p->order->repair);
    p->listed++;
}

static void print_json(struct audit_paper *p, const char *name,
                       const struct audit_counts *c)
{
    struct buf quoted = {0};
    text_add_json(&quoted, slice_of(name));
    printf("%s\n{\"name\":%s,\"jobs\":%" PRId64 ",\"waiting\":%" PRId64
           ",\"in_flight\":%" PRId64 ",\"dead\":%" PRId64 ",\"held\":%" PRId64
           ",\"ended\":%" PRId64 ",\"found\":%" PRIu64 ",\"findings\":[%s]}",
           p->sums.buckets > 0 ? "," : "", buf_str(&quoted), c->jobs, c->waiting,
           c->in_flight, c->dead, c->held, c->ended, p->findings, buf_str(&p->list));
    buf_free(&quoted);
}

static void print_lines(struct audit_paper *p, const char *name,
                        const struct audit_counts *c)
{
    printf("%-32s %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64
           " %10" PRId64 " %9" PRIu64 "\n%s",
           name, c->jobs, c->waiting, c->in_flight, c->dead, c->held, c->ended,
           p->findings, buf_str(&p->list));
    if (p->findings > p->listed)
        printf("  and %" PRIu64 " more\n", p->findings - p->listed);
}

void audit_print_bucket(struct audit_paper *p, const char *name,
                        const struct audit_counts *c)
{
    struct audit_counts *sum = &p->sums.counts;
    if (p->order->json)
        print_json(p, name, c);
    else
        print_lines(p, name, c);
    fflush(stdout); /* whoever watches sees how far it is */
    sum->jobs += c->jobs;
    sum->waiting += c->waiting;
    sum->in_flight += c->in_flight;
    sum->dead += c->dead;
    sum->held += c->held;
    sum->ended += c->ended;
    p->sums.buckets++;
    p->sums.findings += p->findings;
    p->findings = p->listed = 0;
    buf_clear(&p->list);
}

void audit_print_end(struct audit_paper *p, const char *why)
{
    const struct audit_sums *s = &p->sums;
    const char *verdict = s->findings == 0 ? "all agrees"
                          : p->order->repair
                              ? "repaired; run it again to see that all agrees"
                              : "--repair puts right what can be";
    if (p->order->json)
        printf("\n],\"jobs\":%" PRId64 ",\"found\":%" PRIu64
               ",\"repaired\":%s,\"complete\":%s}\n",
               s->counts.jobs, s->findings,
               p->order->repair && s->findings ? "true" : "false",
               why ? "false" : "true");
    else if (why == NULL)
        printf("%" PRIu64 " buckets, %" PRId64 " jobs, %" PRIu64 " findings: %s\n",
               s->buckets, s->counts.jobs, s->findings, verdict);
    if (why)
        fprintf(stderr, "tarry audit: not all was seen: %s\n", why);
    buf_free(&p->list);
}
