/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/job_id.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"

#include <inttypes.h>

enum { COUNTER_BITS = 14, INSTANCE_BITS = 40, NAME_CHARS = 16 };

static int64_t digits_of(const char *p, const char *end)
{
    int64_t n = 0;
    for (; p < end && *p >= '0' && *p <= '9' && n < INT64_MAX / 10 - 9; p++)
        n = n * 10 + (*p - '0');
    return n;
}

int64_t job_rewind_number(struct slice rewinds, struct slice route)
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

struct slice job_id_of_record(struct source *src, struct job *job)
{
    char id[JOB_ID_MAX + 4 * (1 + TEXT_DECIMAL_MAX)], *at = id;
    const struct slice source = slice_of(src->conf->name);
    if (source.n + job->topic.n > JOB_ID_MAX)
        return (struct slice){NULL, 0};
    at = slice_put(at, source);
    *at++ = '/';
    at = slice_put(at, job->topic);
    *at++ = '/';
    at += text_put_decimal(at, job->partition);
    if (job->incarnation > 0) {
        *at++ = '~';
        at += text_put_decimal(at, job->incarnation);
    }
    *at++ = '/';
    at += text_put_decimal(at, job->offset);
    size_t n = (size_t)(at - id);
    return job_copy_slice(job, (struct slice){n <= JOB_ID_MAX ? id : NULL, n});
}

struct slice job_id_new(struct bridge *bridge, struct job *job)
{
    /* Sorted by ASCII code, so that ids sort by time. */
    static const char letters[] =
        "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    uint64_t now = (uint64_t)loop_wall_ms() << COUNTER_BITS;
    if (bridge->next_id < now)
        bridge->next_id = now;
    /* If the counter overflows within a ms, it runs into the next: the id is still
     * unique. */
    uint64_t high = bridge->next_id++, low = bridge->instance;
    char text[NAME_CHARS];
    unsigned __int128 all = (unsigned __int128)high << INSTANCE_BITS | low;
    for (int i = NAME_CHARS; i-- > 0; all >>= 6)
        text[i] = letters[(unsigned)all & 63];
    return job_copy_slice(job, (struct slice){text, sizeof(text)});
}

void job_id_set_origin(struct source *src, const struct route *route, struct bucket *b,
                       const struct job *job, struct origin *origin)
{
    struct buf *name = &src->partition_name;
    const int64_t rewind = job_rewind_number(job->rewinds, slice_of(route->conf->name));
    buf_clear(name);
    buf_add_str(name, src->conf->name);
    buf_add_str(name, "/");
    buf_add_slice(name, job->topic);
    buf_add_str(name, "/");
    text_add_decimal(name, job->partition);
    if (job->incarnation > 0)
        buf_addf(name, "~%u", job->incarnation);
    /* The number of buckets decides the bucket of a record. With a different number each
     * bucket starts a new chain, because records in its old chain may belong to other
     * buckets now. */
    if (route->bucket_count > 1)
        buf_addf(name, "*%" PRId64, route->bucket_count);
    if (rewind > 0)
        buf_addf(name, "+%" PRId64, rewind);
    bucket_set_origin(b, buf_slice(name), job->offset, origin);
    origin->stamp_ms = job->timestamp_ms > 0 ? job->timestamp_ms : 0;
}
