/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job_record.c - the record of a job in Redis; see job.h. libmsgpack writes it, unpack.c
 * reads it.
 */
#include "bridge/base/text.h"
#include "bridge/base/unpack.h"
#include "bridge/job/job.h"

#include <stdio.h>
#include <stdlib.h>

#include <msgpack.h>

enum { RECORD_VERSION = 1, RECORD_ELEMENTS = 4, RECORD_ELEMENTS_OF_QUEUE = 6 };

/* These numbers are stored in Redis: never change a meaning, append new numbers at the
 * end. */
enum job_field {
    FIELD_KEY = 1,
    FIELD_HEADERS, /* flat array: name, value or nil, name, ... */
    FIELD_TOPIC,
    FIELD_TARGET,
    FIELD_SOURCE,
    FIELD_TIMESTAMP_MS,
    FIELD_EXPIRES_MS,
    FIELD_PARTITION,
    FIELD_OFFSET,
    FIELD_TARGET_ASKED,
    FIELD_RETRY,
    FIELD_REPEAT,
    FIELD_REPEAT_UNTIL_MS,
    FIELD_REPEAT_COUNT,
    FIELD_RUN,
    FIELD_LAG_MS,    /* due_ms - timestamp_ms, replaces FIELD_TIMESTAMP_MS */
    FIELD_OF_RECORD, /* topic, partition and offset are those in the id */
    FIELD_NATIVE
};

enum field_type {
    TYPE_BYTES, /* struct slice, written as binary; omitted if absent, but not if empty */
    TYPE_TEXT,  /* struct slice, written as a string if ASCII; omitted if equal to the
                 * route's value, or without one if empty */
    TYPE_INT64,
    TYPE_INT32,
    TYPE_BOOL
};
/* The parts of an id that names a Kafka record. */
struct of_record {
    struct slice source, topic;
    int64_t partition, offset;
};
struct field {
    enum job_field number;
    enum field_type type;
    size_t offset;          /* in struct job */
    int64_t def;            /* omitted if it has this value */
    enum job_field instead; /* omitted if the record has this field; 0: none */
};
static const struct field fields[] = {
    {FIELD_KEY, TYPE_BYTES, offsetof(struct job, key), 0, 0},
    {FIELD_TOPIC, TYPE_TEXT, offsetof(struct job, topic), 0, FIELD_OF_RECORD},
    {FIELD_TARGET, TYPE_TEXT, offsetof(struct job, target), 0, 0},
    {FIELD_SOURCE, TYPE_TEXT, offsetof(struct job, source), 0, FIELD_OF_RECORD},
    {FIELD_TIMESTAMP_MS, TYPE_INT64, offsetof(struct job, timestamp_ms), 0, FIELD_LAG_MS},
    {FIELD_EXPIRES_MS, TYPE_INT64, offsetof(struct job, expires_ms), 0, 0},
    {FIELD_PARTITION, TYPE_INT32, offsetof(struct job, partition), -1, FIELD_OF_RECORD},
    {FIELD_OFFSET, TYPE_INT64, offsetof(struct job, offset), -1, FIELD_OF_RECORD},
    {FIELD_TARGET_ASKED, TYPE_BOOL, offsetof(struct job, target_asked), 0, 0},
    {FIELD_RETRY, TYPE_TEXT, offsetof(struct job, retry), 0, 0},
    {FIELD_REPEAT, TYPE_TEXT, offsetof(struct job, repeat), 0, 0},
    {FIELD_REPEAT_UNTIL_MS, TYPE_INT64, offsetof(struct job, repeat_until_ms), 0, 0},
    {FIELD_REPEAT_COUNT, TYPE_INT64, offsetof(struct job, repeat_count), 0, 0},
    {FIELD_RUN, TYPE_INT64, offsetof(struct job, run), 0, 0},
    {FIELD_NATIVE, TYPE_BYTES, offsetof(struct job, native), 0, 0},
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static struct slice slice_at(const struct job *job, const struct field *f)
{
    return *(const struct slice *)(const void *)((const char *)job + f->offset);
}

static int64_t integer_at(const struct job *job, const struct field *f)
{
    const void *at = (const char *)job + f->offset;
    switch (f->type) {
    case TYPE_INT32:
        return *(const int32_t *)at;
    case TYPE_BOOL:
        return *(const bool *)at;
    default:
        return *(const int64_t *)at;
    }
}

static bool take_char(struct slice *rest, char c)
{
    if (rest->n == 0 || rest->p[0] != c)
        return false;
    *rest = (struct slice){rest->p + 1, rest->n - 1};
    return true;
}

/* Parses "source/topic/partition/offset", see job_id_of_record(); "~incarnation" may
 * follow the partition. More text may follow if that id was in use. Returns false for
 * other ids. */
static bool read_id(struct slice id, struct of_record *out)
{
    int64_t incarnation;
    out->source = text_cut(&id, '/');
    out->topic = text_cut(&id, '/');
    if (text_take_digits(&id, &out->partition) == 0 || out->partition > INT32_MAX)
        return false;
    if (take_char(&id, '~'))
        text_take_digits(&id, &incarnation);
    return take_char(&id, '/') && text_take_digits(&id, &out->offset) > 0 &&
           out->offset < INT64_MAX;
}

/* Values that a record omits, because they are known elsewhere. */
struct elsewhere {
    const struct job_names *names;
    bool of_record;
    int64_t lag_ms; /* -1: timestamp_ms is written unchanged */
};

static struct elsewhere elsewhere_of(const struct job *job, const struct job_names *names)
{
    struct elsewhere e = {names, false, -1};
    struct of_record said;
    int64_t lag_ms;
    if (names == NULL)
        return e;
    e.of_record = read_id(job->id, &said) && said.partition == job->partition &&
                  said.offset == job->offset && slice_eq(said.topic, job->topic) &&
                  slice_eq(said.source, job->source);
    if (job->timestamp_ms > 0 &&
        !__builtin_sub_overflow(job->due_ms, job->timestamp_ms, &lag_ms) && lag_ms >= 0)
        e.lag_ms = lag_ms;
    return e;
}

static struct slice text_of(const struct job_names *names, enum job_field number)
{
    if (names && number == FIELD_TARGET)
        return names->target;
    if (names && number == FIELD_SOURCE)
        return names->source;
    return SLICE_LIT("");
}

static bool is_written(const struct job *job, const struct field *f,
                       const struct elsewhere *e)
{
    if ((f->instead == FIELD_OF_RECORD && e->of_record) ||
        (f->instead == FIELD_LAG_MS && e->lag_ms >= 0))
        return false;
    if (f->type == TYPE_BYTES)
        return slice_at(job, f).p != NULL;
    if (f->number == FIELD_SOURCE && e->names && e->names->several)
        return true;
    if (f->type == TYPE_TEXT)
        return !slice_eq(slice_at(job, f), text_of(e->names, f->number));
    return integer_at(job, f) != f->def;
}

static int on_bytes(void *out, const char *bytes, size_t n)
{
    buf_add(out, bytes, n);
    return 0;
}

static void pack_bytes(msgpack_packer *pk, struct slice s)
{
    if (s.p == NULL)
        msgpack_pack_nil(pk);
    else
        msgpack_pack_bin_with_body(pk, s.p, s.n);
}

/* A MessagePack string must be UTF-8, which is not guaranteed here. */
static void pack_text(msgpack_packer *pk, struct slice s)
{
    unsigned char all = 0;
    for (size_t i = 0; i < s.n; i++)
        all |= (unsigned char)s.p[i];
    if (all < 0x80)
        msgpack_pack_str_with_body(pk, s.n ? s.p : "", s.n);
    else
        msgpack_pack_bin_with_body(pk, s.p, s.n);
}

static void pack_headers(msgpack_packer *pk, const struct job *job)
{
    msgpack_pack_int(pk, FIELD_HEADERS);
    msgpack_pack_array(pk, 2 * (size_t)job->header_count);
    for (unsigned i = 0; i < job->header_count; i++) {
        pack_text(pk, job->headers[i].name);
        pack_bytes(pk, job->headers[i].value);
    }
}

static void pack_field(msgpack_packer *pk, const struct job *job, const struct field *f)
{
    msgpack_pack_int(pk, (int)f->number);
    if (f->type == TYPE_BYTES)
        pack_bytes(pk, slice_at(job, f));
    else if (f->type == TYPE_TEXT)
        pack_text(pk, slice_at(job, f));
    else
        msgpack_pack_int64(pk, integer_at(job, f));
}

static void pack_fields(msgpack_packer *pk, const struct job *job,
                        const struct elsewhere *e)
{
    size_t count = (job->header_count > 0) + (size_t)e->of_record + (e->lag_ms >= 0);
    bool written[FIELD_COUNT];
    for (size_t i = 0; i < FIELD_COUNT; i++)
        count += written[i] = is_written(job, &fields[i], e);
    msgpack_pack_map(pk, count);
    if (job->header_count > 0)
        pack_headers(pk, job);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (written[i])
            pack_field(pk, job, &fields[i]);
    if (e->lag_ms >= 0) {
        msgpack_pack_int(pk, FIELD_LAG_MS);
        msgpack_pack_int64(pk, e->lag_ms);
    }
    if (e->of_record) {
        msgpack_pack_int(pk, FIELD_OF_RECORD);
        msgpack_pack_int(pk, 1);
    }
}

void job_encode(const struct job *job, const struct job_names *names, struct buf *out)
{
    msgpack_packer pk;
    const struct elsewhere e = elsewhere_of(job, names);

    msgpack_packer_init(&pk, out, on_bytes);
    bool of_queue = job->tries_max > 0 || job->lease_ms > 0;
    msgpack_pack_array(&pk, of_queue ? RECORD_ELEMENTS_OF_QUEUE : RECORD_ELEMENTS);
    msgpack_pack_int(&pk, RECORD_VERSION);
    msgpack_pack_int64(&pk, job->due_ms);
    pack_bytes(&pk, job->payload);
    pack_fields(&pk, job, &e);
    if (of_queue) { /* nine bytes each, so that lua/lib/queue.lua finds them at the end */
        msgpack_pack_fix_uint64(&pk, (uint64_t)job->tries_max);
        msgpack_pack_fix_uint64(&pk, (uint64_t)job->lease_ms);
    }
}

/* ------------------------------------------------------------------- decoding */

static int cut_off(struct err *err)
{
    return err_set(err, "the record is truncated, or is not MessagePack");
}

/* Reads bytes, or nil if may_be_none, and copies them into the job. */
static int read_slice(struct slice *rest, struct job *job, bool may_be_none,
                      struct slice *into, struct err *err)
{
    struct unpacked v;
    if (unpack_next(rest, &v) < 0)
        return cut_off(err);
    if (v.kind == UNPACK_BYTES)
        *into = job_copy_slice(job, v.bytes);
    else if (v.kind == UNPACK_NIL && may_be_none)
        *into = (struct slice){NULL, 0};
    else
        return err_set(err, "bytes expected, found another type");
    return 0;
}

static int read_integer(struct slice *rest, int64_t least, int64_t most, int64_t *into,
                        struct err *err)
{
    struct unpacked v;
    if (unpack_next(rest, &v) < 0)
        return cut_off(err);
    if (v.kind != UNPACK_INTEGER || v.integer < least || v.integer > most)
        return err_set(err,
                       "integer expected, found another type or a value out of range");
    *into = v.integer;
    return 0;
}

static int read_headers(struct slice *rest, struct job *job, struct err *err)
{
    struct unpacked v;
    if (unpack_next(rest, &v) < 0)
        return cut_off(err);
    if (v.kind != UNPACK_ARRAY || v.count % 2 != 0)
        return err_set(err, "the headers are not an array of names and values");
    job->header_count = 0; /* if the map contains headers twice, the last ones count */
    for (uint32_t i = 0; i < v.count; i += 2) {
        struct unpacked name, value;
        if (unpack_next(rest, &name) < 0 || unpack_next(rest, &value) < 0)
            return cut_off(err);
        if (name.kind != UNPACK_BYTES ||
            (value.kind != UNPACK_BYTES && value.kind != UNPACK_NIL))
            return err_set(err, "a header name or value does not consist of bytes");
        if (value.kind == UNPACK_NIL)
            value.bytes = (struct slice){NULL, 0};
        if (job_add_header(job, name.bytes, value.bytes, err) < 0)
            return -1;
    }
    return 0;
}

static int read_lag(struct slice *rest, struct job *job, struct err *err)
{
    int64_t lag_ms = 0;
    if (read_integer(rest, 0, INT64_MAX, &lag_ms, err) < 0)
        return -1;
    if (__builtin_sub_overflow(job->due_ms, lag_ms, &job->timestamp_ms))
        return err_set(err, "the timestamp is out of range");
    return 0;
}

static int read_of_record(struct slice *rest, struct job *job, struct err *err)
{
    struct of_record said;
    int64_t one = 0;
    if (read_integer(rest, 1, 1, &one, err) < 0)
        return -1;
    if (!read_id(job->id, &said))
        return err_set(err,
                       "the id does not consist of source, topic, partition and offset");
    job->source = job_copy_slice(job, said.source);
    job->topic = job_copy_slice(job, said.topic);
    job->partition = (int32_t)said.partition;
    job->offset = said.offset;
    return 0;
}

static int read_field(struct slice *rest, struct job *job, int64_t number,
                      struct err *err)
{
    const struct field *f = fields, *end = fields + FIELD_COUNT;
    int64_t n = 0;

    if (number == FIELD_HEADERS)
        return read_headers(rest, job, err);
    if (number == FIELD_LAG_MS)
        return read_lag(rest, job, err);
    if (number == FIELD_OF_RECORD)
        return read_of_record(rest, job, err);
    while (f < end && (int64_t)f->number != number)
        f++;
    if (f == end)
        return unpack_skip(rest) < 0 ? cut_off(err) : 0;
    void *at = (char *)job + f->offset;
    if (f->type == TYPE_BYTES || f->type == TYPE_TEXT)
        return read_slice(rest, job, f->type == TYPE_BYTES, at, err);
    static const struct {
        int64_t least, most;
    } ranges[] = {[TYPE_INT64] = {INT64_MIN, INT64_MAX},
                  [TYPE_INT32] = {INT32_MIN, INT32_MAX},
                  [TYPE_BOOL] = {0, 1}};
    if (read_integer(rest, ranges[f->type].least, ranges[f->type].most, &n, err) < 0)
        return -1;
    if (f->type == TYPE_INT32)
        *(int32_t *)at = (int32_t)n;
    else if (f->type == TYPE_BOOL)
        *(bool *)at = n != 0;
    else
        *(int64_t *)at = n;
    return 0;
}

static int read_fields(struct slice *rest, struct job *job, struct err *err)
{
    struct unpacked map;
    int64_t number = 0;

    if (unpack_next(rest, &map) < 0)
        return cut_off(err);
    if (map.kind != UNPACK_MAP)
        return err_set(err, "map of fields expected, found another type");
    for (uint32_t i = 0; i < map.count; i++) {
        char where[32];
        if (read_integer(rest, INT64_MIN, INT64_MAX, &number, err) < 0)
            return err_in(err, "field number");
        if (read_field(rest, job, number, err) < 0) {
            snprintf(where, sizeof(where), "field %lld", (long long)number);
            return err_in(err, where);
        }
    }
    return 0;
}

/* Later versions may append elements to the array. An incompatible change requires a new
 * version number. */
static int read_record(struct slice rest, struct job *job, struct err *err)
{
    struct unpacked head, version;
    if (unpack_next(&rest, &head) < 0)
        return cut_off(err);
    if (head.kind != UNPACK_ARRAY || head.count < 1)
        return err_set(err, "not a record: not an array");
    if (unpack_next(&rest, &version) < 0)
        return cut_off(err);
    if (version.kind != UNPACK_INTEGER)
        return err_set(err, "not a record: no version number");
    if (version.integer != RECORD_VERSION)
        return err_set(err,
                       "the record has version %lld; this tarry reads version %d: run "
                       "the version of tarry that wrote it, or a later one",
                       (long long)version.integer, RECORD_VERSION);
    if (head.count < RECORD_ELEMENTS)
        return err_set(err, "the record has %u elements; at least %d are required",
                       head.count, RECORD_ELEMENTS);
    if (read_integer(&rest, INT64_MIN, INT64_MAX, &job->due_ms, err) < 0)
        return err_in(err, "due time");
    if (read_slice(&rest, job, true, &job->payload, err) < 0)
        return err_in(err, "payload");
    if (read_fields(&rest, job, err) < 0)
        return -1;
    uint32_t done = RECORD_ELEMENTS;
    if (head.count >= RECORD_ELEMENTS_OF_QUEUE) {
        if (read_integer(&rest, 0, INT64_MAX, &job->tries_max, err) < 0 ||
            read_integer(&rest, 0, INT64_MAX, &job->lease_ms, err) < 0)
            return err_in(err, "attempts or lease");
        done = RECORD_ELEMENTS_OF_QUEUE;
    }
    for (uint32_t i = done; i < head.count; i++)
        if (unpack_skip(&rest) < 0)
            return cut_off(err);
    return rest.n == 0 ? 0 : err_set(err, "unexpected data after the record");
}

bool job_is_newer(struct slice record)
{
    struct unpacked head, version;
    return unpack_next(&record, &head) == 0 && head.kind == UNPACK_ARRAY &&
           head.count > 0 && unpack_next(&record, &version) == 0 &&
           version.kind == UNPACK_INTEGER && version.integer > RECORD_VERSION;
}

struct job *job_decode(struct slice id, struct slice record,
                       const struct job_names *names, struct err *err)
{
    struct job *job = job_new(id.n + record.n);
    job->id = job_copy_slice(job, id);
    job->target = job_copy_slice(job, text_of(names, FIELD_TARGET));
    job->source = job_copy_slice(job, text_of(names, FIELD_SOURCE));
    if (read_record(record, job, err) == 0)
        return job;
    job_free(job);
    return NULL;
}
