/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_lmstfy.c - lmstfy's ids, names, attributes, paths, and jobs as shown.
 */
#include "sources/lmstfy/lmstfy.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_slice(struct slice s, const char *text)
{
    if (!slice_is(s, text))
        fail_msg("\"%.*s\" instead of \"%s\"", SLICE_ARG(s), text);
}

/* ----------------------------------------------------------------------------- ids */

static void a_ulid_is_written_by_its_specification(void **state)
{
    (void)state;
    char text[LMSTFY_ULID];
    unsigned char ones[16], back[16];
    memset(ones, 0xff, sizeof(ones));
    lmstfy_ulid_write(ones, text);
    assert_memory_equal(text, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", LMSTFY_ULID);
    /* Time 1469918176385 is 01ARYZ6S41: the example of the ULID specification. */
    const unsigned char bytes[16] = {0x01, 0x56, 0x3d, 0xf3, 0x64, 0x81};
    lmstfy_ulid_write(bytes, text);
    assert_memory_equal(text, "01ARYZ6S410000000000000000", LMSTFY_ULID);
    assert_int_equal(lmstfy_ulid_read(text, back), 0);
    assert_memory_equal(back, bytes, sizeof(back));
}

static void an_id_carries_its_time_and_its_delay(void **state)
{
    (void)state;
    static const struct {
        uint32_t delay_s;
        const char *tail;
    } rows[] = {{0, "000000"}, {UINT32_MAX, "ZZZZZZ"}, {1, NULL}, {86400, NULL}};
    char out[LMSTFY_JOB_ID];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice id = lmstfy_job_id(1469918176385, rows[i].delay_s, false, out);
        assert_int_equal(id.n, LMSTFY_ULID);
        assert_memory_equal(id.p, "01ARYZ6S41", 10);
        assert_int_equal(lmstfy_id_ms(id), 1469918176385);
        unsigned char bytes[16];
        assert_int_equal(lmstfy_ulid_read(id.p, bytes), 0);
        uint32_t delay_s = 0;
        for (int b = 3; b >= 0; b--)
            delay_s = delay_s << 8 | bytes[12 + b];
        assert_int_equal(delay_s, rows[i].delay_s);
        if (rows[i].tail)
            assert_memory_equal(id.p + 20, rows[i].tail, 6);
    }
}

static void an_id_with_a_version_has_one_more_byte(void **state)
{
    (void)state;
    char out[LMSTFY_JOB_ID];
    struct slice id = lmstfy_job_id(1469918176385, 7, true, out);
    assert_int_equal(id.n, LMSTFY_JOB_ID);
    assert_memory_equal(id.p, "101ARYZ6S41", 11);
    assert_true(lmstfy_id_has_version(id));
    assert_int_equal(lmstfy_id_ms(id), 1469918176385);
}

static void ids_differ(void **state)
{
    (void)state;
    char last[LMSTFY_JOB_ID] = "", out[LMSTFY_JOB_ID];
    for (int i = 0; i < 2000; i++) {
        lmstfy_job_id(1469918176385, 0, false, out);
        assert_memory_not_equal(out, last, LMSTFY_ULID);
        memcpy(last, out, sizeof(last));
    }
}

static void an_invalid_id_has_no_time(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                      "01ARYZ6S4100000000000000I0",
                                      "01arYZ6S410000000000000000",
                                      "01ARYZ6S41000000000000000",
                                      "001ARYZ6S410000000000000000",
                                      "2101ARYZ6S410000000000000000"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(lmstfy_id_ms(slice_of(bad[i])), -1);
    assert_int_equal(lmstfy_id_ms((struct slice){
                         "01ARYZ6S41\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", LMSTFY_ULID}),
                     -1);
}

/* --------------------------------------------------------------------------- names */

static void names_are_letters_digits_dash_and_underscore(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "A-b_9", "_", "-"};
    static const char *const bad[] = {"", "a b", "a/b", "a,b", "\xc3\xa4", "a."};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(lmstfy_name_is_valid(slice_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(lmstfy_name_is_valid(slice_of(bad[i])));
    assert_false(lmstfy_name_is_valid((struct slice){"a\0", 2}));
}

static void a_token_may_contain_its_pool(void **state)
{
    (void)state;
    static const char *const rows[][3] = {{"tok", "default", "tok"},
                                          {":tok", "default", "tok"},
                                          {"default:tok", "default", "tok"},
                                          {"p:t:u", "p", "t:u"},
                                          {"p:", "p", ""},
                                          {"", "default", ""},
                                          {":", "default", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice pool, token;
        lmstfy_split_token(slice_of(rows[i][0]), &pool, &token);
        assert_slice(pool, rows[i][1]);
        assert_slice(token, rows[i][2]);
    }
}

static void a_topic_is_built_from_names_and_split_again(void **state)
{
    (void)state;
    struct buf out = {0};
    struct slice pool, ns, queue;
    lmstfy_add_topic(&out, SLICE_LIT("default"), SLICE_LIT("n"), SLICE_LIT("q"));
    assert_slice(buf_slice(&out), "n/q");
    assert_int_equal(lmstfy_split_topic(buf_slice(&out), &pool, &ns, &queue), 0);
    assert_slice(pool, "default");
    assert_slice(ns, "n");
    assert_slice(queue, "q");
    buf_clear(&out);
    lmstfy_add_topic(&out, SLICE_LIT("p"), SLICE_LIT("n"), SLICE_LIT("q"));
    assert_slice(buf_slice(&out), "p/n/q");
    assert_int_equal(lmstfy_split_topic(buf_slice(&out), &pool, &ns, &queue), 0);
    assert_slice(pool, "p");
    assert_slice(queue, "q");
    static const char *const bad[] = {"",     "a",       "a/",   "/a",
                                      "a//b", "a/b/c/d", "a/b/", "a/b c"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(lmstfy_split_topic(slice_of(bad[i]), &pool, &ns, &queue), -1);
    buf_free(&out);
}

/* ------------------------------------------------------------------------ the table */

static void a_path_finds_its_row(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *api, *ns, *queue, *id;
    } rows[] = {
        {"PUT", "/api/n/q", "/api/:namespace/:queue", "n", "q", ""},
        {"GET", "/api/n/a,b", "/api/:namespace/:queue", "n", "a,b", ""},
        {"PUT", "/api/n/q/job/i", "/api/:namespace/:queue/job/:job_id", "n", "q", "i"},
        {"PUT", "/api/n/q/bulk", "/api/:namespace/:queue/bulk", "n", "q", ""},
        {"PUT", "/api/n/q/bulk/", "/api/:namespace/:queue/bulk", "n", "q", ""},
        {"GET", "/api/n/q/deadletter/size/", "/api/:namespace/:queue/deadletter/size",
         "n", "q", ""},
        {"GET", "/api/peek/size", "/api/:namespace/:queue", "peek", "size", ""},
        {"GET", "/api/n/q/", NULL, "", "", ""},
        {"PUT", "/api/n/", NULL, "", "", ""},
        {"GET", "/api/n", NULL, "", "", ""},
        {"GET", "/api//q", NULL, "", "", ""},
        {"GET", "/api/n/q/job/", NULL, "", "", ""},
        {"GET", "/api/n/q/job/i/", NULL, "", "", ""},
        {"GET", "/api/n/q/size//", NULL, "", "", ""},
        {"GET", "/API/n/q", NULL, "", "", ""},
        {"POST", "/api/n/q", NULL, "", "", ""},
        {"HEAD", "/api/n/q/size", NULL, "", "", ""},
        {"GET", "/", NULL, "", "", ""},
        {"GET", "", NULL, "", "", ""},
        {"GET", "/api/n/q/other", NULL, "", "", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice took[3];
        const struct lmstfy_row *row =
            lmstfy_route(lmstfy_rows, rows[i].method, slice_of(rows[i].path), took);
        if (rows[i].api == NULL) {
            assert_null(row);
            continue;
        }
        assert_non_null(row);
        assert_string_equal(row->path, rows[i].api);
        assert_slice(took[0], rows[i].ns);
        assert_slice(took[1], rows[i].queue);
        assert_slice(took[2], rows[i].id);
    }
}

/* ----------------------------------------------------------- attributes, jobs shown */

static void take(struct job *job, const char *name, const char *value)
{
    lmstfy_attr_add(job, slice_of(name), slice_of(value));
}

static void attributes_are_truncated_sorted_and_the_first_of_a_name_wins(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    char v[200];
    memset(v, 'v', sizeof(v) - 1);
    v[sizeof(v) - 1] = '\0';
    take(job, "Job-Attr-Zeta", "1");
    take(job, "JOB-ATTR-ALPHA", "2");
    take(job, "job-attr-alpha", "3");
    take(job, "Job-Attr-", "empty name");
    take(job, "Job-Attr-None", "");
    take(job, "X-Job-Attr-A", "no");
    take(job, "Job-Attr-a23456789012345678901234567890123456789", v);
    assert_int_equal(job->header_count, 4);
    static const char *const names[] = {"", "a2345678901234567890123456789012", "alpha",
                                        "zeta"};
    for (unsigned i = 0; i < 4; i++)
        assert_slice(job->headers[i].name, names[i]);
    assert_int_equal(job->headers[1].value.n, LMSTFY_ATTR_VALUE);
    assert_slice(job->headers[2].value, "2");
    job_free(job);
}

static void more_than_sixteen_attributes_are_too_many(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    char name[32];
    for (int i = 0; i < LMSTFY_ATTRS; i++) {
        snprintf(name, sizeof(name), "Job-Attr-%d", i);
        take(job, name, "x");
    }
    take(job, name, "again");
    assert_int_equal(job->header_count, LMSTFY_ATTRS);
    take(job, "Job-Attr-One-More", "x");
    take(job, "Job-Attr-And-More", "x");
    assert_int_equal(job->header_count, LMSTFY_ATTRS + 1);
    job_free(job);
}

static void a_job_is_shown_byte_for_byte(void **state)
{
    (void)state;
    struct buf out = {0};
    struct job *job = job_new(0);
    take(job, "Job-Attr-B", "x<y");
    take(job, "Job-Attr-A", "1");
    job->payload = job_copy_slice(job, SLICE_LIT("hello"));
    struct queue_job found = {.job = job,
                              .id = SLICE_LIT("101ARYZ6S410000000000000000"),
                              .state = QUEUE_IN_FLIGHT,
                              .tries_left = 2,
                              .expires_ms = 1469918176385 + 61500,
                              .now_ms = 1469918176385 + 1000};
    lmstfy_item_show(&out, &found, SLICE_LIT("n"), SLICE_LIT("q"), 2, "new job");
    assert_slice(
        buf_slice(&out),
        "{\"attributes\":{\"a\":\"1\",\"b\":\"x\\u003cy\"},\"data\":\"aGVsbG8=\","
        "\"elapsed_ms\":1000,\"job_id\":\"101ARYZ6S410000000000000000\","
        "\"msg\":\"new job\",\"namespace\":\"n\",\"queue\":\"q\","
        "\"remain_tries\":2,\"ttl\":61}");
    buf_clear(&out);
    found.id.p++, found.id.n--; /* without a version it has no attributes */
    found.state = QUEUE_DEAD;
    lmstfy_item_show(&out, &found, SLICE_LIT("n"), SLICE_LIT("q"), QUEUE_NO_LIMIT, NULL);
    assert_slice(buf_slice(&out),
                 "{\"attributes\":null,\"data\":\"aGVsbG8=\",\"elapsed_ms\":1000,"
                 "\"job_id\":\"01ARYZ6S410000000000000000\",\"namespace\":\"n\","
                 "\"queue\":\"q\",\"remain_tries\":65535,\"ttl\":0}");
    job_free(job);
    buf_free(&out);
}

static void a_job_with_a_foreign_id_uses_its_timestamp_as_age(void **state)
{
    (void)state;
    struct job *job = job_new(0);
    struct queue_job found = {.job = job, .id = SLICE_LIT("mine"), .now_ms = 5000};
    assert_int_equal(lmstfy_elapsed_ms(&found), -1);
    job->timestamp_ms = 2000;
    assert_int_equal(lmstfy_elapsed_ms(&found), 3000);
    job->timestamp_ms = 9000;
    assert_int_equal(lmstfy_elapsed_ms(&found), 0);
    job_free(job);
}

UNIT(lmstfy)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ulid_is_written_by_its_specification),
        cmocka_unit_test(an_id_carries_its_time_and_its_delay),
        cmocka_unit_test(an_id_with_a_version_has_one_more_byte),
        cmocka_unit_test(ids_differ),
        cmocka_unit_test(an_invalid_id_has_no_time),
        cmocka_unit_test(names_are_letters_digits_dash_and_underscore),
        cmocka_unit_test(a_token_may_contain_its_pool),
        cmocka_unit_test(a_topic_is_built_from_names_and_split_again),
        cmocka_unit_test(a_path_finds_its_row),
        cmocka_unit_test(attributes_are_truncated_sorted_and_the_first_of_a_name_wins),
        cmocka_unit_test(more_than_sixteen_attributes_are_too_many),
        cmocka_unit_test(a_job_is_shown_byte_for_byte),
        cmocka_unit_test(a_job_with_a_foreign_id_uses_its_timestamp_as_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
