/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_survey.c - counts all queues of a sink, a few at a time, for statistics.
 */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/queue.h"

#include <stdlib.h>

enum { AT_ONCE = 32 }; /* counts in flight */

struct survey {
    struct source *src;
    struct queue_survey how;
    struct buf names; /* memory of the names in queues */
    struct queue_counted *queues;
    size_t n, next; /* index of the next queue to count */
    unsigned open;
    bool away;
};
struct counting { /* the count of one queue */
    struct survey *s;
    struct queue_counted *queue;
};

static void finish(struct survey *s)
{
    s->how.cb(s->how.arg, s->away ? NULL : s->queues, s->away ? 0 : s->n);
    buf_free(&s->names);
    free(s->queues);
    free(s);
}

static void count_more(struct survey *s);

static void on_count(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct counting *counting = arg;
    struct survey *s = counting->s;
    counting->queue->known = counts != NULL;
    if (counts)
        counting->queue->counts = *counts;
    s->away |= code == QUEUE_AWAY;
    s->open--;
    free(counting);
    count_more(s);
}

static void count_next(struct survey *s)
{
    int64_t limits_ms[QUEUE_SPANS];
    struct queue_counted *queue = &s->queues[s->next++];
    int limits = s->how.limits(s->how.arg, queue->name, limits_ms);
    if (limits < 0)
        return;
    struct counting *counting = mem_alloc(sizeof(*counting));
    *counting = (struct counting){s, queue};
    s->open++;
    queue_count(s->src, queue->name, limits_ms, (unsigned)limits, on_count, counting);
}

static void count_more(struct survey *s)
{
    while (!s->away && s->next < s->n && s->open < AT_ONCE)
        count_next(s);
    if (s->open == 0)
        finish(s);
}

static void on_list(void *arg, enum queue_code code, const struct queue_name *names,
                    unsigned n)
{
    struct survey *s = arg;
    s->away = code == QUEUE_AWAY;
    s->n = code == QUEUE_OK ? n : 0;
    if (s->n > s->how.most) {
        names += s->n - s->how.most;
        s->n = s->how.most;
    }
    s->queues = mem_alloc((s->n + 1) * sizeof(*s->queues));
    for (size_t i = 0; i < s->n; i++)
        buf_add_slice(&s->names, names[i].name);
    for (size_t i = 0, at = 0; i < s->n; i++) {
        s->queues[i].name = (struct slice){s->names.p + at, names[i].name.n};
        at += names[i].name.n;
    }
    count_more(s);
}

void queue_survey(struct source *src, struct slice topic, const struct queue_survey *how)
{
    struct survey *s = mem_alloc(sizeof(*s));
    *s = (struct survey){.src = src, .how = *how};
    queue_list(src, topic, on_list, s);
}
