/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/name.h"
#include "bridge/base/decimal.h"
#include "bridge/base/hash.h"
#include "bridge/bridge.h"
#include "bridge/submit.h"

#include <stdlib.h>

enum {
    COUNTER_BITS = 14,
    INSTANCE_BITS = 40,
    NAME_CHARS = 16,
    CHAIN_MS = 3600 * 1000 /* see chain() */
};

struct slice name_of_record(struct job *job)
{
    char id[JOB_ID_MAX + 2 * (1 + DECIMAL_MAX)], *at = id;
    if (job->topic.n > JOB_ID_MAX)
        return (struct slice){NULL, 0};
    if (job->topic.n > 0)
        at = mempcpy(at, job->topic.p, job->topic.n);
    *at++ = '/';
    at += decimal_put(at, job->partition);
    *at++ = '/';
    at += decimal_put(at, job->offset);
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
    char name[];       /* "topic/7" */
};

struct bucket_rows {
    UT_hash_handle hh; /* in the source, by bucket */
    struct partition_row *rows;
    char bucket[]; /* its name; "" of none */
};

static struct bucket_rows *rows_of(const struct source *src, const char *bucket)
{
    struct bucket_rows *found;
    HASH_FIND(hh, src->partitions, bucket, strlen(bucket), found);
    return found;
}

static struct partition_row *row_of(struct source *src, const struct bucket *b,
                                    struct slice name)
{
    const char *bucket = b ? bucket_name(b) : "";
    struct bucket_rows *of = rows_of(src, bucket);
    struct partition_row *row;
    if (of == NULL) {
        of = mem_alloc(sizeof(*of) + strlen(bucket) + 1);
        strcpy(of->bucket, bucket);
        HASH_ADD_KEYPTR(hh, src->partitions, of->bucket, strlen(of->bucket), of);
    }
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

static struct partition_row *name_at(struct source *src, const struct bucket *b,
                                     const struct job *job, struct origin *origin)
{
    struct buf *name = &src->partition_name;
    buf_clear(name);
    buf_add_slice(name, job->topic);
    buf_add_str(name, "/");
    decimal_add(name, job->partition);
    struct partition_row *row = row_of(src, b, buf_slice(name));
    origin->partition = row->name;
    origin->offset = job->offset;
    origin->before = -1;
    origin->stamp_ms = job->timestamp_ms > 0 ? job->timestamp_ms : 0;
    return row;
}

void name_partition(struct source *src, const struct bucket *b, const struct job *job,
                    struct origin *origin)
{
    chain(name_at(src, b, job, origin), b, origin);
}

void name_origin(struct source *src, const struct job *job, struct origin *origin)
{
    name_at(src, NULL, job, origin);
}

void name_partition_again(struct source *src, const struct bucket *b,
                          struct origin *origin)
{
    struct partition_row *row = row_of(src, b, slice_of(origin->partition));
    origin->partition = row->name;
    chain(row, b, origin);
}

void name_forget(struct source *src, const char *partition)
{
    struct bucket_rows *of, *next_of;
    HASH_ITER (hh, src->partitions, of, next_of) {
        struct partition_row *row, *next;
        HASH_ITER (hh, of->rows, row, next)
            if (partition == NULL || strcmp(row->name, partition) == 0)
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
    HASH_DEL(src->partitions, of);
    free(of);
}

void name_bucket_gone(struct bridge *bridge, const struct bucket *b)
{
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct bucket_rows *of = rows_of(bridge->sources[i], bucket_name(b));
        if (of)
            rows_free(bridge->sources[i], of);
    }
}

void submit_forget(struct source *src)
{
    struct bucket_rows *of, *next;
    HASH_ITER (hh, src->partitions, of, next)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        rows_free(src, of);
    buf_free(&src->partition_name);
}
