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

static void put_sample_props(struct buf *props)
{
    const struct mqtt_prop rows[] = {
        {PROP_USER, SLICE_LIT("deliver-after"), SLICE_LIT("5s")},
        {PROP_USER, SLICE_LIT(""), SLICE_LIT("")},
        {PROP_CONTENT_TYPE, {NULL, 0}, SLICE_LIT("text/plain")},
        {PROP_RESPONSE_TOPIC, {NULL, 0}, SLICE_LIT("answers")},
        {PROP_CORRELATION, {NULL, 0}, SLICE_LIT("\xff\0z")},
        {PROP_PAYLOAD_FORMAT, {NULL, 0}, SLICE_LIT("1")},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        frame_put_prop(props, &rows[i]);
}

static struct frame take(struct buf *b)
{
    struct frame f;
    assert_int_equal(frame_take(buf_slice(b), SIZE_MAX, &f, NULL), b->n);
    return f;
}

static void a_message_frame_is_read_as_written(void **state)
{
    struct buf props = {0}, b = {0};
    struct mqtt_message got;
    (void)state;
    put_sample_props(&props);
    const struct mqtt_message m = {.dup = true,
                                   .msgid = 65535,
                                   .whole_bytes = 1ULL << 40,
                                   .expiry_s = UINT32_MAX,
                                   .topic = SLICE_LIT("a/b"),
                                   .payload = SLICE_LIT("x\0y"),
                                   .props = buf_slice(&props)};
    frame_put_message(&b, &m);
    struct frame f = take(&b);
    assert_int_equal(f.type, FRAME_MESSAGE);
    assert_int_equal(frame_get_message(f.body, &got, NULL), 0);
    assert_true(got.dup && !got.retained && got.msgid == 65535);
    assert_true(got.whole_bytes == m.whole_bytes && got.expiry_s == UINT32_MAX);
    assert_true(slice_eq(got.topic, m.topic) && slice_eq(got.payload, m.payload));
    assert_true(slice_eq(got.props, m.props));
    assert_true(mqtt_message_hash(&got) == mqtt_message_hash(&m));
    got.dup = false;
    got.expiry_s--; /* the broker decrements it until it sends the message again */
    assert_true(mqtt_message_hash(&got) == mqtt_message_hash(&m));
    got.payload.n--;
    assert_false(mqtt_message_hash(&got) == mqtt_message_hash(&m));
    buf_free(&props);
    buf_free(&b);
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
    bool present = false;
    unsigned count = 0;
    struct slice why;
    (void)state;
    frame_put_connected(&b, true);
    assert_int_equal(frame_get_connected(take(&b).body, &present, NULL), 0);
    assert_true(present);
    buf_clear(&b);
    frame_put_failed(&b, "gone");
    assert_int_equal(frame_get_failed(take(&b).body, &why, NULL), 0);
    assert_true(slice_is(why, "gone"));
    buf_clear(&b);
    frame_put_stored(&b, UINT32_MAX);
    frame_put(&b, FRAME_STOP);
    struct frame f;
    assert_int_equal(frame_take(buf_slice(&b), 10, &f, NULL), 9);
    assert_int_equal(f.type, FRAME_STORED);
    assert_int_equal(frame_get_stored(f.body, &count, NULL), 0);
    assert_int_equal(count, UINT32_MAX);
    assert_int_equal(frame_get_stored((struct slice){f.body.p, 3}, &count, NULL), -1);
    buf_free(&b);
}

static void an_incomplete_frame_is_not_read(void **state)
{
    struct buf b = {0};
    struct frame f;
    (void)state;
    frame_put_failed(&b, "why");
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(frame_take((struct slice){b.p, n}, 100, &f, NULL), 0);
    buf_free(&b);
}

static void a_frame_that_is_too_large_empty_or_unknown_is_rejected_at_once(void **state)
{
    struct frame f;
    (void)state;
    assert_int_equal(frame_take(SLICE_LIT("\0\0\1\1"), 256, &f, NULL), -1);
    assert_int_equal(frame_take(SLICE_LIT("\377\377\377\377"), 256, &f, NULL), -1);
    assert_int_equal(frame_take(SLICE_LIT("\0\0\0\0"), 256, &f, NULL), -1);
    assert_int_equal(frame_take(SLICE_LIT("\0\0\0\1\0"), 256, &f, NULL), -1);
    assert_int_equal(frame_take(SLICE_LIT("\0\0\0\1\10"), 256, &f, NULL), -1);
}

/* Try every prefix of a valid body, and the body with an additional byte. */
static void a_frame_with_a_wrong_body_size_is_rejected(void **state)
{
    const struct mqtt_setup setup = sample_setup();
    const struct mqtt_message m = {.topic = SLICE_LIT("t"), .payload = SLICE_LIT("p")};
    struct buf a = {0}, b = {0};
    (void)state;
    frame_put_setup(&a, &setup);
    frame_put_message(&b, &m);
    struct slice s = take(&a).body, t = take(&b).body;
    for (size_t n = 0; n < s.n; n++) {
        struct mqtt_setup got;
        char *exact =
            memcpy(malloc(n + 1), s.p, n); /* so that a sanitizer detects overreads */
        assert_int_equal(frame_get_setup((struct slice){exact, n}, &got, NULL), -1);
        free(exact);
    }
    for (size_t n = 0; n < t.n; n++) {
        struct mqtt_message got;
        assert_int_equal(frame_get_message((struct slice){t.p, n}, &got, NULL), -1);
    }
    buf_add(&b, "x", 1);
    struct mqtt_message got;
    assert_int_equal(frame_get_message((struct slice){b.p + 5, b.n - 5}, &got, NULL), -1);
    buf_free(&a);
    buf_free(&b);
}

static void broken_properties_end_the_list(void **state)
{
    struct buf props = {0};
    struct mqtt_prop prop;
    (void)state;
    put_sample_props(&props);
    for (size_t n = 0; n <= props.n; n++) {
        struct slice rest = {props.p, n};
        unsigned count = 0;
        while (frame_next_prop(&rest, &prop))
            count++;
        assert_true(count <= PROP_KINDS + 1 && (n < props.n || count == PROP_KINDS + 1));
        assert_int_equal(rest.n, 0);
    }
    buf_free(&props);
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
    struct buf props = {0};
    (void)state;
    put_sample_props(&props);
    const struct mqtt_message m = {.retained = true,
                                   .topic = SLICE_LIT("a/b"),
                                   .payload = SLICE_LIT("x"),
                                   .props = buf_slice(&props)};
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
    buf_free(&props);
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
    struct buf props = {0};
    (void)state;
    put_sample_props(&props);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct mqtt_message m = {.topic = slice_of(rows[i].topic),
                                       .payload = SLICE_LIT(""),
                                       .props = buf_slice(&props)};
        struct job *job = mqtt_job_new(&m);
        assert_null(job->unreadable);
        assert_true(slice_is(job->topic, rows[i].rest));
        assert_true((job->after.p == NULL) == (rows[i].after == NULL));
        assert_true((job->at.p == NULL) == (rows[i].at == NULL));
        assert_true(rows[i].after == NULL || slice_is(job->after, rows[i].after));
        assert_true(rows[i].at == NULL || slice_is(job->at, rows[i].at));
        job_free(job);
    }
    buf_free(&props);
}

static void an_invalid_message_becomes_a_raw_job_with_a_reason(void **state)
{
    char topic[JOB_TOPIC_MAX + 1];
    struct buf many = {0};
    const struct mqtt_prop prop = {PROP_USER, SLICE_LIT("n"), SLICE_LIT("v")};
    (void)state;
    memset(topic, 't', sizeof(topic));
    for (unsigned i = 0; i <= JOB_HEADERS_MAX; i++)
        frame_put_prop(&many, &prop);
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
        cmocka_unit_test(a_setup_frame_is_read_as_written),
        cmocka_unit_test(small_frames_are_read_as_written),
        cmocka_unit_test(an_incomplete_frame_is_not_read),
        cmocka_unit_test(a_frame_that_is_too_large_empty_or_unknown_is_rejected_at_once),
        cmocka_unit_test(a_frame_with_a_wrong_body_size_is_rejected),
        cmocka_unit_test(broken_properties_end_the_list),
        cmocka_unit_test(a_message_becomes_a_job_with_its_properties_as_headers),
        cmocka_unit_test(the_delay_of_the_topic_is_distinguished_from_that_of_a_property),
        cmocka_unit_test(an_invalid_message_becomes_a_raw_job_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
