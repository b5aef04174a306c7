/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/name.h"
#include "bridge/bridge.h"
#include "bridge/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The default's fall-through is not marked for clang. */
#define HASH_FUNCTION HASH_FNV
#include <uthash.h>

enum { COUNTER_BITS = 14, INSTANCE_BITS = 40, NAME_CHARS = 16 };

struct slice name_of_record(struct job *job)
{
    struct slice id = job_keepf(job, "%.*s/%" PRId32 "/%" PRId64, SLICE_ARG(job->topic),
                                job->partition, job->offset);
    return id.n <= JOB_ID_MAX ? id : (struct slice){NULL, 0};
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

void name_partition(struct source *src, const struct bucket *b, const struct job *job,
                    struct origin *origin)
{
    struct buf key = {0};
    buf_add(&key, bucket_name(b), strlen(bucket_name(b)) + 1);
    buf_addf(&key, "%.*s/%" PRId32, SLICE_ARG(job->topic), job->partition);
    struct partition_row *row;
    HASH_FIND(hh, src->partitions, key.p, key.n, row);
    if (row == NULL) {
        row = mem_alloc(sizeof(*row) + key.n + 1);
        row->last = -1;
        memcpy(row->key, key.p, key.n);
        row->name = row->key + strlen(row->key) + 1;
        HASH_ADD(hh, src->partitions, key, (unsigned)key.n, row);
    }
    buf_free(&key);
    /* Read again from an earlier place: what was sent before it is not known any more. */
    origin->before = job->offset > row->last ? row->last : -1;
    origin->partition = row->name;
    origin->offset = job->offset;
    row->last = job->offset;
}

void submit_forget(struct source *src)
{
    struct partition_row *row, *next;
    HASH_ITER (hh, src->partitions, row, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(src->partitions, row);
        free(row);
    }
}
