/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.c - avoids printf in hot paths: with 500 routes a scrape has 60,000 lines and
 * blocks the loop while it is written.
 */
#include "bridge/metrics/stats.h"
#include "bridge/base/text.h"

void metric_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_escaped(struct buf *out, const char *s)
{
    for (size_t n; *s; s += n) {
        n = strcspn(s, "\\\"\n");
        buf_add(out, s, n);
        if (s[n] != '\0') {
            buf_add(out, s[n] == '\n' ? "\\n" : (const char[]){'\\', s[n]}, 2);
            n++;
        }
    }
}

static void add_label(struct buf *out, const char *before, const char *name,
                      const char *value)
{
    buf_add_str(out, before);
    buf_add_str(out, name);
    buf_add_str(out, "=\"");
    add_escaped(out, value);
    buf_add(out, "\"", 1);
}

/* Writes a line up to its value. suffix: "" or "_bucket"; bound: the label le, NULL:
 * none. */
static void begin(struct buf *out, const char *name, const char *suffix,
                  const struct label *labels, const char *bound)
{
    const char *before = "{";
    buf_add_str(out, name);
    buf_add_str(out, suffix);
    for (; labels->name; labels++, before = ",")
        add_label(out, before, labels->name, labels->value);
    if (bound) {
        add_label(out, before, "le", bound);
        before = ",";
    }
    buf_add_str(out, *before == ',' ? "} " : " ");
}

void metric_number(struct buf *out, const char *name, const struct label *labels,
                   int64_t value)
{
    begin(out, name, "", labels, NULL);
    text_add_decimal(out, value);
    buf_add(out, "\n", 1);
}

void metric_count(struct buf *out, const char *name, const struct label *labels,
                  uint64_t value)
{
    metric_number(out, name, labels, (int64_t)value);
}

void metric_real(struct buf *out, const char *name, const struct label *labels,
                 double value)
{
    begin(out, name, "", labels, NULL);
    buf_addf(out, "%.15g\n", value);
}

void metric_histogram(struct buf *out, const char *name, const struct label *labels,
                      const struct histogram *h, bool full)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += h->bucket[i];
        if (!full && !histogram_bound_is_main(i))
            continue;
        begin(out, name, "_bucket", labels, histogram_bound(i));
        text_add_decimal(out, (int64_t)count);
        buf_add(out, "\n", 1);
    }
    begin(out, name, "_sum", labels, NULL);
    buf_addf(out, "%.15g\n", h->sum);
    begin(out, name, "_count", labels, NULL);
    text_add_decimal(out, (int64_t)count);
    buf_add(out, "\n", 1);
}
