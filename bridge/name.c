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
    const struct sched *sched;
    int64_t last; /* offset submitted last to this bucket */
    char *name;   /* "topic/7" */
    size_t key_n;
    char key[]; /* the bucket's address and the name */
};

void name_partition(struct source *src, const struct sched *s, const struct job *job,
                    struct origin *origin)
{
    char key[sizeof(s) + JOB_TOPIC_MAX + 16];
    memcpy(key, &s, sizeof(s));
    int n = snprintf(key + sizeof(s), sizeof(key) - sizeof(s), "%.*s/%" PRId32,
                     (int)(job->topic.n < JOB_TOPIC_MAX ? job->topic.n : JOB_TOPIC_MAX),
                     job->topic.p ? job->topic.p : "", job->partition);
    size_t key_n = sizeof(s) + (size_t)n;
    struct partition_row *row;
    HASH_FIND(hh, src->partitions, key, key_n, row);
    if (row == NULL) {
        row = mem_alloc(sizeof(*row) + key_n);
        row->last = -1;
        row->key_n = key_n;
        memcpy(row->key, key, key_n);
        row->name = mem_strdup(key + sizeof(s));
        HASH_ADD_KEYPTR(hh, src->partitions, row->key, row->key_n, row);
    }
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
        free(row->name);
        free(row);
    }
}
