/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_mqtt_url.c - addresses of brokers, and the related options. */
#include "sources/mqtt/mqtt_link.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void check_text(const char *got, const char *want)
{
    if (want == NULL)
        assert_null(got);
    else
        assert_string_equal(got, want);
}

static void a_broker_url_is_parsed(void **state)
{
    static const struct {
        const char *text, *host, *user, *password, *paho;
    } rows[] = {
        {"mqtt://broker", "broker", NULL, NULL, "tcp://broker:1883"},
        {"mqtts://broker", "broker", NULL, NULL, "ssl://broker:8883"},
        {"mqtt://b.example:1/", "b.example", NULL, NULL, "tcp://b.example:1"},
        {"mqtt://joe@b:65535", "b", "joe", NULL, "tcp://b:65535"},
        {"mqtt://joe:s3@b", "b", "joe", "s3", "tcp://b:1883"},
        {"mqtt://joe:@b", "b", "joe", "", "tcp://b:1883"},
        {"mqtt://j%40x:a%3Ab%25@b", "b", "j@x", "a:b%", "tcp://b:1883"},
        {"mqtt://joe:p@ss:w@b", "b", "joe", "p@ss:w", "tcp://b:1883"},
        {"mqtt://[::1]", "::1", NULL, NULL, "tcp://[::1]:1883"},
        {"mqtts://[fe80::1]:9", "fe80::1", NULL, NULL, "ssl://[fe80::1]:9"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mqtt_url url;
        assert_int_equal(mqtt_url_parse(rows[i].text, &url, NULL), 0);
        check_text(url.host, rows[i].host);
        check_text(url.user, rows[i].user);
        check_text(url.password, rows[i].password);
        char *paho = mqtt_url_paho(&url);
        assert_string_equal(paho, rows[i].paho);
        free(paho);
        mqtt_url_free(&url);
    }
}

static void a_wrong_url_is_rejected_and_not_quoted(void **state)
{
    static const char *const rows[] = {"",
                                       "broker",
                                       "tcp://sEcret",
                                       "mqtt://",
                                       "mqtt://:1",
                                       "mqtt://b:",
                                       "mqtt://b:0",
                                       "mqtt://b:65536",
                                       "mqtt://b:1x",
                                       "mqtt://b/sEcret",
                                       "mqtt://b:1/sEcret",
                                       "mqtt://@b",
                                       "mqtt://:sEcret@b",
                                       "mqtt://u:%@b",
                                       "mqtt://u:%0@b",
                                       "mqtt://u:%00@b",
                                       "mqtt://u:%zz@b",
                                       "mqtt://[::1",
                                       "mqtt://[::1]x",
                                       "mqtt://sEcret b",
                                       "mqtt://a,b"};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mqtt_url url;
        struct err err = {""};
        assert_int_equal(mqtt_url_parse(rows[i], &url, &err), -1);
        assert_true(err.text[0] != '\0');
        assert_null(strstr(err.text, "sEcret"));
        assert_null(url.host);
    }
}

#define BASE .url = (char[]){"mqtts://b"}, .keepalive_ms = 30000

static void conflicting_options_are_rejected(void **state)
{
    char plain[] = "mqtt://b", with_user[] = "mqtt://u:p@b", x[] = "x", empty[] = "";
    char long_name[257] = "", *names[] = {x, long_name}, *no_name[] = {empty, x};
    memset(long_name, 'a', 256);
    const struct mqtt_link good[] = {{BASE},
                                     {BASE, .alpn = {names, 1}},
                                     {BASE, .user = x, .password = x},
                                     {BASE, .ca_file = x, .cert_file = x, .key_file = x},
                                     {.url = with_user},
                                     {.url = plain, .client_id = x}};
    const struct mqtt_link bad[] = {{.url = plain, .ca_file = x},
                                    {.url = plain, .cert_file = x},
                                    {BASE, .key_file = x},
                                    {BASE, .key_password = x},
                                    {BASE, .alpn = {names, 2}},
                                    {.url = plain, .alpn = {names, 1}},
                                    {BASE, .alpn = {no_name, 2}},
                                    {BASE, .password = x},
                                    {BASE, .client_id = empty},
                                    {.url = with_user, .user = x},
                                    {.url = with_user, .password = x}};
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(mqtt_link_check(&good[i], NULL), 0);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(mqtt_link_check(&bad[i], NULL), -1);
}

static void user_and_password_are_read_from_the_url(void **state)
{
    char url[] = "mqtt://u:p@b", id[] = "me";
    const struct mqtt_link link = {.url = url, .version = 1, .keepalive_ms = 1500};
    struct mqtt_peer peer;
    (void)state;
    mqtt_peer_init(&peer, &link, strdup(id));
    assert_string_equal(peer.uri, "tcp://b:1883");
    assert_string_equal(peer.user, "u");
    assert_string_equal(peer.password, "p");
    assert_string_equal(peer.client_id, "me");
    assert_true(peer.v5);
    assert_int_equal(peer.keepalive_s, 2);
    mqtt_peer_free(&peer);
}

static void alpn_names_are_encoded_for_tls(void **state)
{
    char first[] = "mqtt", second[] = "x-1", *names[] = {first, second};
    const struct mqtt_link link = {BASE, .alpn = {names, 2}};
    struct mqtt_peer peer;
    (void)state;
    mqtt_peer_init(&peer, &link, NULL);
    assert_string_equal(peer.alpn, "\4mqtt\3x-1");
    mqtt_peer_free(&peer);
}

UNIT(mqtt_url)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broker_url_is_parsed),
        cmocka_unit_test(a_wrong_url_is_rejected_and_not_quoted),
        cmocka_unit_test(conflicting_options_are_rejected),
        cmocka_unit_test(user_and_password_are_read_from_the_url),
        cmocka_unit_test(alpn_names_are_encoded_for_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
