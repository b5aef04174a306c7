/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_marks.h"

#include "bridge/base/retry.h"
#include "bridge/job/rewind.h"
#include "sources/kafka/kafka_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_MS = 1000, DIGITS_MAX = 18 };
static const char kv[] = "marks", reading_of[] = "reading ", rewind_of[] = "rewind ";

/* -------------------------------------------------------------------- texts */

/* Removes a leading number and returns it. -1: none. */
static int64_t take_number(struct slice *text)
{
    int64_t n = 0;
    size_t at = 0;

    while (at < text->n && at < DIGITS_MAX && text->p[at] >= '0' && text->p[at] <= '9')
        n = 10 * n + (text->p[at++] - '0');
    *text = (struct slice){text->p + at, text->n - at};
    return at > 0 ? n : -1;
}

/* Returns the text after "NAME:" in a word; p NULL: another name. */
static struct slice value_of(struct slice word, struct slice name)
{
    if (word.n <= name.n || word.p[name.n] != ':' || memcmp(word.p, name.p, name.n) != 0)
        return (struct slice){NULL, 0};
    return (struct slice){word.p + name.n + 1, word.n - name.n - 1};
}

void kafka_mark_field(const char *topic, int32_t partition, unsigned incarnation,
                      struct buf *out)
{
    buf_addf(out, "%s/%" PRId32, topic, partition);
    if (incarnation > 0)
        buf_addf(out, "~%u", incarnation);
}

/* -------------------------------------------------------------------- fields */

static struct slice copy_of(struct slice s)
{
    return (struct slice){mem_strndup(s.p ? s.p : "", s.n), s.n};
}

static void fields_add(struct kafka_fields *f, struct slice field, struct slice value)
{
    f->item = mem_realloc(f->item, (f->n + 1) * sizeof(*f->item));
    f->item[f->n++] = (struct kv_item){copy_of(field), copy_of(value)};
}

static void fields_free(struct kafka_fields *f)
{
    for (unsigned i = 0; i < f->n; i++) {
        free((void *)(uintptr_t)f->item[i].field.p);
        free((void *)(uintptr_t)f->item[i].value.p);
    }
    free(f->item);
    *f = (struct kafka_fields){0};
}

static void add_mark(struct kafka_fields *f, const struct kafka_part *part,
                     unsigned incarnation, int64_t mark)
{
    struct buf field = {0}, value = {0};

    kafka_mark_field(part->topic, part->partition, incarnation, &field);
    buf_addf(&value, "%" PRId64, mark);
    fields_add(f, buf_slice(&field), buf_slice(&value));
    buf_free(&field);
    buf_free(&value);
}

/* Returns the value of a field; p NULL: not found. */
static struct slice find_field(const struct kafka_fields *f, const char *field)
{
    for (unsigned i = 0; i < f->n; i++)
        if (slice_is(f->item[i].field, field))
            return f->item[i].value;
    return (struct slice){NULL, 0};
}

int64_t kafka_marks_find(const struct kafka_fields *f, const char *topic,
                         int32_t partition, unsigned incarnation)
{
    struct buf field = {0};

    kafka_mark_field(topic, partition, incarnation, &field);
    struct slice value = find_field(f, buf_str(&field));
    buf_free(&field);
    const int64_t offset = value.p ? take_number(&value) : -1;
    return value.n == 0 ? offset : -1;
}

/* Returns the incarnation; sets rewinds to the rest. */
static unsigned find_reading(const struct kafka_fields *f, const char *topic,
                             int32_t partition, struct slice *rewinds)
{
    struct buf field = {0};

    buf_addf(&field, "%s%s/%" PRId32, reading_of, topic, partition);
    *rewinds = find_field(f, buf_str(&field));
    buf_free(&field);
    if (rewinds->p == NULL)
        return 0;
    const int64_t incarnation = take_number(rewinds);
    if (rewinds->n > 0 && *rewinds->p == ' ')
        *rewinds = (struct slice){rewinds->p + 1, rewinds->n - 1};
    return incarnation > 0 ? (unsigned)incarnation : 0;
}

unsigned kafka_marks_incarnation(const struct kafka_fields *f, const char *topic,
                                 int32_t partition)
{
    struct slice rewinds;
    return find_reading(f, topic, partition, &rewinds);
}

/* -------------------------------------------------------------------- marks, written */

static void write_marks(struct kafka_marks *m);

/* Records the written marks and passes the committable offsets to librdkafka. A partition
 * that was revoked or rewound meanwhile has cleared mark_sent. */
static void note_written(struct kafka_parts *parts)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)parts->count);
    struct kafka_part *part;

    TAILQ_FOREACH (part, &parts->list, link) {
        if (part->mark_sent < 0)
            continue;
        part->mark = part->mark_sent;
        rd_kafka_topic_partition_list_add(list, part->topic, part->partition)->offset =
            part->mark;
    }
    kafka_parts_store(parts, list);
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

static void on_marks_written(void *arg, enum kv_code code)
{
    struct kafka_marks *m = arg;
    struct kafka_part *part;

    m->parts->open_requests--;
    m->writing = false;
    if (code == KV_OK)
        note_written(m->parts);
    TAILQ_FOREACH (part, &m->parts->list, link)
        part->mark_sent = -1;
    end_write(m);
}

static void write_marks(struct kafka_marks *m)
{
    struct kafka_fields changed = {0};
    struct kafka_part *part;
    const int64_t answered_ms = kv_answered_ms(m->parts->src);

    TAILQ_FOREACH (part, &m->parts->list, link) {
        const int64_t offset = kafka_part_committable(part, answered_ms);
        if (offset < 0 || offset == part->mark)
            continue;
        part->mark_sent = offset;
        add_mark(&changed, part, part->incarnation, offset);
    }
    if (changed.n == 0) {
        end_write(m);
        return;
    }
    m->writing = true;
    m->parts->open_requests++;
    kv_put_all(m->parts->src, kv, changed.item, changed.n, on_marks_written, m);
    fields_free(&changed);
}

void kafka_marks_flush(struct kafka_marks *m)
{
    m->flushing = true;
    if (m->writing)
        m->write_more = true;
    else
        write_marks(m);
}

static void on_tick(void *arg)
{
    struct kafka_marks *m = arg;

    kafka_parts_check_ends(m->parts);
    if (!m->writing)
        write_marks(m);
}

void kafka_marks_init(struct kafka_marks *m, struct kafka_parts *parts,
                      const struct kafka_marks_events *events, void *arg)
{
    *m = (struct kafka_marks){.parts = parts, .events = events, .arg = arg};
    m->tick = timer_every(WRITE_MS, on_tick, m);
}

void kafka_marks_fini(struct kafka_marks *m)
{
    timer_del(m->tick);
    m->tick = NULL;
    fields_free(&m->fields);
}

/* -------------------------------------------------------------------- fields, read */

static void on_read(void *arg, enum kv_code code, const struct kv_item *items, unsigned n)
{
    struct kafka_marks *m = arg;
    const bool good = code == KV_OK, again = good && m->read_more;

    m->parts->open_requests--;
    m->reading = m->read_more = false;
    if (again) {
        kafka_marks_read(m);
        return;
    }
    if (good) {
        fields_free(&m->fields);
        for (unsigned i = 0; i < n; i++)
            fields_add(&m->fields, items[i].field, items[i].value);
    }
    m->events->read(m->arg, good);
}

void kafka_marks_read(struct kafka_marks *m)
{
    m->read_more = m->reading; /* the open answer may be outdated */
    if (m->reading)
        return;
    m->reading = true;
    m->parts->open_requests++;
    kv_list(m->parts->src, kv, on_read, m);
}

/* -------------------------------------------------------------------- readings */

static void set_reading(struct kafka_part *part, unsigned incarnation,
                        struct slice rewinds)
{
    char *text = mem_strndup(rewinds.p ? rewinds.p : "", rewinds.n);

    part->incarnation = incarnation;
    free(part->rewinds_done);
    part->rewinds_done = text;
    part->reading_known = true;
}

void kafka_marks_load_reading(const struct kafka_fields *f, struct kafka_part *part)
{
    struct slice rewinds;
    const unsigned incarnation = find_reading(f, part->topic, part->partition, &rewinds);

    if (part->reading_known && incarnation < part->incarnation) { /* Redis has lost its
                                                                   * last writes */
        if (part->rewinds_next == NULL)
            kafka_part_rewind(part, part->rewinds_done, -1);
    } else if (!part->reading_known || incarnation != part->incarnation ||
               !slice_is(rewinds, part->rewinds_done)) {
        set_reading(part, incarnation, rewinds);
    }
}

/* A change that is being written to Redis. */
struct reading_write {
    struct kafka_parts *parts;
    unsigned generation, incarnation;
    char *rewinds;
    int64_t mark; /* -1: none yet */
};

static void on_reading_written(void *arg, enum kv_code code)
{
    struct reading_write *r = arg;
    struct kafka_part *part;

    r->parts->open_requests--;
    TAILQ_FOREACH (part, &r->parts->list, link)
        if (part->generation == r->generation)
            break;
    if (part && code == KV_OK) {
        set_reading(part, r->incarnation, slice_of(r->rewinds));
        kafka_part_reading_written(part, r->mark);
    } else if (part) { /* Redis is unavailable */
        timer_set(part->rewind, retry_broker_ms(1));
    }
    free(r->rewinds);
    free(r);
}

/* Returns the mark to write: after the rewind, no record above it counts as stored. A new
 * incarnation has one too: the committed offset may still be that of the old topic. */
static int64_t mark_after_rewind(const struct kafka_part *part)
{
    const int64_t done = part->offsets.done >= 0 ? part->offsets.done
                         : part->start >= 0      ? part->start
                                                 : part->mark;

    if (part->recreated)
        return part->rewind_to;
    return part->rewind_to >= 0 && part->rewind_to < done ? part->rewind_to : done;
}

void kafka_marks_write_reading(struct kafka_part *part)
{
    struct reading_write *r = mem_alloc(sizeof(*r));
    struct kafka_fields changed = {0};
    struct buf field = {0}, value = {0};

    *r = (struct reading_write){
        .parts = part->parts,
        .generation = part->generation,
        .incarnation = part->incarnation + part->recreated,
        .rewinds =
            mem_strdup(part->rewinds_next ? part->rewinds_next : part->rewinds_done),
        .mark = mark_after_rewind(part)};
    buf_addf(&field, "%s%s/%" PRId32, reading_of, part->topic, part->partition);
    buf_addf(&value, "%u%s%s", r->incarnation, *r->rewinds ? " " : "", r->rewinds);
    fields_add(&changed, buf_slice(&field), buf_slice(&value));
    if (r->mark >= 0)
        add_mark(&changed, part, r->incarnation, r->mark);
    r->parts->open_requests++;
    kv_put_all(r->parts->src, kv, changed.item, changed.n, on_reading_written, r);
    fields_free(&changed);
    buf_free(&field);
    buf_free(&value);
}

/* -------------------------------------------------------------------- rewinds */

/* Appends a rewind of a route, then the other rewinds. Of the same route keeps only the
 * last one to a lower offset: records from there to offset may be read again as part of
 * it. */
static void add_rewind(struct slice rewinds, struct slice route, int64_t number,
                       int64_t offset, struct buf *out)
{
    struct rewind_word r;
    bool lower = false;

    buf_add_slice(out, route);
    buf_addf(out, ":%" PRId64 "@%" PRId64, number, offset);
    while (rewind_take(&rewinds, &r)) {
        const bool same = slice_eq(r.route, route);
        if (same && (lower || r.offset >= offset))
            continue;
        lower = lower || same;
        buf_add_str(out, " ");
        buf_add_slice(out, r.text);
    }
}

/* Returns the offset to which a partition is rewound; -1: the rewind does not include
 * it. */
static int64_t offset_in(struct slice list, const char *topic, int32_t partition)
{
    struct buf name = {0};
    int64_t offset = -1;

    buf_addf(&name, "%s/%" PRId32, topic, partition);
    for (struct slice word = text_take_word(&list); word.n > 0 && offset < 0;
         word = text_take_word(&list)) {
        struct slice digits = value_of(word, buf_slice(&name));
        if (digits.p)
            offset = take_number(&digits);
    }
    buf_free(&name);
    return offset;
}

static void check_rewind(struct kafka_part *part, struct slice route, struct slice text)
{
    const struct slice rewinds =
        slice_of(part->rewinds_next ? part->rewinds_next : part->rewinds_done);
    const int64_t number = take_number(&text);
    const int64_t offset = offset_in(text, part->topic, part->partition);
    struct buf next = {0};

    if (offset < 0 || number <= job_rewind_number(rewinds, route))
        return;
    log_info(part->parts->who, "%s/%" PRId32 ": route %.*s: rewinding to offset %" PRId64,
             part->topic, part->partition, SLICE_ARG(route), offset);
    add_rewind(rewinds, route, number, offset, &next);
    kafka_part_rewind(part, buf_str(&next), offset);
    buf_free(&next);
}

void kafka_marks_start_rewinds(const struct kafka_fields *f, struct kafka_part *part)
{
    const size_t skip = strlen(rewind_of);

    for (unsigned i = 0; i < f->n; i++) {
        const struct slice field = f->item[i].field;
        if (field.n > skip && memcmp(field.p, rewind_of, skip) == 0)
            check_rewind(part, (struct slice){field.p + skip, field.n - skip},
                         f->item[i].value);
    }
}

int64_t kafka_rewind_last(const struct kafka_fields *f, const char *route)
{
    struct buf field = {0};

    buf_addf(&field, "%s%s", rewind_of, route);
    struct slice text = find_field(f, buf_str(&field));
    buf_free(&field);
    const int64_t number = text.p ? take_number(&text) : 0;
    return number > 0 ? number : 0;
}

void kafka_rewind_format(int64_t number, const struct rewind_row *rows, size_t n,
                         struct buf *out)
{
    buf_addf(out, "%" PRId64, number);
    for (size_t i = 0; i < n; i++)
        buf_addf(out, " %s/%" PRId32 ":%" PRId64, rows[i].topic, rows[i].partition,
                 rows[i].from);
}

void kafka_marks_ask_rewind(struct kafka_marks *m, const char *route,
                            const struct rewind_row *rows, size_t n, kv_cb *cb, void *arg)
{
    const int64_t now = source_now_ms(m->parts->src, (struct slice){NULL, 0});
    const int64_t last = kafka_rewind_last(&m->fields, route);
    struct buf field = {0}, value = {0};

    /* Above the last number, also if the clock was set back. */
    kafka_rewind_format(now > last ? now : last + 1, rows, n, &value);
    buf_addf(&field, "%s%s", rewind_of, route);
    kv_put(m->parts->src, kv, buf_slice(&field), buf_slice(&value), false, cb, arg);
    buf_free(&field);
    buf_free(&value);
}
