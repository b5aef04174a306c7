/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_import.c - imports delay-queue's jobs. Each is a string named by its id. A
 * sorted set dq_bucket_N, scored in seconds, contains the id until it is due, and again
 * while a consumer has it. The list dq_queue_TOPIC contains it while it is ready.
 *
 * An id may be in several places. The ready list has precedence, then a bucket at the
 * job's own due time, then a later one (its ttr is running). An id in none of them was
 * being delivered when the server died, or was lost by a race in its timer.
 */
#include "bridge/base/unpack.h"
#include "bridge/import/import.h"
#include "sources/delayqueue/delayqueue.h"

/* ------------------------------------------------------------------ a job's value */

enum { FIELDS = 5 };

/* A MessagePack map with the keys "1" to "5" in any order, some optional; or an array of
 * five. */
static const struct field {
    enum unpack_kind kind;
    size_t offset;
} fields[FIELDS] = {
    {UNPACK_BYTES, offsetof(struct delayqueue_value, topic)},
    {UNPACK_BYTES, offsetof(struct delayqueue_value, id)},
    {UNPACK_INTEGER, offsetof(struct delayqueue_value, due_s)},
    {UNPACK_INTEGER, offsetof(struct delayqueue_value, ttr_s)},
    {UNPACK_BYTES, offsetof(struct delayqueue_value, body)},
};

static int read_field(struct slice *rest, const struct field *field,
                      struct delayqueue_value *out)
{
    struct unpacked v;
    void *at = (char *)out + field->offset;
    if (unpack_next(rest, &v) < 0)
        return -1;
    if (v.kind == UNPACK_NIL)
        return 0;
    if (v.kind != field->kind)
        return -1;
    if (v.kind == UNPACK_BYTES)
        *(struct slice *)at = v.bytes;
    else
        *(int64_t *)at = v.integer;
    return 0;
}

static int read_pair(struct slice *rest, struct delayqueue_value *out)
{
    struct slice whole = *rest;
    struct unpacked key;
    if (unpack_next(rest, &key) < 0)
        return -1;
    if (key.kind == UNPACK_BYTES && key.bytes.n == 1 && key.bytes.p[0] >= '1' &&
        key.bytes.p[0] <= '5')
        return read_field(rest, &fields[key.bytes.p[0] - '1'], out);
    *rest = whole; /* a key may be of any type */
    return unpack_skip(rest) < 0 ? -1 : unpack_skip(rest);
}

int delayqueue_value_read(struct slice bytes, struct delayqueue_value *out)
{
    struct unpacked head;
    *out = (struct delayqueue_value){
        .topic = SLICE_LIT(""), .id = SLICE_LIT(""), .body = SLICE_LIT("")};
    if (unpack_next(&bytes, &head) < 0 ||
        (head.kind != UNPACK_MAP && (head.kind != UNPACK_ARRAY || head.count != FIELDS)))
        return -1;
    for (uint32_t i = 0; i < head.count; i++) {
        int result = head.kind == UNPACK_MAP ? read_pair(&bytes, out)
                                             : read_field(&bytes, &fields[i], out);
        if (result < 0)
            return -1;
    }
    return bytes.n == 0 && out->id.n > 0 && out->topic.n > 0 ? 0 : -1;
}

/* ------------------------------------------------------------------ keys */

/* Does key match a name such as "dq_bucket_%d" with a number? Other keys are not
 * delay-queue's. */
static bool is_numbered(const char *name, struct slice key)
{
    const char *mark = strstr(name, "%d");
    if (mark == NULL)
        return true;
    size_t i = (size_t)(mark - name), end = key.n - strlen(mark + 2);
    while (i < end && key.p[i] >= '0' && key.p[i] <= '9')
        i++;
    return i == end;
}

/* Appends a name such as "dq_bucket_%d" as a glob pattern: "dq_bucket_*". */
static void add_pattern(struct buf *out, const char *name)
{
    for (const char *c = name; *c; c++) {
        if (*c == '%' && (c[1] == 'd' || c[1] == 's')) {
            buf_add_str(out, "*");
            c++;
            continue;
        }
        if (strchr("*?[]\\^", *c))
            buf_add_str(out, "\\");
        buf_add(out, c, 1);
    }
}

/* arg: the bucket name in the original's configuration. */
static bool is_key(void *arg, const struct import_part *part, struct slice key)
{
    return part->shape != IMPORT_SETS || is_numbered(arg, key);
}

static struct job *read_job(void *arg, const struct import_entry *e,
                            const struct import_body *body, struct import_how *how,
                            enum import_skip *why)
{
    struct delayqueue_value v;
    (void)arg;
    if (delayqueue_value_read(body->text, &v) < 0 || !slice_eq(v.id, e->member))
        return NULL;
    if (e->part->shape == IMPORT_SETS) {
        bool popped = e->score > v.due_s;
        *why = IMPORT_SKIPS;
        if (popped != (how->state == IMPORT_IN_FLIGHT))
            return NULL; /* the other part imports it */
        how->at_ms = popped ? import_s(e->score) : 0;
    }
    struct job *job = job_new(v.body.n + v.id.n + v.topic.n);
    job->id = job_copy_slice(job, v.id);
    job->topic = job_copy_slice(job, v.topic);
    job->payload = job_copy_slice(job, v.body);
    job->timed = true;
    job->due_ms = import_s(v.due_s);
    job->lease_ms = v.ttr_s > 0 && v.ttr_s <= 86400 ? v.ttr_s * 1000 : 0;
    return job;
}

int delayqueue_import(struct source *src, void *self, struct import *im, struct err *err)
{
    struct import_option options[] = {
        {"bucket_name", "dq_bucket_%d"}, {"queue_name", "dq_queue_%s"}, {0}};
    struct buf buckets = {0}, queues = {0};
    (void)src, (void)self;
    if (import_options(im, options, err) < 0)
        return -1;
    add_pattern(&buckets, options[0].value);
    add_pattern(&queues, options[1].value);
    const struct import_part parts[] = {
        {buf_str(&queues), IMPORT_HEAD_LISTS, IMPORT_PENDING, false},
        {buf_str(&buckets), IMPORT_SETS, IMPORT_PENDING, false},
        {buf_str(&buckets), IMPORT_SETS, IMPORT_IN_FLIGHT, false},
        {"*", IMPORT_BODIES, IMPORT_LOST, true},
        {0},
    };
    const struct import_layout layout = {
        .parts = parts, .is_key = is_key, .read = read_job, .shared = true};
    int result = import_walk(im, &layout, (void *)(uintptr_t)options[0].value, err);
    buf_free(&buckets);
    buf_free(&queues);
    return result;
}
