/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_mqtt_frame.c - frames between the MQTT source and its workers, and the jobs built
 * from them.
 */
#include "sources/mqtt/mqtt_frame.h"
#include "sources/mqtt/mqtt_job.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* User properties, content type, response topic, correlation data, payload format. */
#define PROPS                                                                            \
    "\x26\0\x0d"                                                                         \
    "deliver-after\0\2"                                                                  \
    "5s\x26\0\0\0\0\3\0\x0atext/plain\x08\0\7answers"                                    \
    "\x09\0\3\xff\0z\1\1"

static struct frame take(struct buf *b)
{
    struct frame f;
    assert_int_equal(frame_take(buf_slice(b), SIZE_MAX, &f, NULL), b->n);
    return f;
}

static void a_message_frame_is_read_as_written(void **state)
{
    struct buf b = {0};
    struct mqtt_message got;
    (void)state;
    const struct mqtt_message m = {.dup = true,
                                   .msgid = 65535,
                                   .expiry_s = UINT32_MAX,
                                   .topic = SLICE_LIT("a/b"),
                                   .payload = SLICE_LIT("x\0y"),
                                   .props = SLICE_LIT(PROPS)};
    frame_put_message(&b, &m, 1000);
    struct frame f = take(&b);
    assert_int_equal(f.type, FRAME_MESSAGE);
    assert_int_equal(frame_get_message(f.body, &got, NULL), 0);
    assert_true(got.dup && !got.retained && got.msgid == 65535);
    assert_true(got.whole_bytes == 0 && got.expiry_s == UINT32_MAX);
    assert_true(slice_eq(got.topic, m.topic) && slice_eq(got.payload, m.payload));
    assert_true(slice_eq(got.props, m.props));
    buf_free(&b);
}

static void a_message_larger_than_the_limit_is_truncated(void **state)
{
    static char payload[2 * FRAME_CUT_BYTES];
    const struct mqtt_message m = {.topic = SLICE_LIT("t"),
                                   .payload = {payload, sizeof(payload)},
                                   .props = SLICE_LIT(PROPS)};
    const size_t whole = m.topic.n + m.payload.n + m.props.n;
    struct mqtt_message got;
    (void)state;
    for (size_t max = whole - 1; max <= whole; max++) {
        struct buf b = {0};
        frame_put_message(&b, &m, max);
        assert_true(b.n <= frame_message_max(max) + 4);
        assert_int_equal(frame_get_message(take(&b).body, &got, NULL), 0);
        assert_true(got.whole_bytes == (max < whole ? whole : 0));
        assert_true(got.payload.n == (max < whole ? FRAME_CUT_BYTES : sizeof(payload)));
        assert_true(got.props.n == (max < whole ? 0 : m.props.n));
        buf_free(&b);
    }
}

static struct mqtt_setup sample_setup(void)
{
    static char all[] = "a/#", delayed[] = "$delayed/#";
    static char *filters[] = {all, delayed};
    static char host[] = "b", port[] = "1", id[] = "me", secret[] = "s";
    static char alpn[] = "\4mqtt";
    return (struct mqtt_setup){.peer = {.host = host,
                                        .port = port,
                                        .tls = true,
                                        .client_id = id,
                                        .user = id,
                                        .password = secret,
                                        .key_password = secret,
                                        .alpn = alpn,
                                        .v5 = true,
                                        .keepalive_s = 30},
                               .filters = {filters, COUNT(filters)},
                               .qos = 1,
                               .session_expiry_s = UINT32_MAX - 1,
                               .receive_max = 65535,
                               .retained = true,
                               .message_max = 1ULL << 33};
}

static void a_setup_frame_is_read_as_written(void **state)
{
    const struct mqtt_setup setup = sample_setup();
    struct mqtt_setup got;
    struct buf b = {0};
    (void)state;
    frame_put_setup(&b, &setup);
    assert_int_equal(frame_get_setup(take(&b).body, &got, NULL), 0);
    assert_string_equal(got.peer.host, "b");
    assert_string_equal(got.peer.port, "1");
    assert_true(got.peer.tls);
    assert_string_equal(got.peer.password, "s");
    assert_null(got.peer.ca_file);
    assert_string_equal(got.peer.key_password, "s");
    assert_string_equal(got.peer.alpn, "\4mqtt");
    assert_true(got.peer.v5 && got.peer.keepalive_s == 30 && got.qos == 1);
    assert_true(got.session_expiry_s == UINT32_MAX - 1 && got.receive_max == 65535);
    assert_true(got.retained && got.message_max == 1ULL << 33);
    assert_int_equal(got.filters.n, 2);
    assert_string_equal(got.filters.v[1], "$delayed/#");
    mqtt_setup_free(&got);
    buf_free(&b);
}

static void small_frames_are_read_as_written(void **state)
{
    struct buf b = {0};
    uint32_t number = 0;
    struct frame f;
    (void)state;
    frame_put(&b, FRAME_FAILED, SLICE_LIT("gone"));
    assert_true(slice_is(take(&b).body, "gone"));
    buf_clear(&b);
    frame_put_number(&b, FRAME_STORED, UINT32_MAX);
    frame_put(&b, FRAME_STOP, SLICE_LIT(""));
    assert_int_equal(frame_take(buf_slice(&b), 10, &f, NULL), 9);
    assert_int_equal(f.type, FRAME_STORED);
    assert_int_equal(frame_get_number(f.body, &number, NULL), 0);
    assert_int_equal(number, UINT32_MAX);
    assert_int_equal(frame_get_number((struct slice){f.body.p, 3}, &number, NULL), -1);
    assert_int_equal(frame_get_number((struct slice){f.body.p, 5}, &number, NULL), -1);
    buf_free(&b);
}

static void an_incomplete_frame_is_not_read(void **state)
{
    struct buf b = {0};
    struct frame f;
    (void)state;
    frame_put(&b, FRAME_FAILED, SLICE_LIT("why"));
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(frame_take((struct slice){b.p, n}, 100, &f, NULL), 0);
    buf_free(&b);
}

static void a_frame_that_is_too_large_empty_or_unknown_is_rejected_at_once(void **state)
{
    static const struct {
        uint32_t length;
        unsigned char type;
    } rows[] = {{257, FRAME_STOP},
                {UINT32_MAX, FRAME_STOP},
                {0, FRAME_STOP},
                {1, 0},
                {1, FRAME_STOP + 1}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf b = {0};
        struct frame f;
        buf_add(&b, &rows[i].length, sizeof(rows[i].length));
        buf_add(&b, &rows[i].type, 1);
        assert_int_equal(frame_take(buf_slice(&b), 256, &f, NULL), -1);
        buf_free(&b);
    }
}

/* Every prefix of a good body; that of a message ends with its payload. */
static void a_frame_with_a_wrong_body_size_is_rejected(void **state)
{
    const struct mqtt_setup setup = sample_setup();
    const struct mqtt_message m = {.topic = SLICE_LIT("t"), .payload = SLICE_LIT("p")};
    struct buf a = {0}, b = {0};
    (void)state;
    frame_put_setup(&a, &setup);
    frame_put_message(&b, &m, 1000);
    struct slice s = take(&a).body, t = take(&b).body;
    for (size_t n = 0; n < s.n; n++) {
        struct mqtt_setup got;
        char *exact =
            memcpy(malloc(n + 1), s.p, n); /* so that a sanitizer detects overreads */
        assert_int_equal(frame_get_setup((struct slice){exact, n}, &got, NULL), -1);
        free(exact);
    }
    for (size_t n = 0; n + m.payload.n < t.n; n++) {
        struct mqtt_message got;
        assert_int_equal(frame_get_message((struct slice){t.p, n}, &got, NULL), -1);
    }
    buf_free(&a);
    buf_free(&b);
}

static void a_message_becomes_a_job_with_its_properties_as_headers(void **state)
{
    static const char *const names[] = {"deliver-after",
                                        "",
                                        "content-type",
                                        "mqtt-response-topic",
                                        "mqtt-correlation-data",
                                        "mqtt-payload-format",
                                        "mqtt-retain"};
    (void)state;
    const struct mqtt_message m = {.retained = true,
                                   .topic = SLICE_LIT("a/b"),
                                   .payload = SLICE_LIT("x"),
                                   .props = SLICE_LIT(PROPS)};
    struct job *job = mqtt_job_new(&m);
    assert_null(job->unreadable);
    assert_true(slice_is(job->topic, "a/b") && slice_is(job->payload, "x"));
    assert_null(job->key.p);
    assert_true(job->offset == -1 && job->partition == -1);
    assert_int_equal(job->header_count, COUNT(names));
    for (unsigned i = 0; i < COUNT(names); i++)
        assert_true(slice_is(job->headers[i].name, names[i]));
    assert_true(slice_eq(job->headers[4].value, SLICE_LIT("\xff\0z")));
    job_free(job);
}

static void the_delay_of_the_topic_is_distinguished_from_that_of_a_property(void **state)
{
    static const struct {
        const char *topic, *rest, *after, *at;
    } rows[] = {
        {"$delayed/30/a/b", "a/b", "30s", NULL},
        {"$delayed/1767225600/a", "a", NULL, "1767225600"},
        {"$delayed/soon/a", "$delayed/soon/a", "$delayed/soon/a", NULL},
        {"$delayed", "$delayed", "$delayed", NULL},
        {"$delayed/5/", "$delayed/5/", "$delayed/5/", NULL},
        {"$delaying", "$delaying", NULL, NULL},
        {"a/b", "a/b", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct mqtt_message m = {.topic = slice_of(rows[i].topic),
                                       .payload = SLICE_LIT(""),
                                       .props = SLICE_LIT(PROPS)};
        struct job *job = mqtt_job_new(&m);
        assert_null(job->unreadable);
        assert_true(slice_is(job->topic, rows[i].rest));
        assert_true((job->after.p == NULL) == (rows[i].after == NULL));
        assert_true((job->at.p == NULL) == (rows[i].at == NULL));
        assert_true(rows[i].after == NULL || slice_is(job->after, rows[i].after));
        assert_true(rows[i].at == NULL || slice_is(job->at, rows[i].at));
        job_free(job);
    }
}

static void an_invalid_message_becomes_a_raw_job_with_a_reason(void **state)
{
    char topic[JOB_TOPIC_MAX + 1];
    struct buf many = {0};
    (void)state;
    memset(topic, 't', sizeof(topic));
    for (unsigned i = 0; i <= JOB_HEADERS_MAX; i++)
        buf_add_slice(&many, SLICE_LIT("\x26\0\1n\0\1v"));
    const struct mqtt_message rows[] = {
        {.topic = SLICE_LIT("a"), .payload = SLICE_LIT("cut"), .whole_bytes = 1 << 30},
        {.topic = {topic, sizeof(topic)}, .payload = SLICE_LIT("cut")},
        {.topic = SLICE_LIT("a"), .payload = SLICE_LIT("cut"), .props = buf_slice(&many)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job *job = mqtt_job_new(&rows[i]);
        assert_string_equal(job->unreadable, "oversize");
        assert_true(job->unreadable_why.n > 0);
        assert_true(slice_is(job->payload, "cut"));
        assert_int_equal(job->header_count, 0);
        job_free(job);
    }
    buf_free(&many);
}

UNIT(mqtt_frame)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_frame_is_read_as_written),
        cmocka_unit_test(a_message_larger_than_the_limit_is_truncated),
        cmocka_unit_test(a_setup_frame_is_read_as_written),
        cmocka_unit_test(small_frames_are_read_as_written),
        cmocka_unit_test(an_incomplete_frame_is_not_read),
        cmocka_unit_test(a_frame_that_is_too_large_empty_or_unknown_is_rejected_at_once),
        cmocka_unit_test(a_frame_with_a_wrong_body_size_is_rejected),
        cmocka_unit_test(a_message_becomes_a_job_with_its_properties_as_headers),
        cmocka_unit_test(the_delay_of_the_topic_is_distinguished_from_that_of_a_property),
        cmocka_unit_test(an_invalid_message_becomes_a_raw_job_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
