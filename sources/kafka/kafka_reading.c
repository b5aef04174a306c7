/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_reading.h"

#include "sources/kafka/kafka_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char reading_of[] = "reading ", rewind_of[] = KAFKA_REWIND_OF;

void kafka_mark_field(const char *topic, int32_t partition, unsigned incarnation,
                      struct buf *out)
{
    buf_addf(out, "%s/%" PRId32, topic, partition);
    if (incarnation > 0)
        buf_addf(out, "~%u", incarnation);
}

/* p NULL: it is not there. */
static struct slice value_of(const struct shelf_item *items, unsigned n,
                             const char *field)
{
    for (unsigned i = 0; i < n; i++)
        if (slice_is(items[i].field, field))
            return items[i].value;
    return (struct slice){NULL, 0};
}

/* Takes digits off the front of *text. -1: there are none, or too many. */
static int64_t take_number(struct slice *text)
{
    int64_t n = 0;
    size_t at = 0;

    while (at < text->n && at < 18 && text->p[at] >= '0' && text->p[at] <= '9')
        n = 10 * n + (text->p[at++] - '0');
    *text = (struct slice){text->p + at, text->n - at};
    return at > 0 ? n : -1;
}

static void skip_blank(struct slice *text)
{
    if (text->n > 0 && *text->p == ' ')
        *text = (struct slice){text->p + 1, text->n - 1};
}

/* -------------------------------------------------------------------- what is */

/* Gives the incarnation; rewinds: what follows it. */
static unsigned find(const struct shelf_item *items, unsigned n, const char *topic,
                     int32_t partition, struct slice *rewinds)
{
    struct buf field = {0};

    buf_addf(&field, "%s%s/%" PRId32, reading_of, topic, partition);
    *rewinds = value_of(items, n, buf_str(&field));
    buf_free(&field);
    if (rewinds->p == NULL)
        return 0;
    const int64_t incarnation = take_number(rewinds);
    skip_blank(rewinds);
    return incarnation > 0 ? (unsigned)incarnation : 0;
}

unsigned kafka_incarnation_find(const struct shelf_item *items, unsigned n,
                                const char *topic, int32_t partition)
{
    struct slice rewinds;
    return find(items, n, topic, partition, &rewinds);
}

static void set(struct kafka_part *part, unsigned incarnation, struct slice rewinds)
{
    struct buf text = {0};

    buf_add_slice(&text, rewinds);
    const struct partition_reading reading = {incarnation, buf_slice(&text)};
    source_set_reading(part->parts->src, part->topic, part->partition, &reading);
    part->incarnation = incarnation;
    free(part->rewound);
    part->rewound = mem_strdup(buf_str(&text));
    part->known = true;
    buf_free(&text);
}

void kafka_reading_load(struct kafka_part *part, const struct shelf_item *items,
                        unsigned n)
{
    struct slice rewinds;
    const unsigned incarnation = find(items, n, part->topic, part->partition, &rewinds);

    if (part->known && incarnation < part->incarnation) { /* Redis lost its last writes */
        if (part->asked == NULL)
            kafka_part_rewind(part, part->rewound, -1);
    } else if (!part->known || incarnation != part->incarnation ||
               !slice_is(rewinds, part->rewound)) {
        set(part, incarnation, rewinds);
    }
}

/* ------------------------------------------------------------- what is asked for */

/* The same text with another number for one route. */
static void replace(const char *rewinds, struct slice route, int64_t number,
                    struct buf *out)
{
    for (const char *p = rewinds; *p;) {
        const size_t n = strcspn(p, " ");
        const bool same =
            n > route.n && p[route.n] == ':' && memcmp(p, route.p, route.n) == 0;
        if (!same) {
            buf_add_str(out, out->n > 0 ? " " : "");
            buf_add(out, p, n);
        }
        p += n;
        p += strspn(p, " ");
    }
    buf_add_str(out, out->n > 0 ? " " : "");
    buf_add_slice(out, route);
    buf_addf(out, ":%" PRId64, number);
}

/* Where a partition goes back to; -1: the rewind is not about it. */
static int64_t offset_in(struct slice list, const char *topic, int32_t partition)
{
    struct buf name = {0};
    int64_t offset = -1;

    buf_addf(&name, "%s/%" PRId32 ":", topic, partition);
    while (list.n > 0 && offset < 0) {
        const char *blank = memchr(list.p, ' ', list.n);
        const size_t n = blank ? (size_t)(blank - list.p) : list.n;
        if (n > name.n && memcmp(list.p, name.p, name.n) == 0) {
            struct slice digits = {list.p + name.n, n - name.n};
            offset = take_number(&digits);
        }
        list = (struct slice){list.p + n, list.n - n};
        skip_blank(&list);
    }
    buf_free(&name);
    return offset;
}

static void look_at(struct kafka_part *part, struct slice route, struct slice text)
{
    const char *rewinds = part->asked ? part->asked : part->rewound;
    const int64_t number = take_number(&text);
    struct buf next = {0};

    skip_blank(&text);
    const int64_t offset = offset_in(text, part->topic, part->partition);
    if (offset < 0 || number <= reading_rewind(slice_of(rewinds), route))
        return;
    log_info(part->parts->who,
             "%s/%" PRId32 ": the route %.*s is rewound to offset %" PRId64, part->topic,
             part->partition, (int)route.n, route.p, offset);
    replace(rewinds, route, number, &next);
    kafka_part_rewind(part, buf_str(&next), offset);
    buf_free(&next);
}

void kafka_reading_look(struct kafka_part *part, const struct shelf_item *items,
                        unsigned n)
{
    const size_t skip = strlen(rewind_of);

    for (unsigned i = 0; i < n; i++) {
        const struct slice field = items[i].field;
        if (field.n > skip && memcmp(field.p, rewind_of, skip) == 0)
            look_at(part, (struct slice){field.p + skip, field.n - skip}, items[i].value);
    }
}

int64_t kafka_rewind_last(const struct shelf_item *items, unsigned n, const char *route)
{
    struct buf field = {0};

    buf_addf(&field, "%s%s", rewind_of, route);
    struct slice text = value_of(items, n, buf_str(&field));
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

/* ---------------------------------------------------------------- what becomes of it */

/* One change on its way to Redis. */
struct renewal {
    struct kafka_parts *parts;
    char *topic;
    int32_t partition;
    unsigned era, incarnation;
    char *rewinds;
    int64_t mark; /* -1: there is none of it yet */
};

static void on_written(void *arg, enum shelf_code code)
{
    struct renewal *r = arg;
    struct kafka_part *part = kafka_part_find(r->parts, r->topic, r->partition);

    r->parts->asks--;
    if (part && part->era == r->era && code == SHELF_OK) {
        set(part, r->incarnation, slice_of(r->rewinds));
        kafka_part_renewed(part, r->mark);
    } else if (part && part->era == r->era) { /* Redis is away */
        timer_set(part->rewind, kafka_backoff_ms(1));
    }
    free(r->rewinds);
    free(r->topic);
    free(r);
}

/* Nothing above it may count as stored once the partition is read again. */
static int64_t mark_of(const struct kafka_part *part)
{
    const int64_t done = part->offsets.done >= 0 ? part->offsets.done : part->start;

    if (part->anew)
        return -1;
    return part->back_to >= 0 && part->back_to < done ? part->back_to : done;
}

static void write(struct renewal *r)
{
    struct buf field = {0}, value = {0}, mark_field = {0}, mark = {0};

    buf_addf(&field, "%s%s/%" PRId32, reading_of, r->topic, r->partition);
    buf_addf(&value, "%u%s%s", r->incarnation, *r->rewinds ? " " : "", r->rewinds);
    kafka_mark_field(r->topic, r->partition, r->incarnation, &mark_field);
    buf_addf(&mark, "%" PRId64, r->mark);
    const struct shelf_item items[] = {{buf_slice(&field), buf_slice(&value)},
                                       {buf_slice(&mark_field), buf_slice(&mark)}};
    r->parts->asks++;
    shelf_put_all(r->parts->src, KAFKA_MARKS_SHELF, items, r->mark >= 0 ? 2 : 1,
                  on_written, r);
    buf_free(&field);
    buf_free(&value);
    buf_free(&mark_field);
    buf_free(&mark);
}

void kafka_reading_renew(struct kafka_part *part)
{
    struct renewal *r = mem_alloc(sizeof(*r));

    *r = (struct renewal){.parts = part->parts,
                          .partition = part->partition,
                          .era = part->era,
                          .incarnation = part->incarnation + part->anew,
                          .mark = mark_of(part)};
    r->topic = mem_strdup(part->topic);
    r->rewinds = mem_strdup(part->asked ? part->asked : part->rewound);
    write(r);
}
