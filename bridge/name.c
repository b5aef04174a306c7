/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/name.h"
#include "bridge/base/decimal.h"
#include "bridge/base/hash.h"
#include "bridge/bridge.h"
#include "bridge/submit.h"

#include <stdlib.h>

enum { COUNTER_BITS = 14, INSTANCE_BITS = 40, NAME_CHARS = 16 };

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

struct partition_row {
    UT_hash_handle hh;
    int64_t last;     /* offset submitted last to this bucket */
    const char *name; /* "topic/7", the end of key */
    char key[];       /* the bucket's name, a NUL and that */
};

static struct partition_row *row_of(struct source *src)
{
    const struct buf *key = &src->partition_key;
    struct partition_row *row;
    HASH_FIND(hh, src->partitions, key->p, key->n, row);
    if (row == NULL) {
        row = mem_alloc(sizeof(*row) + key->n + 1);
        row->last = -1;
        memcpy(row->key, key->p, key->n);
        row->name = row->key + strlen(row->key) + 1;
        HASH_ADD(hh, src->partitions, key, (unsigned)key->n, row);
    }
    return row;
}

/* Its beginning; b NULL: of no bucket. */
static struct buf *row_key(struct source *src, const struct bucket *b)
{
    const char *name = b ? bucket_name(b) : "";
    buf_clear(&src->partition_key);
    buf_add(&src->partition_key, name, strlen(name) + 1);
    return &src->partition_key;
}

/* Read again from an earlier place: what was sent before it is not known any more. */
static void chain(struct partition_row *row, struct origin *origin)
{
    origin->before = origin->offset > row->last ? row->last : -1;
    row->last = origin->offset;
}

static struct partition_row *name_at(struct source *src, const struct bucket *b,
                                     const struct job *job, struct origin *origin)
{
    struct buf *key = row_key(src, b);
    buf_add_slice(key, job->topic);
    buf_add_str(key, "/");
    decimal_add(key, job->partition);
    struct partition_row *row = row_of(src);
    origin->partition = row->name;
    origin->offset = job->offset;
    origin->before = -1;
    origin->stamp_ms = job->timestamp_ms > 0 ? job->timestamp_ms : 0;
    return row;
}

void name_partition(struct source *src, const struct bucket *b, const struct job *job,
                    struct origin *origin)
{
    chain(name_at(src, b, job, origin), origin);
}

void name_origin(struct source *src, const struct job *job, struct origin *origin)
{
    name_at(src, NULL, job, origin);
}

void name_partition_again(struct source *src, const struct bucket *b,
                          struct origin *origin)
{
    buf_add_str(row_key(src, b), origin->partition);
    struct partition_row *row = row_of(src);
    origin->partition = row->name;
    chain(row, origin);
}

void name_forget(struct source *src, const char *partition)
{
    struct partition_row *row, *next;
    HASH_ITER (hh, src->partitions, row, next)
        if (partition == NULL || strcmp(row->name, partition) == 0)
            row->last = -1;
}

void submit_forget(struct source *src)
{
    struct partition_row *row, *next;
    HASH_ITER (hh, src->partitions, row, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(src->partitions, row);
        free(row);
    }
    buf_free(&src->partition_key);
}
