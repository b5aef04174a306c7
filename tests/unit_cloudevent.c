/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_cloudevent.c - events from one protocol to another: bridge/job/cloudevent.h.
 */
#include "bridge/job/cloudevent.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define EURO "Euro \xe2\x82\xac \xf0\x9f\x98\x80"
#define EURO_HTTP "Euro%20%E2%82%AC%20%F0%9F%98%80"

/* Headers as "name=value" lines, in and out. A missing value is a null value. */
static struct job *job_of(const char *text)
{
    struct job *job = job_new(0);

    while (*text) {
        size_t line = strcspn(text, "\n"), name = strcspn(text, "=\n");
        struct slice value = {NULL, 0};
        if (name < line)
            value = (struct slice){text + name + 1, line - name - 1};
        assert_int_equal(job_add_header(job, (struct slice){text, name}, value, NULL), 0);
        text += line + (text[line] == '\n');
    }
    return job;
}

static void add_line(struct buf *out, struct slice name, struct slice value)
{
    buf_addf(out, "%s%.*s", out->n ? "\n" : "", SLICE_ARG(name));
    if (value.p) {
        buf_add_str(out, "=");
        buf_add_slice(out, value);
    }
}

static void expect_in(enum ce_binding from, const char *text, const char *want)
{
    struct job *job = job_of(text);
    struct buf got = {0};

    cloudevent_in(job, from);
    for (unsigned i = 0; i < job->header_count; i++)
        add_line(&got, job->headers[i].name, job->headers[i].value);
    assert_string_equal(buf_str(&got), want);
    buf_free(&got);
    job_free(job);
}

static void expect_out(enum ce_binding to, const char *text, const char *want)
{
    struct job *job = job_of(text);
    struct buf got = {0};

    for (unsigned i = 0; i < job->header_count; i++) {
        struct buf name = {0}, value = {0};
        if (cloudevent_out(&job->headers[i], to, &name, &value)) {
            add_line(&got, buf_slice(&name), buf_slice(&value));
        } else {
            assert_int_equal(name.n + value.n, 0);
            add_line(&got, job->headers[i].name, job->headers[i].value);
        }
        buf_free(&name);
        buf_free(&value);
    }
    assert_string_equal(buf_str(&got), want);
    buf_free(&got);
    job_free(job);
}

#define KAFKA "ce_id=a-1\nce_source=/shop/1\nce_type=com.example.paid\nce_specversion=1.0"
#define HTTP "ce-id=a-1\nce-source=/shop/1\nce-type=com.example.paid\nce-specversion=1.0"
#define MQTT "id=a-1\nsource=/shop/1\ntype=com.example.paid\nspecversion=1.0"
#define TRACE                                                                            \
    "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n"              \
    "tracestate=rojo=00f067aa0ba902b7,congo= t61rcWkgMzE"

static void attributes_are_stored_under_their_kafka_names(void **state)
{
    (void)state;
    expect_in(CE_HTTP, HTTP "\nce-myext1=5\nx-other=1\ncontent-type=text/plain",
              KAFKA "\nce_myext1=5\nx-other=1\ncontent-type=text/plain");
    expect_in(CE_MQTT, MQTT "\nmyext1=5\nx-other=1\ncontent-type=text/plain",
              KAFKA "\nce_myext1=5\nx-other=1\ncontent-type=text/plain");
    expect_in(CE_KAFKA, KAFKA "\nce_myext1=%20\nid=5", KAFKA "\nce_myext1=%20\nid=5");
    expect_in(CE_HTTP, "CE-ID=1\nCe-Source=s\nce-TYPE=t\nce-specversion=1.0",
              "ce_id=1\nce_source=s\nce_type=t\nce_specversion=1.0");
}

static void a_message_without_a_required_attribute_is_not_an_event(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "id=5",
        "id=5\nsource=x\ntype=y",
        "id=5\nsource=x\ntype=y\nspecversion=",
        "id=5\nsource=x\ntype=y\nspecversion",
        "id=5\nid=6\nid=7\nid=8",
        "Id=5\nsource=x\ntype=y\nspecversion=1.0",
        "ce_id=5\nsource=x\ntype=y\nspecversion=1.0",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_in(CE_MQTT, rows[i], rows[i]);
    expect_in(CE_HTTP, "ce-id=%41\nce-source=x\nce-type=y",
              "ce-id=%41\nce-source=x\nce-type=y");
    struct job *job = job_of("ce_id=1\nce_source=s\nce_type=t");
    assert_false(cloudevent_is(job));
    job_add_header(job, SLICE_LIT("ce_specversion"), SLICE_LIT("1.0"), NULL);
    assert_true(cloudevent_is(job));
    job_free(job);
}

static void control_headers_and_traces_keep_their_names(void **state)
{
    (void)state;
    const char *ours = "\ndelay=5s\ndelay-id=x\ndeliver-at=1\nx-delay=4\n" TRACE;
    char in[1024], want[1024];
    snprintf(in, sizeof(in), "%s%s", MQTT, ours);
    snprintf(want, sizeof(want), "%s%s", KAFKA, ours);
    expect_in(CE_MQTT, in, want);
    snprintf(in, sizeof(in), "%s%s", HTTP, ours);
    expect_in(CE_HTTP, in, want);
    expect_out(CE_HTTP, ours + 1, ours + 1);
    expect_out(CE_MQTT, ours + 1, ours + 1);
}

static void values_are_percent_encoded_only_in_http(void **state)
{
    (void)state;
    expect_in(CE_HTTP, HTTP "\nce-subject=" EURO_HTTP, KAFKA "\nce_subject=" EURO);
    expect_out(CE_HTTP, KAFKA "\nce_subject=" EURO, HTTP "\nce-subject=" EURO_HTTP);
    expect_in(CE_MQTT, MQTT "\nsubject=" EURO "%41", KAFKA "\nce_subject=" EURO "%41");
    expect_out(CE_MQTT, KAFKA "\nce_subject=" EURO "%41", MQTT "\nsubject=" EURO "%41");
    expect_out(CE_KAFKA, KAFKA "\nce_subject=" EURO, KAFKA "\nce_subject=" EURO);
    /* All ASCII characters that are allowed. */
    expect_out(CE_HTTP, "ce_a=!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~",
               "ce-a=!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~");
    expect_out(CE_HTTP, "ce_a= \"%\x01\x7f\xff", "ce-a=%20%22%25%01%7F%FF");
    expect_out(CE_HTTP, "ce_a", "ce-a=");
}

static void quoted_values_of_older_senders_are_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } rows[] = {{"\"a b\"", "a b"},
                {"\"a\\\"b\\\\c\"", "a\"b\\c"},
                {"\"a%20b\"", "a b"},
                {"\"", "\""},
                {"\"\"", ""},
                {"a\"b", "a\"b"},
                {"%e2%82%ac", "\xe2\x82\xac"},
                {"%2520", "%20"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char in[256], want[256];
        snprintf(in, sizeof(in), HTTP "\nce-a=%s", rows[i].in);
        snprintf(want, sizeof(want), KAFKA "\nce_a=%s", rows[i].want);
        expect_in(CE_HTTP, in, want);
    }
}

/* A receiver must reject such a value, so it is passed on unchanged. */
static void an_event_with_an_invalid_value_is_not_converted(void **state)
{
    (void)state;
    static const char *const rows[] = {"%",   "%4",         "%zz",   "%C0%A0",
                                       "%ff", "a%ED%A0%80", "a%10b", "%0d%0aX: 1"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char in[256];
        snprintf(in, sizeof(in), HTTP "\nce-a=%%41\nce-b=%s", rows[i]);
        expect_in(CE_HTTP, in, in);
    }
}

static void headers_that_are_not_attributes_are_not_renamed(void **state)
{
    (void)state;
    const char *others = "ce_=1\nce_a-b=1\nce_A=1\nce-a=1\nCE_a=1\nce=1\nxce_a=1\ncea=1";
    expect_out(CE_HTTP, others, others);
    expect_out(CE_MQTT, others, others);
    expect_in(CE_HTTP, HTTP "\nce-=1\nce-a-b=1\nce_a=1",
              KAFKA "\nce-=1\nce-a-b=1\nce_a=1");
    expect_in(CE_MQTT, MQTT "\naB=1\na_b=1\n=1", KAFKA "\naB=1\na_b=1\n=1");
}

static void datacontenttype_is_the_content_type(void **state)
{
    (void)state;
    expect_in(CE_MQTT, MQTT "\ndatacontenttype=a/b", KAFKA "\ncontent-type=a/b");
    expect_in(CE_MQTT, MQTT "\ndatacontenttype=a/b\nContent-Type=a/b\nx=1",
              KAFKA "\nContent-Type=a/b\nce_x=1");
    expect_in(CE_HTTP, HTTP "\nce-datacontenttype=a/b\ncontent-type=c/d",
              KAFKA "\nce_datacontenttype=a/b\ncontent-type=c/d");
}

static void headers_can_be_added_afterwards(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 14; more++) {
        struct job *job = job_of(MQTT "\ncontent-type=a/b\ndatacontenttype=a/b");
        for (unsigned i = 0; i < more; i++)
            job_add_header(job, SLICE_LIT("more"), SLICE_LIT("1"), NULL);
        cloudevent_in(job, CE_MQTT);
        assert_int_equal(job->header_count, 5 + more);
        for (unsigned i = 0; i < 14; i++)
            job_add_header(job, SLICE_LIT("later"), SLICE_LIT("1"), NULL);
        assert_int_equal(job->header_count, 19 + more);
        assert_true(slice_is(job->headers[0].name, "ce_id"));
        assert_true(slice_is(job->headers[18 + more].name, "later"));
        job_free(job);
    }
}

/* The record of a job has a limit for headers, and names become longer. */
static void an_event_that_would_become_too_large_is_not_converted(void **state)
{
    (void)state;
    static char big[JOB_HEADER_BYTES_MAX];
    memset(big, 'x', sizeof(big));
    for (unsigned room = 10; room < 20; room++) {
        struct job *job = job_of(MQTT);
        struct slice value = {big, sizeof(big) - room -
                                       sizeof("idsourcetypespecversion"
                                              "a-1/shop/1"
                                              "com.example.paid1.0a")};
        assert_int_equal(job_add_header(job, SLICE_LIT("a"), value, NULL), 0);
        cloudevent_in(job, CE_MQTT);
        assert_true(slice_is(job->headers[0].name, room < 14 ? "id" : "ce_id"));
        struct buf record = {0};
        job_encode(job, NULL, &record);
        struct job *read = job_decode(SLICE_LIT("x"), buf_slice(&record), NULL, NULL);
        assert_non_null(read);
        job_free(read);
        buf_free(&record);
        job_free(job);
    }
}

static void expirytime_is_a_date_of_an_event(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t want;
    } rows[] = {{"2026-01-31T12:00:00Z", 1769860800000},
                {"2026-01-31T13:00:00.5+01:00", 1769860800500},
                {"1969-01-01T00:00:00Z", 1},
                {"1769860800", 0},
                {"tomorrow", 0},
                {"2026-01-31", 0},
                {"", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), KAFKA "\nce_expirytime=%s", rows[i].value);
        struct job *job = job_of(text);
        assert_int_equal(cloudevent_expires_ms(job), rows[i].want);
        job_free(job);
    }
    struct job *none = job_of(KAFKA),
               *other = job_of("ce_expirytime=2026-01-31T12:00:00Z");
    assert_int_equal(cloudevent_expires_ms(none), 0);
    assert_int_equal(cloudevent_expires_ms(other), 0);
    job_free(none);
    job_free(other);
}

UNIT(cloudevent)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_stored_under_their_kafka_names),
        cmocka_unit_test(a_message_without_a_required_attribute_is_not_an_event),
        cmocka_unit_test(control_headers_and_traces_keep_their_names),
        cmocka_unit_test(values_are_percent_encoded_only_in_http),
        cmocka_unit_test(quoted_values_of_older_senders_are_accepted),
        cmocka_unit_test(an_event_with_an_invalid_value_is_not_converted),
        cmocka_unit_test(headers_that_are_not_attributes_are_not_renamed),
        cmocka_unit_test(datacontenttype_is_the_content_type),
        cmocka_unit_test(headers_can_be_added_afterwards),
        cmocka_unit_test(an_event_that_would_become_too_large_is_not_converted),
        cmocka_unit_test(expirytime_is_a_date_of_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
