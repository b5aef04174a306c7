/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_job.c - a job's memory, its headers, and its record: written, read, truncated,
 * forged.
 */
#include "bridge/base/unpack.h"
#include "bridge/job/job.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
static const struct slice none = {NULL, 0};

/* SLICE_LIT() as an initialiser with static storage. */
#define LIT(text)                                                                        \
    {                                                                                    \
        text, sizeof(text) - 1                                                           \
    }

static void assert_slice(struct slice a, struct slice b)
{
    assert_int_equal(a.n, b.n);
    if (a.n > 0)
        assert_memory_equal(a.p, b.p, a.n);
}

/* Decode a copy that ends where the record ends, so that the sanitizer detects an
 * overread. */
static struct job *decode(struct slice record, struct err *err)
{
    char *copy = malloc(record.n ? record.n : 1);
    assert_non_null(copy);
    memcpy(copy, record.p, record.n);
    struct job *job =
        job_decode(SLICE_LIT("id-1"), (struct slice){copy, record.n}, NULL, err);
    free(copy);
    return job;
}

/* --------------------------------------------------------------------- memory */

static void memory_kept_by_a_job_never_moves(void **state)
{
    (void)state;
    enum { PIECES = 2000 };
    static struct slice kept[PIECES];
    struct job *job = job_new(100);
    for (int i = 0; i < PIECES; i++)
        kept[i] = job_format(job, "%0*d", 1 + i % 700, i);
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(atoi(kept[i].p), i);
        assert_int_equal(strlen(kept[i].p), kept[i].n);
    }
    job_free(job);
}

static void kept_bytes_end_with_a_nul_and_null_stays_null(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    struct slice s = job_copy_slice(job, SLICE_LIT("a\0b"));
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "a\0b", 4);
    s = job_copy_slice(job, SLICE_LIT(""));
    assert_non_null(s.p);
    assert_int_equal(s.p[0], 0);
    assert_null(job_copy_slice(job, none).p);
    job_free(job);
}

static void memory_for_structures_is_aligned_and_zeroed(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    for (size_t n = 0; n < 3000; n += 37) {
        job_copy_slice(job, SLICE_LIT("x"));
        char *p = job_memory(job, n);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
    }
    job_free(job);
    job_free(NULL);
}

static void a_new_job_has_neither_partition_nor_offset(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    assert_int_equal(job->partition, -1);
    assert_int_equal(job->offset, -1);
    assert_null(job->key.p);
    assert_int_equal(job->header_count, 0);
    job_free(job);
}

/* -------------------------------------------------------------------- headers */

static void headers_keep_their_order_and_are_found_without_case(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    for (int i = 0; i < JOB_HEADERS_MAX; i++) {
        struct slice name = job_format(job, "Name-%d", i);
        assert_int_equal(job_add_header(job, name, job_format(job, "%d", i), NULL), 0);
    }
    assert_int_equal(job->header_count, JOB_HEADERS_MAX);
    for (int i = 0; i < JOB_HEADERS_MAX; i++)
        assert_int_equal(atoi(job->headers[i].value.p), i);
    assert_ptr_equal(job_header(job, "nAME-77"), &job->headers[77]);
    assert_null(job_header(job, "name-"));
    struct err err = {""};
    assert_int_equal(job_add_header(job, none, none, &err), -1);
    assert_non_null(strstr(err.text, "256"));
    job_free(job);
}

static void headers_have_a_maximum_total_size(void **state)
{
    (void)state;
    static char big[JOB_HEADER_BYTES_MAX];
    struct job *job = job_new(0);
    struct slice half = {big, JOB_HEADER_BYTES_MAX / 2};
    assert_int_equal(job_add_header(job, half, none, NULL), 0);
    assert_int_equal(job_add_header(job, SLICE_LIT("x"), half, NULL), -1);
    assert_int_equal(job_add_header(job, none, half, NULL), 0);
    assert_int_equal(job_add_header(job, SLICE_LIT("x"), none, NULL), -1);
    assert_int_equal(job->header_count, 2);
    job_free(job);
}

/* --------------------------------------------------------------------- record */

static uint64_t random_state = 1;

static uint64_t some(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* One in four is none (if allowed), one in four is empty, the rest are random bytes. */
static struct slice some_bytes(struct job *job, size_t most, bool may_be_none)
{
    uint64_t which = some(4);
    if (which == 0)
        return may_be_none ? none : SLICE_LIT("");
    size_t n = which == 1 ? 0 : (size_t)some(some(8) ? 64 : most);
    char *p = job_memory(job, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)some(some(2) ? 128 : 256);
    return (struct slice){p, n};
}

static int64_t some_integer(int64_t def)
{
    static const int64_t edges[] = {
        0,     1,     -1,     127,    128,       -32,       -33,       255,      256,
        65535, 65536, -32768, -32769, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    return some(3) ? edges[some(COUNT(edges))] : def;
}

static struct job *some_job(void)
{
    struct job *job = job_new((size_t)some(2000));
    job->payload = some_bytes(job, 70000, true);
    job->key = some_bytes(job, 3000, true);
    job->topic = some_bytes(job, 1000, false);
    job->target = some_bytes(job, 1000, false);
    job->source = some_bytes(job, 100, false);
    for (uint64_t n = some(2) ? some(20) : 0; n > 0; n--)
        job_add_header(job, some_bytes(job, 300, false), some_bytes(job, 300, true),
                       NULL);
    job->due_ms = some_integer(0);
    job->timestamp_ms = some_integer(0);
    job->expires_ms = some_integer(0);
    job->offset = some_integer(-1);
    job->partition = (int32_t)some_integer(-1);
    job->target_asked = some(2) == 0;
    if (some(2)) {
        job->retry = some_bytes(job, 100, false);
        job->native = some_bytes(job, 300, true);
        job->repeat = some_bytes(job, 100, false);
        job->repeat_until_ms = some_integer(0);
        job->repeat_count = some_integer(0);
        job->run = some_integer(0);
    }
    return job;
}

static void assert_same(const struct job *a, const struct job *b)
{
    assert_slice(a->payload, b->payload);
    assert_int_equal(a->payload.p == NULL, b->payload.p == NULL);
    assert_slice(a->key, b->key);
    assert_int_equal(a->key.p == NULL, b->key.p == NULL);
    assert_slice(a->topic, b->topic);
    assert_slice(a->target, b->target);
    assert_slice(a->source, b->source);
    assert_int_equal(a->header_count, b->header_count);
    for (unsigned i = 0; i < a->header_count; i++) {
        assert_slice(a->headers[i].name, b->headers[i].name);
        assert_slice(a->headers[i].value, b->headers[i].value);
        assert_int_equal(a->headers[i].value.p == NULL, b->headers[i].value.p == NULL);
    }
    assert_true(a->due_ms == b->due_ms && a->timestamp_ms == b->timestamp_ms);
    assert_true(a->expires_ms == b->expires_ms && a->offset == b->offset);
    assert_int_equal(a->partition, b->partition);
    assert_int_equal(a->target_asked, b->target_asked);
    assert_slice(a->retry, b->retry);
    assert_slice(a->native, b->native);
    assert_int_equal(a->native.p == NULL, b->native.p == NULL);
    assert_slice(a->repeat, b->repeat);
    assert_true(a->repeat_until_ms == b->repeat_until_ms && a->run == b->run);
    assert_true(a->repeat_count == b->repeat_count);
}

static const struct job_names of_route = {LIT("orders_in"), LIT("orders"), false};

/* A Kafka record of a route with a fixed source and target. */
static struct job *kafka_job(struct slice id)
{
    static const char payload[100] = {1};
    struct job *job = job_new(0);
    job->id = id;
    job->topic = SLICE_LIT("orders.delayed");
    job->partition = 12;
    job->offset = INT64_C(1234567890123);
    job->source = of_route.source;
    job->target = of_route.target;
    job->payload = (struct slice){payload, sizeof(payload)};
    job->timestamp_ms = INT64_C(1769860800123);
    job->due_ms = job->timestamp_ms + 3600 * 1000;
    return job;
}

/* Require that the job is read back unchanged. Returns the bytes of its record. */
static size_t travels(const struct job *job)
{
    struct buf record = {0};
    struct err err = {""};
    job_encode(job, &of_route, &record);
    struct job *back = job_decode(job->id, buf_slice(&record), &of_route, &err);
    if (back == NULL)
        fail_msg("%.*s: %s", SLICE_ARG(job->id), err.text);
    assert_same(job, back);
    size_t n = record.n;
    job_free(back);
    buf_free(&record);
    return n;
}

/* The sources of a route may change while its jobs are pending. */
static void a_job_keeps_its_source_if_the_sources_of_its_route_change(void **state)
{
    (void)state;
    static const struct job_names both = {LIT("orders_in"), LIT("orders"), true};
    static const struct job_names other = {LIT("other_in"), LIT("orders"), false};
    const struct {
        const struct job_names *wrote, *reads;
        struct slice source;
    } rows[] = {{&of_route, &both, of_route.source},
                {&both, &other, of_route.source},
                {&both, &of_route, other.source}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf record = {0};
        struct job *job = kafka_job(SLICE_LIT("a"));
        job->source = rows[i].source;
        job_encode(job, rows[i].wrote, &record);
        struct job *back = job_decode(job->id, buf_slice(&record), rows[i].reads, NULL);
        assert_non_null(back);
        assert_same(job, back);
        job_free(back);
        job_free(job);
        buf_free(&record);
    }
}

static void any_job_is_read_as_written(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct buf out = {0};
        struct err err = {""};
        struct job *job = some_job();
        job_encode(job, NULL, &out);
        struct job *again = decode(buf_slice(&out), &err);
        if (again == NULL)
            fail_msg("run %d: %s", i, err.text);
        assert_same(job, again);
        travels(job);
        assert_slice(again->id, SLICE_LIT("id-1"));
        /* Headers can be added to a decoded job, whatever number it has. */
        assert_int_equal(job_add_header(again, SLICE_LIT("one"), SLICE_LIT("more"), NULL),
                         0);
        assert_string_equal(job_header(again, "one")->value.p, "more");
        job_free(again);
        job_free(job);
        buf_free(&out);
    }
}

static void a_truncated_record_is_rejected(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    struct buf out = {0};
    job->due_ms = INT64_C(1769860800123);
    job->payload = SLICE_LIT("hello, a payload of more than thirty-one bytes");
    job->key = SLICE_LIT("key");
    job->topic = SLICE_LIT("topic");
    job->offset = 70000;
    job->partition = 3;
    job_add_header(job, SLICE_LIT("n"), SLICE_LIT("v"), NULL);
    job_add_header(job, SLICE_LIT("null"), none, NULL);
    job_encode(job, NULL, &out);
    for (size_t n = 0; n < out.n; n++) {
        struct err err = {""};
        assert_null(decode((struct slice){out.p, n}, &err));
        assert_true(err.text[0] != '\0');
    }
    buf_add_str(&out, "x");
    assert_null(decode(buf_slice(&out), NULL));
    job_free(job);
    buf_free(&out);
}

static void a_flipped_bit_never_crashes(void **state)
{
    (void)state;
    random_state = 7;
    for (int run = 0; run < 20; run++) {
        struct job *job = some_job();
        struct buf out = {0};
        job->payload.n = job->payload.n > 200 ? 200 : job->payload.n;
        job_encode(job, NULL, &out);
        for (size_t bit = 0; bit < out.n * 8 && bit < 8000; bit++) {
            out.p[bit / 8] = (char)(out.p[bit / 8] ^ 1 << bit % 8);
            job_free(decode(buf_slice(&out), NULL));
            out.p[bit / 8] = (char)(out.p[bit / 8] ^ 1 << bit % 8);
        }
        job_free(job);
        buf_free(&out);
    }
}

static void a_plain_job_is_a_short_record(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    struct buf out = {0};
    job->due_ms = 5;
    job->payload = SLICE_LIT("hi");
    job->id = SLICE_LIT("not written");
    job->route = SLICE_LIT("not written");
    job_encode(job, NULL, &out);
    assert_slice(buf_slice(&out), SLICE_LIT("\x94\x01\x05\xc4\x02hi\x80"));
    job->key = SLICE_LIT("");
    job->topic = SLICE_LIT("t");
    job->payload = none;
    job_add_header(job, SLICE_LIT("h"), none, NULL);
    buf_clear(&out);
    job_encode(job, NULL, &out);
    assert_slice(buf_slice(&out), SLICE_LIT("\x94\x01\x05\xc0\x83"
                                            "\x02\x92\xa1h\xc0"
                                            "\x01\xc4\x00"
                                            "\x03\xa1t"));
    job_free(job);
    buf_free(&out);
}

static void fields_of_a_later_version_are_skipped(void **state)
{
    (void)state;
    static const struct slice rows[] = {
        SLICE_LIT("\x94\x01\x05\xc4\x02hi\x81\x63\x01"), /* field 99: integer */
        SLICE_LIT("\x94\x01\x05\xc4\x02hi\x81\x63\x82\x01\x93\x01\x02\x03\x04\xc3"),
        SLICE_LIT("\x94\x01\x05\xc4\x02hi\x81\xcd\x01\x00\xc7\x02\x05xy"), /* extension */
        SLICE_LIT("\x94\x01\x05\xc4\x02hi\x81\x63\xca\x00\x00\x00\x00"),   /* float */
        SLICE_LIT("\x94\x01\x05\xc4\x02hi\x81\x63\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
        SLICE_LIT("\x94\x01\x05\xc4\x02hi\x81\x63\xd8zzzzzzzzzzzzzzzzz"),
        SLICE_LIT(
            "\x98\x01\x05\xc4\x02hi\x80\x03\x00\x91\xc0\x80"), /* two more elements */
        SLICE_LIT("\x94\x01\x05\xa2hi\x80"),                   /* payload as a string */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err err = {""};
        struct job *job = decode(rows[i], &err);
        if (job == NULL)
            fail_msg("row %zu: %s", i, err.text);
        assert_slice(job->payload, SLICE_LIT("hi"));
        job_free(job);
    }
}

static void values_implied_by_the_route_and_the_id_are_omitted(void **state)
{
    (void)state;
    struct job *job = kafka_job(SLICE_LIT("orders_in/orders.delayed/12/1234567890123"));
    /* Array, version, due time, payload, map, lag, and that the id contains the rest. */
    const size_t least = 1 + 1 + 9 + 2 + 100 + 1 + 6 + 2;
    assert_int_equal(travels(job), least);
    job->id = SLICE_LIT("orders_in/orders.delayed/12/1234567890123/1769860800123.7");
    assert_int_equal(travels(job), least); /* lua/move.lua: the name was in use */
    job->id = SLICE_LIT("orders_in/orders.delayed/12~3/1234567890123");
    assert_int_equal(travels(job), least); /* of a topic that was created again */
    job_free(job);
}

static void values_not_implied_by_route_or_id_are_written(void **state)
{
    (void)state;
    static const struct slice ids[] = {
        LIT("mine"),
        LIT("orders_in/orders.delayed/12/1234567890123@1769860800123"),
        LIT("orders_in/orders.delayed/12/1234567890124"),
        LIT("orders_in/orders.delayed/13/1234567890123"),
        LIT("orders_in/orders.delaye/12/1234567890123"),
        LIT("orders_in/orders.delayed/12/"),
        LIT("orders_in/orders/delayed/12/1234567890123"),
        LIT("orders.delayed/12/1234567890123"),
        LIT("other/orders.delayed/12/1234567890123"),
        LIT("orders_in/orders.delayed/12/12345678901234567890123"),
        LIT("orders_in/orders.delayed//1234567890123"),
        LIT("orders_in//12/1234567890123"),
        LIT("/12/1234567890123"),
        LIT("12/1234567890123"),
        LIT("1234567890123"),
        LIT("/"),
        LIT(""),
    };
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct job *job = kafka_job(ids[i]);
        travels(job);
        job_free(job);
    }
    for (int i = 0; i < 5; i++) {
        struct job *job =
            kafka_job(SLICE_LIT("orders_in/orders.delayed/12/1234567890123"));
        job->target = i == 0   ? SLICE_LIT("")
                      : i == 1 ? SLICE_LIT("orders2")
                               : job->target;
        job->source = i == 2 ? SLICE_LIT("http") : job->source;
        job->timestamp_ms = i == 3 ? job->due_ms + 1 : i == 4 ? 0 : job->timestamp_ms;
        travels(job);
        job_free(job);
    }
}

static void a_record_whose_id_lacks_omitted_values_is_rejected(void **state)
{
    (void)state;
    static const struct slice record = LIT("\x94\x01\x05\xc4\x02hi\x81\x11\x01");
    struct err err = {""};
    struct job *job = job_decode(SLICE_LIT("k/t/3/7"), record, &of_route, &err);
    assert_non_null(job);
    assert_true(job->partition == 3 && job->offset == 7);
    assert_slice(job->source, SLICE_LIT("k"));
    assert_slice(job->topic, SLICE_LIT("t"));
    job_free(job);
    assert_null(job_decode(SLICE_LIT("mine"), record, &of_route, &err));
    assert_non_null(strstr(err.text, "partition"));
}

/* lua/lib/queue.lua reads the last 18 bytes of an array of six. */
static void tries_and_lease_of_a_queue_are_the_last_nine_bytes_each(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    struct buf record = {0};
    struct err err = {""};
    job->payload = SLICE_LIT("hi");
    job->tries_max = 3;
    job->lease_ms = 0x10000;
    job_encode(job, NULL, &record);
    const struct slice want = SLICE_LIT("\x96\x01\x00\xc4\x02hi\x80"
                                        "\xcf\0\0\0\0\0\0\0\x03"
                                        "\xcf\0\0\0\0\0\x01\0\0");
    assert_slice(buf_slice(&record), want);
    struct job *back = decode(want, &err);
    assert_non_null(back);
    assert_true(back->tries_max == 3 && back->lease_ms == 0x10000);
    job_free(back);
    job_free(job);
    buf_free(&record);
}

static void an_invalid_record_is_rejected_with_an_error_text(void **state)
{
    (void)state;
    static const struct {
        struct slice record;
        const char *says;
    } rows[] = {
        {SLICE_LIT(""), "truncated"},
        {SLICE_LIT("{\"due\": 5}"), "not an array"},
        {SLICE_LIT("\x90"), "not an array"},
        {SLICE_LIT("\x91\xa1x"), "no version"},
        {SLICE_LIT("\x91\x02"), "version 2"},
        {SLICE_LIT("\x94\x02\x05\xc0\x80"), "version 2"},
        {SLICE_LIT("\x93\x01\x05\xc0"), "3 elements"},
        {SLICE_LIT("\x94\x01\xa1x\xc0\x80"), "due time"},
        {SLICE_LIT("\x94\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xc0\x80"), "due time"},
        {SLICE_LIT("\x94\x01\x05\x07\x80"), "payload"},
        {SLICE_LIT("\x94\x01\x05\xc4\xffhi\x80"), "payload"},
        {SLICE_LIT("\x94\x01\x05\xc0\x90"), "map"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\xa1x\x00"), "field number"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x03\xc0"), "field 3"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x01\x00"), "field 1"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x08\xce\x80\x00\x00\x00"), "field 8"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x02\x91\xa1x"), "field 2"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x02\x92\xc0\xc0"), "field 2"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x02\x92\xa1x\x05"), "field 2"},
        {SLICE_LIT("\x94\x01\x05\xc0\x81\x63\xc1"), "field 99"},
        {SLICE_LIT("\x94\x01\x05\xc0\x80\x80"), "unexpected data after"},
        {SLICE_LIT("\xc1"), "truncated"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err err = {""};
        if (decode(rows[i].record, &err) || strstr(err.text, rows[i].says) == NULL)
            fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.text, rows[i].says);
    }
}

static void a_record_with_huge_counts_is_rejected(void **state)
{
    (void)state;
    static const struct slice rows[] = {
        SLICE_LIT("\xdd\xff\xff\xff\xff\x01\x05\xc0\x80"),
        SLICE_LIT("\x94\x01\x05\xc6\xff\xff\xff\xff"),
        SLICE_LIT("\x94\x01\x05\xc0\xdf\xff\xff\xff\xff"),
        SLICE_LIT("\x94\x01\x05\xc0\x81\x02\xdd\xff\xff\xff\xfe"),
        SLICE_LIT("\x94\x01\x05\xc0\x81\x63\xdf\xff\xff\xff\xff\x01"),
        SLICE_LIT("\x94\x01\x05\xc0\x81\x63\xc9\xff\xff\xff\xff\x01"),
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_null(decode(rows[i], NULL));
    /* A hundred thousand nested arrays: the decoder must not recurse, and exhaust the
     * stack. */
    struct buf deep = {0};
    buf_add_slice(&deep, SLICE_LIT("\x94\x01\x05\xc0\x81\x63"));
    memset(buf_room(&deep, 100000), 0x91, 100000);
    buf_grew(&deep, 100000);
    assert_null(decode(buf_slice(&deep), NULL));
    buf_add_str(&deep, "\x01");
    struct job *job = decode(buf_slice(&deep), NULL);
    assert_non_null(job);
    job_free(job);
    buf_free(&deep);
}

static void too_many_headers_in_a_record_are_refused(void **state)
{
    (void)state;
    struct buf out = {0};
    buf_add_slice(&out, SLICE_LIT("\x94\x01\x05\xc0\x81\x02\xdc\x02\x02"));
    for (int i = 0; i <= JOB_HEADERS_MAX; i++)
        buf_add_slice(&out, SLICE_LIT("\xa1n\xc0"));
    struct err err = {""};
    assert_null(decode(buf_slice(&out), &err));
    assert_non_null(strstr(err.text, "256"));
    buf_free(&out);
}

static void every_integer_form_is_read(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        int64_t want;
    } rows[] = {
        {SLICE_LIT("\x7f"), 127},
        {SLICE_LIT("\xe0"), -32},
        {SLICE_LIT("\xcc\xff"), 255},
        {SLICE_LIT("\xcd\xff\xfe"), 65534},
        {SLICE_LIT("\xce\xff\xff\xff\xfe"), INT64_C(4294967294)},
        {SLICE_LIT("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff"), INT64_MAX},
        {SLICE_LIT("\xd0\x80"), -128},
        {SLICE_LIT("\xd1\x80\x00"), -32768},
        {SLICE_LIT("\xd2\x80\x00\x00\x00"), INT32_MIN},
        {SLICE_LIT("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"), INT64_MIN},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice rest = rows[i].text;
        struct unpacked v;
        assert_int_equal(unpack_next(&rest, &v), 0);
        assert_int_equal(v.kind, UNPACK_INTEGER);
        assert_true(v.integer == rows[i].want);
        assert_int_equal(rest.n, 0);
    }
}

/* Byte 0 of the array is the version of the writer. A damaged record is not newer. */
static void a_record_of_a_later_version_is_distinguished_from_a_broken_one(void **state)
{
    static const struct {
        struct slice record;
        bool newer;
    } rows[] = {
        {SLICE_LIT("\x94\x02\x05\xc0\x80"), true},
        {SLICE_LIT("\x91\x02"), true},
        {SLICE_LIT("\x95\x7f"), true},
        {SLICE_LIT("\x94\x01\x05\xc0\x80"), false},
        {SLICE_LIT("\x94\x01"), false},
        {SLICE_LIT("\x94\x00"), false},
        {SLICE_LIT("\x94\xff"), false}, /* -1 */
        {SLICE_LIT("\x91\xa1x"), false},
        {SLICE_LIT("\x90"), false},
        {SLICE_LIT("\x02"), false},
        {SLICE_LIT("x"), false},
        {SLICE_LIT(""), false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(job_is_newer(rows[i].record), rows[i].newer);
}

UNIT(job)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_kept_by_a_job_never_moves),
        cmocka_unit_test(kept_bytes_end_with_a_nul_and_null_stays_null),
        cmocka_unit_test(memory_for_structures_is_aligned_and_zeroed),
        cmocka_unit_test(a_new_job_has_neither_partition_nor_offset),
        cmocka_unit_test(headers_keep_their_order_and_are_found_without_case),
        cmocka_unit_test(headers_have_a_maximum_total_size),
        cmocka_unit_test(a_job_keeps_its_source_if_the_sources_of_its_route_change),
        cmocka_unit_test(any_job_is_read_as_written),
        cmocka_unit_test(a_truncated_record_is_rejected),
        cmocka_unit_test(a_record_of_a_later_version_is_distinguished_from_a_broken_one),
        cmocka_unit_test(a_flipped_bit_never_crashes),
        cmocka_unit_test(a_plain_job_is_a_short_record),
        cmocka_unit_test(fields_of_a_later_version_are_skipped),
        cmocka_unit_test(tries_and_lease_of_a_queue_are_the_last_nine_bytes_each),
        cmocka_unit_test(values_implied_by_the_route_and_the_id_are_omitted),
        cmocka_unit_test(values_not_implied_by_route_or_id_are_written),
        cmocka_unit_test(a_record_whose_id_lacks_omitted_values_is_rejected),
        cmocka_unit_test(an_invalid_record_is_rejected_with_an_error_text),
        cmocka_unit_test(a_record_with_huge_counts_is_rejected),
        cmocka_unit_test(too_many_headers_in_a_record_are_refused),
        cmocka_unit_test(every_integer_form_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
