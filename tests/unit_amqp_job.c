/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_amqp_job.c - from the frames of a message to a job, and from a delivery to the
 * properties of a message.
 */
#include "sinks/amqp/amqp_sink.h"
#include "sources/amqp/amqp_job.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void put_table(struct buf *out, struct slice table)
{
    amqp_put_number(out, table.n, 4);
    buf_add_slice(out, table);
}

/* Properties with these headers and a content type. */
static struct buf props_with(struct slice table)
{
    struct buf out = {0};

    amqp_put_number(&out, 0xa000, 2);
    buf_add_slice(&out, SLICE_LIT("\4a/bc"));
    put_table(&out, table);
    return out;
}

static struct amqp_message message_with(const struct buf *props)
{
    return (struct amqp_message){.exchange = SLICE_LIT("old"),
                                 .key = SLICE_LIT("orders.new"),
                                 .props = buf_slice(props),
                                 .body = SLICE_LIT("body"),
                                 .whole_bytes = 4};
}

static const char *text_of(const struct job *job, const char *name)
{
    const struct header *h = job_header(job, name);

    return h && h->value.p ? h->value.p : "(none)";
}

static void a_message_becomes_a_job_with_its_scalar_headers(void **state)
{
    const struct slice table = SLICE_LIT("\4textS\0\0\0\2hi"
                                         "\1nI\xff\xff\xff\xff"
                                         "\1tt\1"
                                         "\7x-deathA\0\0\0\0"
                                         "\4voidV");
    struct buf props = props_with(table);
    const struct amqp_message m = message_with(&props);
    struct job *job = amqp_job_new(&m, false);
    (void)state;
    assert_null(job->unreadable);
    assert_true(slice_is(job->topic, "orders.new") && slice_is(job->payload, "body"));
    assert_null(job->key.p);
    assert_true(slice_eq(job->native, buf_slice(&props)));
    assert_int_equal(job->header_count, 6);
    assert_string_equal(text_of(job, "content-type"), "a/bc");
    assert_string_equal(text_of(job, "amqp-exchange"), "old");
    assert_string_equal(text_of(job, "text"), "hi");
    assert_string_equal(text_of(job, "n"), "-1");
    assert_string_equal(text_of(job, "t"), "true");
    assert_null(job_header(job, "void")->value.p);
    job_free(job);
    buf_free(&props);
}

static void a_negative_or_fractional_x_delay_becomes_a_whole_number(void **state)
{
    static const struct {
        struct slice table;
        const char *want;
    } rows[] = {{SLICE_LIT("\7x-delayI\0\0\x13\x88"), "5000"},
                {SLICE_LIT("\7X-Delayl\xff\xff\xff\xff\xff\xff\xff\xff"), "0"},
                {SLICE_LIT("\7x-delayS\0\0\0\3-12"), "0"},
                {SLICE_LIT("\7x-delayd\x40\x29\xff\xff\xff\xff\xff\xff"), "12"},
                {SLICE_LIT("\7x-delayS\0\0\0\4soon"), "soon"}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf props = props_with(rows[i].table);
        const struct amqp_message m = message_with(&props);
        struct job *job = amqp_job_new(&m, false);
        assert_string_equal(text_of(job, "x-delay"), rows[i].want);
        job_free(job);
        buf_free(&props);
    }
}

/* Flags of headers, expiration and message id. */
static struct buf props_of_expiring(struct slice expiration)
{
    struct buf out = {0};

    amqp_put_number(&out, 0x2000 | 0x0100 | 0x0080, 2);
    put_table(&out, SLICE_LIT(""));
    amqp_prop_put(&out, AMQP_EXPIRATION, expiration);
    amqp_prop_put(&out, AMQP_MESSAGE_ID, SLICE_LIT("m-1"));
    return out;
}

static void expiration_and_message_id_count_unless_a_header_sets_them(void **state)
{
    static const struct {
        struct slice expiration;
        const char *want;
    } rows[] = {{SLICE_LIT("60000"), "60000ms"}, {SLICE_LIT("0"), ""}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf props = props_of_expiring(rows[i].expiration);
        const struct amqp_message m = message_with(&props);
        struct job *job = amqp_job_new(&m, i > 0);
        assert_true(slice_is(job->before, rows[i].want));
        assert_string_equal(text_of(job, "amqp-message-id"), "m-1");
        assert_true(slice_is(job->name, i > 0 ? "m-1" : ""));
        job_free(job);
        buf_free(&props);
    }
}

static void a_message_that_cannot_be_converted_says_why(void **state)
{
    struct buf props = props_with(SLICE_LIT("")), many = {0};
    struct amqp_message m = message_with(&props);
    (void)state;
    m.whole_bytes = 5;
    struct job *job = amqp_job_new(&m, false);
    assert_string_equal(job->unreadable, "oversize");
    job_free(job);
    m.whole_bytes = 4;
    m.props = SLICE_LIT("\x80\0\x09short");
    job = amqp_job_new(&m, false);
    assert_string_equal(job->unreadable, "undecodable");
    assert_null(job->native.p);
    assert_true(slice_is(job->payload, "body"));
    job_free(job);
    for (int i = 0; i <= JOB_HEADERS_MAX; i++)
        buf_add(&many, "\1aV", 3);
    struct buf too_many = props_with(buf_slice(&many));
    m.props = buf_slice(&too_many);
    job = amqp_job_new(&m, false);
    assert_string_equal(job->unreadable, "oversize");
    assert_int_equal(job->header_count, 0);
    job_free(job);
    buf_free(&too_many);
    buf_free(&many);
    buf_free(&props);
}

/* -------------------------------------------------------------------- contents */

static void a_body_in_several_frames_is_assembled(void **state)
{
    amqp_basic_deliver_t method = {.delivery_tag = 7,
                                   .exchange = amqp_bytes_of(SLICE_LIT("x")),
                                   .routing_key = amqp_bytes_of(SLICE_LIT("key"))};
    struct amqp_content c = {0};
    (void)state;
    assert_int_equal(amqp_content_body(&c, SLICE_LIT("early")), -1);
    assert_int_equal(
        amqp_content_header(&c, SLICE_LIT("\0\x3c\0\0\0\0\0\0\0\0\0\6\0\0"), 100), -1);
    assert_int_equal(amqp_content_begin(&c, 3, AMQP_BASIC_DELIVER_METHOD, &method), 0);
    assert_int_equal(amqp_content_begin(&c, 3, AMQP_BASIC_DELIVER_METHOD, &method), -1);
    assert_int_equal(
        amqp_content_header(&c, SLICE_LIT("\0\x3c\0\0\0\0\0\0\0\0\0\6\0\0"), 100), 0);
    assert_null(amqp_content_take(&c));
    assert_int_equal(amqp_content_body(&c, SLICE_LIT("abcd")), 0);
    assert_null(amqp_content_take(&c));
    assert_int_equal(amqp_content_body(&c, SLICE_LIT("efg")), -1); /* too long */
    assert_int_equal(amqp_content_body(&c, SLICE_LIT("ef")), 0);
    struct amqp_message *m = amqp_content_take(&c);
    assert_int_equal(m->channel, 3);
    assert_int_equal(m->tag, 7);
    assert_true(slice_is(m->exchange, "x") && slice_is(m->key, "key"));
    assert_true(slice_eq(m->props, SLICE_LIT("\0\0")) && slice_is(m->body, "abcdef"));
    assert_null(amqp_content_take(&c));
    free(m);
    amqp_content_drop(&c);
}

static void a_body_that_is_too_long_is_cut(void **state)
{
    amqp_basic_return_t method = {.reply_code = 312,
                                  .reply_text = amqp_bytes_of(SLICE_LIT("NO_ROUTE"))};
    struct amqp_content c = {0};
    char part[4000] = {0};
    (void)state;
    amqp_content_begin(&c, 1, AMQP_BASIC_RETURN_METHOD, &method);
    assert_int_equal(
        amqp_content_header(&c, SLICE_LIT("\0\x3c\0\0\0\0\0\0\0\0\x1f\x40\0\0"), 5000),
        0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(amqp_content_body(&c, (struct slice){part, sizeof(part)}), 0);
    struct amqp_message *m = amqp_content_take(&c);
    assert_int_equal(m->body.n, AMQP_BODY_KEPT);
    assert_int_equal(m->whole_bytes, 8000);
    assert_int_equal(m->code, 312);
    assert_true(slice_is(m->text, "NO_ROUTE"));
    free(m);
    amqp_content_drop(&c);
}

/* -------------------------------------------------------------------- composing */

/* Composes the message for a job of these properties, with the headers that the core
 * sends. Returns the headers table; owned by props_room. */
static struct amqp_props composed;

static struct slice compose(struct amqp_composer *c, struct slice native,
                            struct header *headers, unsigned count, int64_t left_ms)
{
    struct job job = {.native = native};
    const struct delivery d = {
        .job = &job, .headers = headers, .header_count = count, .left_ms = left_ms};
    bool dropped;
    const struct slice out = amqp_compose(c, &d, "me", &dropped);

    assert_int_equal(amqp_props_parse(out, &composed, NULL), 0);
    assert_false(dropped);
    return amqp_props_table(&composed);
}

static void
original_headers_survive_as_they_came_without_the_control_headers(void **state)
{
    const struct slice kept = SLICE_LIT("\1nI\xff\xff\xff\xff"
                                        "\7x-deathA\0\0\0\0"
                                        "\1tt\1");
    struct amqp_composer c = {.table = {0}};
    struct buf table = {0}, want = {0};
    (void)state;
    buf_add_slice(&table, kept);
    buf_add_slice(&table, SLICE_LIT("\x08"
                                    "delay-idS\0\0\0\3old"
                                    "\7x-delayi\0\0\x13\x88"));
    struct buf native = props_with(buf_slice(&table));
    struct header headers[] = {{SLICE_LIT("n"), SLICE_LIT("-1")},
                               {SLICE_LIT("t"), SLICE_LIT("true")},
                               {SLICE_LIT("content-type"), SLICE_LIT("a/bc")},
                               {SLICE_LIT("amqp-exchange"), SLICE_LIT("old")},
                               {SLICE_LIT("delay-id"), SLICE_LIT("new")}};
    buf_add_slice(&want, kept);
    amqp_field_put_number(&want, SLICE_LIT("x-delay"), -5000);
    amqp_field_put(&want, SLICE_LIT("delay-id"), SLICE_LIT("new"));
    const struct slice got = compose(&c, buf_slice(&native), headers, 5, 0);
    assert_true(slice_eq(got, buf_slice(&want)));
    assert_true(slice_eq(composed.raw[AMQP_CONTENT_TYPE], SLICE_LIT("\4a/bc")));
    assert_true(slice_eq(composed.raw[AMQP_DELIVERY_MODE], SLICE_LIT("\2")));
    assert_null(composed.raw[AMQP_EXPIRATION].p);
    amqp_composer_free(&c);
    buf_free(&native);
    buf_free(&table);
    buf_free(&want);
}

static void an_x_delay_of_zero_or_less_stays(void **state)
{
    const struct slice table = SLICE_LIT("\7x-delayI\xff\xff\xff\xff");
    struct buf native = props_with(table);
    struct amqp_composer c = {.table = {0}};
    (void)state;
    assert_true(slice_eq(compose(&c, buf_slice(&native), NULL, 0, 0), table));
    amqp_composer_free(&c);
    buf_free(&native);
}

static void headers_of_another_source_become_properties(void **state)
{
    struct amqp_composer c = {.table = {0}};
    struct buf want = {0};
    struct header headers[] = {{SLICE_LIT("Content-Type"), SLICE_LIT("a/b")},
                               {SLICE_LIT("amqp-priority"), SLICE_LIT("9")},
                               {SLICE_LIT("amqp-user-id"), SLICE_LIT("somebody")},
                               {SLICE_LIT("null"), {NULL, 0}},
                               {SLICE_LIT("amqp-priority"), SLICE_LIT("high")}};
    (void)state;
    amqp_field_put(&want, SLICE_LIT("null"), (struct slice){NULL, 0});
    amqp_field_put(&want, SLICE_LIT("amqp-priority"), SLICE_LIT("high"));
    const struct slice got = compose(&c, (struct slice){NULL, 0}, headers, 5, 1500);
    assert_true(slice_eq(got, buf_slice(&want)));
    assert_true(slice_eq(composed.raw[AMQP_CONTENT_TYPE], SLICE_LIT("\3a/b")));
    assert_true(slice_eq(composed.raw[AMQP_PRIORITY], SLICE_LIT("\x09")));
    assert_true(slice_eq(composed.raw[AMQP_EXPIRATION], SLICE_LIT("\4"
                                                                  "1500")));
    assert_null(composed.raw[AMQP_USER_ID].p); /* the broker would close the channel */
    amqp_composer_free(&c);
    buf_free(&want);
}

static void the_user_id_of_our_own_login_is_sent(void **state)
{
    struct amqp_composer c = {.table = {0}};
    struct header headers[] = {{SLICE_LIT("amqp-user-id"), SLICE_LIT("me")}};
    (void)state;
    compose(&c, (struct slice){NULL, 0}, headers, 1, 0);
    assert_true(slice_eq(composed.raw[AMQP_USER_ID], SLICE_LIT("\2me")));
    amqp_composer_free(&c);
}

/* -------------------------------------------------------------------- the address */

static void urls_are_parsed_with_their_defaults(void **state)
{
    static const struct {
        const char *url, *host, *port, *vhost, *user, *password;
        bool tls;
    } rows[] = {{"amqp://broker", "broker", "5672", "/", NULL, NULL, false},
                {"amqps://broker/", "broker", "5671", "/", NULL, NULL, true},
                {"amqp://a:b@broker:1/%2f", "broker", "1", "/", "a", "b", false},
                {"amqp://a%40b:c%3ad@[::1]:5672/my%2fhost", "::1", "5672", "my/host",
                 "a@b", "c:d", false}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct amqp_peer peer;
        struct err err = {""};
        if (amqp_url_parse(rows[i].url, &peer, &err) != 0)
            fail_msg("%s: %s", rows[i].url, err.text);
        assert_string_equal(peer.host, rows[i].host);
        assert_string_equal(peer.port, rows[i].port);
        assert_string_equal(peer.vhost, rows[i].vhost);
        assert_int_equal(peer.tls, rows[i].tls);
        if (rows[i].user) {
            assert_string_equal(peer.user, rows[i].user);
            assert_string_equal(peer.password, rows[i].password);
        } else {
            assert_null(peer.user);
        }
        amqp_peer_free(&peer);
    }
}

static void bad_urls_are_rejected_without_showing_the_password(void **state)
{
    static const char *const urls[] = {"http://broker",
                                       "amqp://",
                                       "amqp://u:secret@broker:0",
                                       "amqp://u:secret@broker:70000",
                                       "amqp://u:secret@broker:x",
                                       "amqp://u:secret%zz@broker",
                                       "amqp://u:secret@broker/vhost?heartbeat=1",
                                       "amqp://u:secret@bro ker"};
    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct amqp_peer peer;
        struct err err = {""};
        if (amqp_url_parse(urls[i], &peer, &err) == 0)
            fail_msg("%s was accepted", urls[i]);
        assert_true(err.text[0] != '\0');
        assert_null(strstr(err.text, "secret"));
    }
}

static void a_password_too_long_for_the_login_is_rejected(void **state)
{
    char text[20001], url[20100];
    struct err err;
    struct amqp_opts opts = {.url = (char *)"amqp://h", .user = (char *)"u"};
    (void)state;
    memset(text, 'p', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    snprintf(url, sizeof(url), "amqp://u:%s@h", text);
    opts.password = text;
    assert_int_equal(amqp_opts_check(&opts, &err), -1);
    opts = (struct amqp_opts){.url = url};
    assert_int_equal(amqp_opts_check(&opts, &err), -1);
    snprintf(url, sizeof(url), "amqp://%s@h", text);
    assert_int_equal(amqp_opts_check(&opts, &err), -1);
    assert_null(strstr(err.text, "ppp"));
}

UNIT(amqp_job)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_becomes_a_job_with_its_scalar_headers),
        cmocka_unit_test(a_negative_or_fractional_x_delay_becomes_a_whole_number),
        cmocka_unit_test(expiration_and_message_id_count_unless_a_header_sets_them),
        cmocka_unit_test(a_message_that_cannot_be_converted_says_why),
        cmocka_unit_test(a_body_in_several_frames_is_assembled),
        cmocka_unit_test(a_body_that_is_too_long_is_cut),
        cmocka_unit_test(
            original_headers_survive_as_they_came_without_the_control_headers),
        cmocka_unit_test(an_x_delay_of_zero_or_less_stays),
        cmocka_unit_test(headers_of_another_source_become_properties),
        cmocka_unit_test(the_user_id_of_our_own_login_is_sent),
        cmocka_unit_test(urls_are_parsed_with_their_defaults),
        cmocka_unit_test(bad_urls_are_rejected_without_showing_the_password),
        cmocka_unit_test(a_password_too_long_for_the_login_is_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
