/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/job_list.h"
#include "bridge/admin/cursor.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/engine/bridge.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"
#include "bridge/store/store.h"

#include <stdlib.h>

enum {
    BYTES_MAX = 4 * 1024 * 1024, /* of the records that are asked for at once, */
    BYTES_LEAST = 64 * 1024,     /* of one bucket in any case, */
    BYTES_MOST = 512 * 1024,     /* and at most: a call takes Redis two or three ms */
    EACH_MOST = 250,             /* jobs of one bucket, likewise */
    ROUNDS_MAX = 4               /* of questions for one page */
};

struct row {
    struct job_listed listed;
    struct list_place place;
    unsigned seq; /* as it was told: so those of one bucket stand in its order */
    struct job *job;
    char *bytes; /* of its id and member */
};

struct part { /* one bucket */
    struct listing *listing;
    int64_t number;
    bool more;
    struct list_place last;
    char *member;
};

struct listing {
    struct route *route;
    struct job_list_query q; /* its slices are in texts */
    char *texts;
    job_list_cb *cb;
    void *arg;
    enum job_list_code code;
    const char *why;
    struct list_place behind; /* where the page begins; its member is in after */
    bool begun;
    struct buf after;
    struct part *parts;
    int64_t part_count;
    unsigned open; /* calls without an answer */
    struct row **rows;
    unsigned count, looked, rounds, told;
};

static const char whats[] = {[JOB_LIST_WAITING] = LIST_WHAT_WAITING,
                             [JOB_LIST_IN_FLIGHT] = LIST_WHAT_IN_FLIGHT,
                             [JOB_LIST_HELD] = LIST_WHAT_HELD};

/* --- the cursor --- */

static int read_cursor(struct listing *l, struct slice cursor)
{
    enum { WHAT, SCORE, ORDINAL, BUCKET, NUMBERS };
    int64_t n[NUMBERS];
    if (cursor_read(cursor, n, NUMBERS, STORE_LIST_MEMBER_MAX, &l->after) < 0 ||
        n[WHAT] != l->q.what)
        return -1;
    l->begun = true;
    l->behind = (struct list_place){.score = n[SCORE],
                                    .ordinal = n[ORDINAL] - 1,
                                    .bucket = n[BUCKET],
                                    .member = buf_slice(&l->after)};
    return 0;
}

static void set_behind(struct listing *l, const struct list_place *p)
{
    struct buf after = {0};
    buf_add_slice(&after, p->member);
    l->behind = *p;
    buf_free(&l->after);
    l->after = after;
    l->behind.member = buf_slice(&l->after);
    l->begun = true;
}

static void add_cursor(const struct listing *l, const struct list_place *p,
                       struct buf *out)
{
    const int64_t n[] = {l->q.what, p->score, p->ordinal + 1, p->bucket};
    cursor_add(out, n, 4, p->member);
}

/* --- the page --- */

static void row_free(struct row *row)
{
    job_free(row->job);
    free(row->bytes);
    free(row);
}

static void parts_free(struct listing *l)
{
    for (int64_t i = 0; i < l->part_count; i++)
        free(l->parts[i].member);
    free(l->parts);
    l->parts = NULL;
    l->part_count = 0;
}

static void listing_free(struct listing *l)
{
    for (unsigned i = 0; i < l->count; i++)
        row_free(l->rows[i]);
    if (l->route)
        l->route->refs--;
    parts_free(l);
    free(l->rows);
    free(l->texts);
    buf_free(&l->after);
    free(l);
}

/* What stands at one score of one bucket compares equal: its own order counts. */
static int compare(const struct list_place *a, const struct list_place *b)
{
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    if ((a->ordinal < 0) != (b->ordinal < 0))
        return a->ordinal < 0 ? 1 : -1;
    return a->bucket < b->bucket ? -1 : a->bucket > b->bucket;
}

static int compare_rows(const void *one, const void *other)
{
    const struct row *a = *(struct row *const *)one, *b = *(struct row *const *)other;
    int order = compare(&a->place, &b->place);
    return order ? order : a->seq < b->seq ? -1 : 1;
}

/* Behind it some bucket may have jobs that it has not told; NULL: none has. */
static const struct list_place *told_up_to(const struct listing *l)
{
    const struct list_place *least = NULL;
    for (int64_t i = 0; i < l->part_count; i++)
        if (l->parts[i].more && (least == NULL || compare(&l->parts[i].last, least) < 0))
            least = &l->parts[i].last;
    return least;
}

/* How many rows may be told, since no bucket has others before them. */
static unsigned sure_rows(struct listing *l, const struct list_place *mark)
{
    unsigned n = 0;
    if (l->count > 0)
        qsort(l->rows, l->count, sizeof(struct row *), compare_rows);
    while (n < l->count && n < l->q.max &&
           (mark == NULL || compare(&l->rows[n]->place, mark) <= 0))
        n++;
    return n;
}

/* end: where the next page begins; NULL: there is none. */
static void tell(struct listing *l, unsigned n, const struct list_place *end)
{
    struct buf cursor = {0};
    struct job_listed *jobs = mem_alloc((n + 1) * sizeof(*jobs));
    for (unsigned i = 0; i < n; i++)
        jobs[i] = l->rows[i]->listed;
    if (end)
        add_cursor(l, end, &cursor);
    const struct job_list_reply reply = {.code = l->code,
                                         .jobs = jobs,
                                         .count = n,
                                         .looked = l->looked,
                                         .cursor = buf_slice(&cursor),
                                         .why = l->why};
    l->cb(l->arg, &reply);
    free(jobs);
    buf_free(&cursor);
    listing_free(l);
}

static void answer(void *arg)
{
    tell(arg, 0, NULL);
}

static void ask_all(struct listing *l);

/* All buckets have told. */
static void merge(struct listing *l)
{
    const struct list_place *mark = told_up_to(l), *end = mark;
    if (l->code != JOB_LIST_OK) {
        answer(l);
        return;
    }
    unsigned n = sure_rows(l, mark);
    if (n == l->q.max && (n < l->count || mark))
        end = &l->rows[n - 1]->place;
    if (n == l->q.max || end == NULL || ++l->rounds == ROUNDS_MAX) {
        tell(l, n, end);
        return;
    }
    while (l->count > n)
        row_free(l->rows[--l->count]); /* they come again, in their turn */
    set_behind(l, end);
    ask_all(l);
}

static void keep(struct part *part, const struct store_list_item *found)
{
    struct listing *l = part->listing;
    struct row *row = mem_alloc(sizeof(*row));
    struct err err;
    row->seq = l->told++;
    row->bytes = mem_alloc(found->id.n + found->member.n + 1);
    slice_put(slice_put(row->bytes, found->id), found->member);
    row->place =
        (struct list_place){.score = found->score,
                            .ordinal = found->ordinal,
                            .bucket = part->number,
                            .member = {row->bytes + found->id.n, found->member.n}};
    if (found->record.n > 0)
        row->job = job_decode(found->id, found->record, &l->route->names, &err);
    if (row->job)
        (void)route_target(l->route, row->job, &err); /* else it is shown without one */
    row->listed = (struct job_listed){.id = {row->bytes, found->id.n},
                                      .job = row->job,
                                      .bytes = found->record.n,
                                      .at_ms = found->at_ms,
                                      .far = found->ordinal >= 0,
                                      .named = found->named};
    tries_parse(found->tries, &row->listed.tries);
    l->rows[l->count++] = row;
}

static void on_told(void *arg, const struct store_list_reply *told)
{
    struct part *part = arg;
    struct listing *l = part->listing;
    if (told) {
        l->rows = mem_realloc(l->rows, (l->count + told->count + 1) * sizeof(*l->rows));
        for (unsigned i = 0; i < told->count; i++)
            keep(part, &told->items[i]);
        l->looked += (unsigned)told->looked;
        part->more = told->more;
        part->member = mem_alloc(told->member.n + 1);
        slice_put(part->member, told->member);
        part->last = (struct list_place){.score = told->score,
                                         .ordinal = told->ordinal,
                                         .bucket = part->number,
                                         .member = {part->member, told->member.n}};
    } else {
        l->code = JOB_LIST_AWAY;
        l->why = "Redis did not answer; ask again";
    }
    if (--l->open == 0)
        merge(l);
}

/* --- the question --- */

static void copy_texts(struct listing *l)
{
    struct job_list_query *q = &l->q;
    l->texts = mem_alloc(q->id_prefix.n + q->queue.n + 1);
    slice_put(slice_put(l->texts, q->id_prefix), q->queue);
    q->id_prefix.p = l->texts;
    q->queue.p = l->texts + q->id_prefix.n;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void ask(struct part *part, struct bucket *bucket)
{
    struct listing *l = part->listing;
    int64_t n = l->part_count;
    int64_t each = 2 * (int64_t)l->q.max / n + 8;
    struct store_list_ask how = {
        .what = whats[l->q.what],
        .id_prefix = l->q.id_prefix,
        .from_ms = l->q.from_ms,
        .to_ms = l->q.to_ms,
        .max = (unsigned)least(each, least(l->q.max, EACH_MOST)),
        .bytes_max =
            BYTES_MAX / n > BYTES_LEAST ? least(BYTES_MAX / n, BYTES_MOST) : BYTES_LEAST,
    };
    bucket_list(bucket, &how, l->begun ? &l->behind : NULL, part->number, on_told, part);
}

static void ask_all(struct listing *l)
{
    struct route *route = l->route;
    bool queue = route->sink->rules != NULL;
    parts_free(l);
    l->part_count = queue ? 1 : route->bucket_count;
    l->parts = mem_alloc((size_t)l->part_count * sizeof(*l->parts));
    l->open = (unsigned)l->part_count;
    for (int64_t i = 0; i < l->part_count; i++) {
        l->parts[i].listing = l;
        l->parts[i].number = i;
        ask(&l->parts[i], queue ? queue_borrow(route->sink, l->q.queue)->bucket
                                : route->scheds[i]->bucket);
    }
}

static void refuse(struct listing *l, enum job_list_code code, const char *why)
{
    l->code = code;
    l->why = why;
    loop_defer(answer, l);
}

void job_list(struct bridge *bridge, struct slice route, const struct job_list_query *q,
              job_list_cb *cb, void *arg)
{
    struct listing *l = mem_alloc(sizeof(*l));
    must(q->max > 0 && q->max <= JOB_LIST_MAX);
    l->route = route_of_name(bridge, route);
    if (l->route)
        l->route->refs++; /* a queue's bucket is none of its route's */
    l->q = *q;
    l->cb = cb;
    l->arg = arg;
    l->why = "";
    l->rows = mem_alloc(sizeof(*l->rows));
    copy_texts(l);
    if (l->route == NULL)
        refuse(l, JOB_LIST_NO_ROUTE, "there is no route of that name");
    else if (q->cursor.n > 0 && read_cursor(l, q->cursor) < 0)
        refuse(l, JOB_LIST_BAD_CURSOR,
               "this cursor is none that this list has given; begin without one");
    else if (l->route->sink->rules == NULL && l->route->bucket_count == 0)
        refuse(l, JOB_LIST_AWAY, "Redis was not there yet; ask again");
    else if (l->route->sink->rules && q->queue.n == 0)
        refuse(
            l, JOB_LIST_IS_QUEUE,
            "the route ends at queues: name one of them with queue=NAME (of the command "
            "line, --queue NAME)");
    else if (l->route->sink->rules && !queue_name_is_good(q->queue))
        refuse(l, JOB_LIST_NO_QUEUE, "no queue can be called so");
    else
        ask_all(l);
}
