/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_url.c - libFuzzer: any text as a URL of Redis, of an MQTT broker and of a
 * callback. The form of the last that curl receives is valid in a request line.
 */
#include "bridge/redis/redis.h"
#include "sinks/http/http_sink.h"
#include "sources/mqtt/mqtt_link.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static void check_redis(const char *text)
{
    struct redis_url url, again;
    struct err err = {""};

    if (redis_url_parse(text, &url, &err) < 0) {
        must(err.text[0] != '\0');
        return;
    }
    redis_url_copy(&url, &again);
    redis_url_free(&again);
    redis_url_free(&url);
}

static void check_mqtt(const char *text)
{
    struct mqtt_url url;
    struct err err = {""};

    if (mqtt_url_parse(text, &url, &err) < 0) {
        must(err.text[0] != '\0');
        return;
    }
    must(url.host[0] != '\0' && url.port > 0 && url.port < 65536);
    free(mqtt_url_paho(&url));
    mqtt_url_free(&url);
}

static void check_http(struct slice url)
{
    struct slice origin = http_url_origin(url);
    struct buf line = {0}, referer = {0};

    must(origin.n == 0 || (origin.p >= url.p && origin.p + origin.n <= url.p + url.n));
    if (http_is_url(url) && http_url_add(&line, url) == 0) {
        http_url_add_referer(&referer, buf_slice(&line), SLICE_LIT("https://a.example/"));
        buf_add_slice(&line, buf_slice(&referer));
    }
    for (size_t i = 0; i < line.n; i++)
        must((unsigned char)line.p[i] > ' ' && line.p[i] != 0x7f);
    buf_free(&line);
    buf_free(&referer);
}

static void check_guard(const char *text)
{
    static char one[] = "example.org", any[] = "*.example.net", *hosts[] = {one, any};
    struct http_opts opts = {.url_from_message = true, .allow_hosts = {hosts, 2}};
    struct http_guard *guard = http_guard_new(&opts, NULL);

    must(guard != NULL);
    for (int word = HTTP_URL_CONFIG; word <= HTTP_URL_MESSAGE; word++) {
        http_guard_url(guard, (enum http_url_source)word, text);
        http_guard_ip(guard, (enum http_url_source)word, text);
    }
    http_guard_lists_host(guard, text);
    http_guard_free(guard);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct http_range range;
    char *text = fuzz_text((struct slice){(const char *)bytes, n});

    check_redis(text);
    check_mqtt(text);
    check_http((struct slice){(const char *)bytes, n});
    check_guard(text);
    if (http_range_read(&range, text, 65535) == 0)
        must(range.first <= range.last && range.last <= 65535);
    free(text);
    return 0;
}
