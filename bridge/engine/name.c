/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/name.h"
#include "bridge/base/text.h"
#include "bridge/base/hash.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/submit.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    COUNTER_BITS = 14,
    INSTANCE_BITS = 40,
    NAME_CHARS = 16,
    CHAIN_MS = 3600 * 1000 /* see chain() */
};

/* How a partition is read, where that is not as always: source_set_reading(). */
struct reading_row {
    UT_hash_handle hh;
    struct partition_reading reading; /* its rewinds stand behind the key */
    char key[];                       /* "topic/7" */
};

/* NULL: as always. */
static const struct reading_row *reading_of(struct source *src, const char *partition,
                                            size_t n)
{
    struct reading_row *row = NULL;
    if (src->readings)
        HASH_FIND(hh, src->readings, partition, n, row);
    return row;
}

static struct reading_row *new_reading(const char *topic, int32_t partition,
                                       const struct partition_reading *reading)
{
    const struct slice rewinds = reading->rewinds;
    struct buf key = {0};
    buf_addf(&key, "%s/%" PRId32, topic, partition);
    const size_t n = key.n + 1;
    struct reading_row *row = mem_alloc(sizeof(*row) + n + rewinds.n);
    memcpy(row->key, buf_str(&key), n);
    memcpy(row->key + n, rewinds.p ? rewinds.p : "", rewinds.n);
    row->reading = *reading;
    row->reading.rewinds.p = row->key + n;
    buf_free(&key);
    return row;
}

static void forget_reading(struct source *src, const char *key)
{
    struct reading_row *row = NULL;
    HASH_FIND(hh, src->readings, key, strlen(key), row);
    if (row)
        HASH_DEL(src->readings, row);
    free(row);
}

void source_set_reading(struct source *src, const char *topic, int32_t partition,
                        const struct partition_reading *reading)
{
    struct reading_row *row = new_reading(topic, partition, reading);
    forget_reading(src, row->key);
    if (reading->incarnation == 0 && reading->rewinds.n == 0) {
        free(row);
        return;
    }
    HASH_ADD(hh, src->readings, key, (unsigned)strlen(row->key), row);
}

static int64_t digits_of(const char *p, const char *end)
{
    int64_t n = 0;
    for (; p < end && *p >= '0' && *p <= '9' && n < INT64_MAX / 10 - 9; p++)
        n = n * 10 + (*p - '0');
    return n;
}

int64_t reading_rewind(struct slice rewinds, struct slice route)
{
    const char *p = rewinds.p, *end = p ? p + rewinds.n : p;
    while (p < end) {
        const char *blank = memchr(p, ' ', (size_t)(end - p));
        const char *stop = blank ? blank : end;
        if ((size_t)(stop - p) > route.n && memcmp(p, route.p, route.n) == 0 &&
            p[route.n] == ':')
            return digits_of(p + route.n + 1, stop);
        p = stop + 1;
    }
    return 0;
}

struct slice name_of_record(struct source *src, struct job *job)
{
    char id[JOB_ID_MAX + 4 * (1 + TEXT_DECIMAL_MAX)], *at = id;
    const struct slice source = slice_of(src->conf->name);
    if (source.n + job->topic.n > JOB_ID_MAX)
        return (struct slice){NULL, 0};
    at = slice_put(at, source);
    *at++ = '/';
    const char *topic = at;
    at = slice_put(at, job->topic);
    *at++ = '/';
    at += text_put_decimal(at, job->partition);
    const struct reading_row *row = reading_of(src, topic, (size_t)(at - topic));
    if (row && row->reading.incarnation > 0) {
        *at++ = '~';
        at += text_put_decimal(at, row->reading.incarnation);
    }
    *at++ = '/';
    at += text_put_decimal(at, job->offset);
    size_t n = (size_t)(at - id);
    return job_keep(job, (struct slice){n <= JOB_ID_MAX ? id : NULL, n});
}

struct slice name_new(struct bridge *bridge, struct job *job)
{
    /* In the order of ASCII, so that names sort as they were given. */
    static const char letters[] =
        "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    uint64_t now = (uint64_t)loop_wall_ms() << COUNTER_BITS;
    if (bridge->next_id < now)
        bridge->next_id = now;
    /* More than the counter holds in one ms runs ahead into the next: still unique. */
    uint64_t high = bridge->next_id++, low = bridge->instance;
    char text[NAME_CHARS];
    unsigned __int128 all = (unsigned __int128)high << INSTANCE_BITS | low;
    for (int i = NAME_CHARS; i-- > 0; all >>= 6)
        text[i] = letters[(unsigned)all & 63];
    return job_keep(job, (struct slice){text, sizeof(text)});
}

/* A partition at one bucket. */
struct partition_row {
    UT_hash_handle hh; /* in its bucket_rows, by name */
    int64_t last;      /* offset submitted last to this bucket */
    int64_t used_ms;   /* monotonic: when that was */
    char name[];       /* "source/topic/7" */
};

struct bucket_rows {
    UT_hash_handle hh; /* in the source, by bucket */
    struct partition_row *rows;
    char bucket[]; /* its name */
};

static struct bucket_rows *rows_of(const struct source *src, const char *bucket)
{
    struct bucket_rows *found;
    HASH_FIND(hh, src->partitions, bucket, strlen(bucket), found);
    return found;
}

static struct bucket_rows *add_rows(struct source *src, const char *bucket)
{
    struct bucket_rows *of = mem_alloc(sizeof(*of) + strlen(bucket) + 1);
    strcpy(of->bucket, bucket);
    HASH_ADD_KEYPTR(hh, src->partitions, of->bucket, strlen(of->bucket), of);
    return of;
}

static struct partition_row *row_of(struct source *src, const struct bucket *b,
                                    struct slice name)
{
    struct bucket_rows *of = rows_of(src, bucket_name(b));
    struct partition_row *row;
    if (of == NULL)
        of = add_rows(src, bucket_name(b));
    HASH_FIND(hh, of->rows, name.p, name.n, row);
    if (row == NULL) {
        row = mem_alloc(sizeof(*row) + name.n + 1);
        row->last = -1;
        memcpy(row->name, name.p, name.n);
        HASH_ADD_KEYPTR(hh, of->rows, row->name, name.n, row);
    }
    return row;
}

/* Read again from an earlier place: what was sent before it is not known any more. And
 * what was sent long ago has been answered, if nothing is under way; a queue's note of it
 * may have expired since (lua/lib/ingest.lua). */
static void chain(struct partition_row *row, const struct bucket *b,
                  struct origin *origin)
{
    int64_t now_ms = loop_mono_ms();
    bool old = now_ms - row->used_ms > CHAIN_MS && bucket_is_idle(b);
    origin->before = origin->offset > row->last && !old ? row->last : -1;
    row->last = origin->offset;
    row->used_ms = now_ms;
}

/* Where a record goes depends on the number of buckets: with another number each bucket
 * begins anew, since what it knows are records that may go elsewhere now. */
static void add_buckets(const struct route *route, struct buf *name)
{
    if (route->bucket_count > 1)
        buf_addf(name, "*%" PRId64, route->bucket_count);
}

/* Appends the incarnation to "source/topic/7", where the topic begins at that place.
 * Gives the rewind of the route, 0: none. */
static int64_t add_reading(struct source *src, const struct route *route, size_t topic,
                           struct buf *name)
{
    const struct reading_row *row = reading_of(src, name->p + topic, name->n - topic);
    const int64_t rewind =
        row ? reading_rewind(row->reading.rewinds, slice_of(route->conf->name)) : 0;
    if (row && row->reading.incarnation > 0)
        buf_addf(name, "~%u", row->reading.incarnation);
    return rewind;
}

void name_partition(struct source *src, const struct route *route, const struct bucket *b,
                    const struct job *job, struct origin *origin)
{
    struct buf *name = &src->partition_name;
    buf_clear(name);
    buf_add_str(name, src->conf->name);
    buf_add_str(name, "/");
    const size_t topic = name->n;
    buf_add_slice(name, job->topic);
    buf_add_str(name, "/");
    text_add_decimal(name, job->partition);
    const int64_t rewind = src->readings ? add_reading(src, route, topic, name) : 0;
    add_buckets(route, name);
    if (rewind > 0)
        buf_addf(name, "+%" PRId64, rewind);
    struct partition_row *row = row_of(src, b, buf_slice(name));
    origin->partition = row->name;
    origin->offset = job->offset;
    origin->before = -1;
    origin->stamp_ms = job->timestamp_ms > 0 ? job->timestamp_ms : 0;
    chain(row, b, origin);
}

void name_forget(struct source *src)
{
    struct bucket_rows *of, *next_of;
    HASH_ITER (hh, src->partitions, of, next_of) {
        struct partition_row *row, *next;
        HASH_ITER (hh, of->rows, row, next)
            row->last = -1;
    }
}

static void rows_free(struct source *src, struct bucket_rows *of)
{
    struct partition_row *row, *next;
    HASH_ITER (hh, of->rows, row, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(of->rows, row);
        free(row);
    }
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
    HASH_DEL(src->partitions, of);
    free(of);
}

void name_bucket_gone(struct bridge *bridge, const struct bucket *b)
{
    EACH_SOURCE (bridge, src) {
        struct bucket_rows *of = rows_of(src, bucket_name(b));
        if (of)
            rows_free(src, of);
    }
}

void submit_forget(struct source *src)
{
    struct bucket_rows *of, *next;
    struct reading_row *reading, *next_reading;
    HASH_ITER (hh, src->readings, reading, next_reading) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as below
        HASH_DEL(src->readings, reading);
        free(reading);
    }
    HASH_ITER (hh, src->partitions, of, next)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        rows_free(src, of);
    buf_free(&src->partition_name);
}
