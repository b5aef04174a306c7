/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_marks.h"

#include "sources/kafka/kafka_reading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_MS = 1000 };

/* One HSET on its way. */
struct writing {
    struct kafka_marks *marks;
    rd_kafka_topic_partition_list_t *list; /* and the offsets */
    unsigned *eras, *incarnations;         /* of each, as it was written */
};

static void write_marks(struct kafka_marks *m);

static void on_tick(void *arg)
{
    struct kafka_marks *m = arg;

    if (!m->writing)
        write_marks(m);
}

void kafka_marks_init(struct kafka_marks *m, struct kafka_parts *parts,
                      const struct kafka_marks_events *events, void *arg)
{
    *m = (struct kafka_marks){.parts = parts, .events = events, .arg = arg};
    m->tick = timer_every(WRITE_MS, on_tick, m);
}

static void forget_items(struct kafka_marks *m)
{
    free(m->items);
    buf_free(&m->text);
    m->items = NULL;
    m->n = 0;
}

void kafka_marks_fini(struct kafka_marks *m)
{
    timer_del(m->tick);
    m->tick = NULL;
    forget_items(m);
}

/* -------------------------------------------------------------------- writing */

static void note_written(struct writing *w)
{
    struct kafka_parts *parts = w->marks->parts;

    for (int i = w->list->cnt - 1; i >= 0; i--) {
        const rd_kafka_topic_partition_t *row = &w->list->elems[i];
        struct kafka_part *part = kafka_part_find(parts, row->topic, row->partition);
        if (part && part->era == w->eras[i])
            part->mark = row->offset;
        else /* it went away, or back */
            rd_kafka_topic_partition_list_del_by_idx(w->list, i);
    }
    kafka_parts_store(parts, w->list);
    w->list = NULL;
}

static void end_write(struct kafka_marks *m)
{
    if (m->write_more) {
        m->write_more = false;
        write_marks(m);
    } else if (m->flushing) {
        m->flushing = false;
        m->events->flushed(m->arg);
    }
}

static void writing_free(struct writing *w)
{
    free(w->eras);
    free(w->incarnations);
    free(w);
}

static void on_written(void *arg, enum shelf_code code)
{
    struct writing *w = arg;
    struct kafka_marks *m = w->marks;

    m->parts->asks--;
    m->writing = false;
    if (code == SHELF_OK)
        note_written(w);
    if (w->list)
        rd_kafka_topic_partition_list_destroy(w->list);
    writing_free(w);
    end_write(m);
}

static void send_marks(struct writing *w)
{
    struct kafka_parts *parts = w->marks->parts;
    const unsigned n = (unsigned)w->list->cnt;
    struct shelf_item *items = mem_alloc(n * sizeof(*items));
    struct buf text = {0};

    for (unsigned i = 0; i < n; i++) { /* the text moves while it grows */
        const rd_kafka_topic_partition_t *row = &w->list->elems[i];
        const size_t from = text.n;
        kafka_mark_field(row->topic, row->partition, w->incarnations[i], &text);
        items[i].field.n = text.n - from;
        buf_addf(&text, "%" PRId64, row->offset);
        items[i].value.n = text.n - from - items[i].field.n;
    }
    const char *at = buf_str(&text);
    for (unsigned i = 0; i < n; i++) {
        items[i].field.p = at;
        items[i].value.p = at += items[i].field.n;
        at += items[i].value.n;
    }
    w->marks->writing = true;
    parts->asks++;
    shelf_put_all(parts->src, KAFKA_MARKS_SHELF, items, n, on_written, w);
    buf_free(&text);
    free(items);
}

static void write_marks(struct kafka_marks *m)
{
    struct kafka_parts *parts = m->parts;
    struct kafka_part *part;
    struct writing *w = mem_alloc(sizeof(*w));

    *w = (struct writing){.marks = m};
    w->list = rd_kafka_topic_partition_list_new((int)parts->count);
    w->eras = mem_alloc((parts->count + 1) * sizeof(*w->eras));
    w->incarnations = mem_alloc((parts->count + 1) * sizeof(*w->incarnations));
    TAILQ_FOREACH (part, &parts->list, link) {
        const int64_t offset = kafka_part_sure(part);
        if (offset < 0 || offset == part->mark)
            continue;
        w->eras[w->list->cnt] = part->era;
        w->incarnations[w->list->cnt] = part->incarnation;
        rd_kafka_topic_partition_list_add(w->list, part->topic, part->partition)->offset =
            offset;
    }
    if (w->list->cnt > 0) {
        send_marks(w);
        return;
    }
    rd_kafka_topic_partition_list_destroy(w->list);
    writing_free(w);
    end_write(m);
}

void kafka_marks_flush(struct kafka_marks *m)
{
    m->flushing = true;
    if (m->writing)
        m->write_more = true;
    else
        write_marks(m);
}

/* -------------------------------------------------------------------- reading */

static void keep_items(struct kafka_marks *m, const struct shelf_item *items, unsigned n)
{
    forget_items(m);
    m->items = mem_alloc((n + 1) * sizeof(*m->items));
    m->n = n;
    for (unsigned i = 0; i < n; i++) { /* the text moves while it grows */
        buf_add_slice(&m->text, items[i].field);
        buf_add_slice(&m->text, items[i].value);
    }
    const char *at = buf_str(&m->text);
    for (unsigned i = 0; i < n; i++) {
        m->items[i].field = (struct slice){at, items[i].field.n};
        m->items[i].value = (struct slice){at + items[i].field.n, items[i].value.n};
        at += items[i].field.n + items[i].value.n;
    }
}

static void on_read(void *arg, enum shelf_code code, const struct shelf_item *items,
                    unsigned n)
{
    struct kafka_marks *m = arg;

    m->parts->asks--;
    m->reading = false;
    if (code == SHELF_OK && m->read_more) {
        m->read_more = false;
        kafka_marks_read(m);
        return;
    }
    m->read_more = false;
    if (code == SHELF_OK)
        keep_items(m, items, n);
    m->events->read(m->arg, code == SHELF_OK);
}

void kafka_marks_read(struct kafka_marks *m)
{
    m->read_more = m->reading; /* what is on its way may be out of date */
    if (m->reading)
        return;
    m->reading = true;
    m->parts->asks++;
    shelf_list(m->parts->src, KAFKA_MARKS_SHELF, on_read, m);
}

static int64_t number_of(struct slice value)
{
    char text[24], *end;

    if (value.n == 0 || value.n >= sizeof(text))
        return -1;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    const long long offset = strtoll(text, &end, 10);
    return *end == '\0' && offset >= 0 ? offset : -1;
}

int64_t kafka_marks_find(const struct kafka_marks *m, const char *topic,
                         int32_t partition, unsigned incarnation)
{
    struct buf name = {0};
    int64_t offset = -1;

    kafka_mark_field(topic, partition, incarnation, &name);
    for (unsigned i = 0; i < m->n && offset < 0; i++)
        if (slice_is(m->items[i].field, buf_str(&name)))
            offset = number_of(m->items[i].value);
    buf_free(&name);
    return offset;
}
