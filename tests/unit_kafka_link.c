/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of the link to Kafka, the options that librdkafka receives, tokens from a
 * file. */
#include "sources/kafka/kafka_conf.h"
#include "sources/kafka/kafka_client.h"

#include "bridge/base/buf.h"
#include "bridge/base/text.h"
#include "tests/unit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BASE .brokers = b, .client_id = b
#define USER .user = b, .password = b
#define SERVER .token_url = url, .token_client = b, .token_secret = b
#define TOKEN .sasl = KAFKA_SASL_TOKEN

static char b[] = "broker:9092", x[] = "x", url[] = "https://idp/token",
            file[] = "idp/token";

static void conflicting_options_are_rejected(void **state)
{
    char none[] = " ,";
    static char mechanism[] = "sasl_mechanism", mechanisms[] = "sasl_mechanisms",
                bearer[] = "oauthbearer", bearers[] = "GSSAPI,OAUTHBEARER",
                gssapi[] = "GSSAPI";
    struct pair scope = {x, x}, kerberos = {mechanisms, gssapi},
                oauth = {mechanism, bearer}, oauth_too = {mechanisms, bearers};
    const struct kafka_link good[] = {
        {BASE},
        {BASE, .tls = true},
        {BASE, .tls = true, .cert_file = x, .key_password = x},
        {BASE, .tls = true, .ca_file = x, .cert_file = x, .key_file = x},
        {BASE, .sasl = KAFKA_SASL_PLAIN, USER},
        {BASE, .sasl = KAFKA_SASL_SCRAM_512, USER, .tls = true},
        {BASE, .sasl = KAFKA_SASL_GSSAPI},
        {BASE, TOKEN, .token_file = x},
        {BASE, TOKEN, SERVER, .token_form = {&scope, 1}, .token_ca_file = x},
        {BASE, .settings = {&kerberos, 1}},
    };
    const struct kafka_link bad[] = {
        {.brokers = none},
        {BASE, .ca_file = x},
        {BASE, .cert_file = x},
        {BASE, .tls = true, .key_file = x},
        {BASE, .tls = true, .key_password = x},
        {BASE, .sasl = KAFKA_SASL_PLAIN, .user = x},
        {BASE, .sasl = KAFKA_SASL_SCRAM_256, .password = x},
        {BASE, USER},
        {BASE, .sasl = KAFKA_SASL_GSSAPI, USER},
        {BASE, TOKEN},
        {BASE, TOKEN, USER, .token_file = x},
        {BASE, TOKEN, SERVER, .token_file = x},
        {BASE, TOKEN, .token_url = url, .token_client = x},
        {BASE, TOKEN, .token_url = file, .token_client = x, .token_secret = x},
        {BASE, TOKEN, .token_file = x, .token_secret = x},
        {BASE, .token_file = x},
        {BASE, SERVER},
        {BASE, .settings = {&oauth, 1}},
        {BASE, TOKEN, .token_file = x, .settings = {&oauth_too, 1}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(kafka_link_check(&good[i], NULL), 0);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (kafka_link_check(&bad[i], NULL) == 0)
            fail_msg("bad[%zu] passes", i);
}

/* Anyone on the network could read our secret. */
static void http_token_url_is_allowed_only_for_the_local_host(void **state)
{
    static const struct {
        char url[40];
        bool fine;
    } cases[] = {
        {"http://localhost/token", true},
        {"HTTP://LocalHost:8080?x", true},
        {"http://127.0.0.1:8080/token", true},
        {"http://127.8.0.1", true},
        {"http://[::1]:8080/token", true},
        {"https://idp/token", true},
        {"http://idp/token", false},
        {"http://10.0.0.1/token", false},
        {"http://[::2]/token", false},
        {"http://[::1].idp/token", false},
        {"http://[::1/token", false},
        {"http://localhost.idp/token", false},
        {"http://127.0.0.1.idp/token", false},
        {"http://127.idp/token", false},
        {"http://localhost@idp/token", false},
        {"http://localhost:x@idp/token", false},
        {"http://localhost\\@idp/token", false},
        {"http:///token", false},
        {"http://", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char at[sizeof(cases[0].url)];
        struct err err = {""};
        const struct kafka_link link = {BASE, TOKEN,
                                        .token_url = strcpy(at, cases[i].url),
                                        .token_client = x, .token_secret = x};
        if ((kafka_link_check(&link, &err) == 0) != cases[i].fine)
            fail_msg("%s: \"%s\"", at, err.text);
        if (!cases[i].fine)
            assert_non_null(strstr(err.text, "https://"));
    }
}

static const char *value(rd_kafka_conf_t *conf, const char *name)
{
    static char text[256];
    size_t n = sizeof(text);
    return rd_kafka_conf_get(conf, name, text, &n) == RD_KAFKA_CONF_OK ? text : "none";
}

static void options_become_settings_of_librdkafka(void **state)
{
    const struct kafka_setting rows[] = {{0}};
    char user[] = "bob", pw[] = "hunter2", pem[] = "/own.pem";
    const struct kafka_link link = {
        BASE,         .tls = true,   .cert_file = pem, .sasl = KAFKA_SASL_SCRAM_256,
        .user = user, .password = pw};
    (void)state;
    rd_kafka_conf_t *conf = kafka_conf_new(&link, rows, NULL);
    assert_non_null(conf);
    assert_string_equal(value(conf, "security.protocol"), "sasl_ssl");
    assert_string_equal(value(conf, "sasl.mechanisms"), "SCRAM-SHA-256");
    assert_string_equal(value(conf, "sasl.username"), "bob");
    assert_string_equal(value(conf, "sasl.password"), "hunter2");
    assert_string_equal(value(conf, "ssl.certificate.location"), "/own.pem");
    assert_string_equal(value(conf, "ssl.key.location"),
                        "/own.pem"); /* in the same file */
    assert_string_equal(value(conf, "ssl.endpoint.identification.algorithm"), "https");
    assert_string_equal(value(conf, "enable.ssl.certificate.verification"), "true");
    rd_kafka_conf_destroy(conf);
}

static void kerberos_is_configured_by_librdkafka_settings(void **state)
{
    const struct kafka_setting rows[] = {{0}};
    char name[] = "sasl_kerberos_keytab", path[] = "/etc/tarry.keytab";
    struct pair keytab = {name, path};
    const struct kafka_link link = {BASE, .sasl = KAFKA_SASL_GSSAPI,
                                    .settings = {&keytab, 1}};
    (void)state;
    rd_kafka_conf_t *conf = kafka_conf_new(&link, rows, NULL);
    assert_non_null(conf);
    assert_string_equal(value(conf, "security.protocol"), "sasl_plaintext");
    assert_string_equal(value(conf, "sasl.mechanisms"), "GSSAPI");
    assert_string_equal(value(conf, "sasl.kerberos.keytab"), path);
    rd_kafka_conf_destroy(conf);
}

static void settings_that_tarry_owns_are_rejected(void **state)
{
    const struct kafka_setting rows[] = {{0}};
    static const struct {
        const char *name, *value, *why; /* why NULL: it is valid */
        bool tls;
    } cases[] = {
        {"socket_keepalive_enable", "true", NULL, true},
        {"security_protocol", "ssl", NULL, false},
        {"security_protocol", "plaintext", "use the option tls", true},
        {"sasl_password", "hunter2", NULL, false},
        {"sasl_password", "hunter2", "use the option password", true},
        {"sasl_oauthbearer_method", "oidc", "use the option token_url", false},
        {"enable_auto_commit", "true", "so that no job is lost", false},
        {"acks", "1", "so that no job is lost", false},
        {"plugin_library_paths", "x.so", "so that no job is lost", false},
        {"ssl_keystore_password_", "hunter2", "no setting", false},
        {"sasl_oauthbearer_config", "hunter2", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[64], text[64];
        struct pair pair = {strcpy(name, cases[i].name), strcpy(text, cases[i].value)};
        const struct kafka_link link = {BASE, .tls = cases[i].tls,
                                        .settings = {&pair, 1}};
        struct err err = {""};
        rd_kafka_conf_t *conf = kafka_conf_new(&link, rows, &err);
        assert_int_equal(conf != NULL, cases[i].why == NULL);
        if (cases[i].why)
            assert_non_null(strstr(err.text, cases[i].why));
        assert_null(strstr(err.text, "hunter2"));
        if (conf)
            rd_kafka_conf_destroy(conf);
    }
}

static int64_t now_ms(void)
{
    return (int64_t)time(NULL) * 1000;
}

/* "HEADER.{"exp":...}." in base64 of URLs. */
static void jwt(struct buf *out, const char *claims)
{
    buf_add_str(out, "eyJhbGciOiJub25lIn0.");
    text_add_base64(out, slice_of(claims));
    for (size_t i = 0; i < out->n; i++)
        out->p[i] = out->p[i] == '+' ? '-' : (out->p[i] == '/' ? '_' : out->p[i]);
    while (out->p[out->n - 1] == '=')
        out->n--;
    buf_add_str(out, ".c2ln\n");
}

static int get(const char *text, struct kafka_token *token, struct err *err)
{
    char path[] = "/tmp/tarry-unit-token.XXXXXX";
    const struct kafka_token_request ask = {.file = path};
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int rc = kafka_token_get(&ask, token, err);
    unlink(path);
    return rc;
}

static void a_token_file_expires_by_its_claim_or_after_five_minutes(void **state)
{
    static const struct {
        const char *before, *after; /* around the end in the claims; NULL: not a JWT */
        int64_t end_s, want_s;      /* want_s below 0: rejected */
    } cases[] = {{"{\"sub\":\"a?>\",\"exp\":", "}", 100, 100},
                 {"{\"exp\":", ".25,\"x\":1}", 100, 100},
                 {"{\"exp\":", "}", 9999, 300}, /* the file may be renewed before */
                 {"{\"exp\":", "000000000000000000000}", 9999, 300}, /* not an int64_t */
                 {"{\"exp\":", "}", -5, -1},
                 {"{\"exp\":", "}", 1, -1},
                 {"{\"exp\":\"", "\"}", 100, 300},
                 {"{\"iat\":", "}", 100, 300},
                 {"no json ", "", 100, 300},
                 {NULL, NULL, 0, 300}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf text = {0};
        struct kafka_token token = {0};
        struct err err;
        if (cases[i].before) {
            char line[128];
            snprintf(line, sizeof(line), "%s%" PRId64 "%s", cases[i].before,
                     (int64_t)time(NULL) + cases[i].end_s, cases[i].after);
            jwt(&text, line);
        } else {
            buf_add_str(&text, "opaque.token.");
        }
        int rc = get(buf_str(&text), &token, &err);
        if (cases[i].want_s < 0) {
            assert_int_equal(rc, -1);
            assert_non_null(strstr(err.text, "has expired"));
        } else {
            assert_int_equal(rc, 0);
            assert_within(token.expires_ms, now_ms() + (cases[i].want_s - 3) * 1000,
                          now_ms() + (cases[i].want_s + 3) * 1000);
            assert_null(strchr(token.value, '\n'));
        }
        kafka_token_free(&token);
        buf_free(&text);
    }
}

static void a_token_file_without_a_token_is_an_error(void **state)
{
    struct kafka_token token = {0};
    struct err err;
    const struct kafka_token_request nowhere = {.file = x},
                                     folder = {.file = (char[]){"/tmp"}};
    (void)state;
    assert_int_equal(get(" \n", &token, &err), -1);
    assert_non_null(strstr(err.text, "the file is empty"));
    assert_int_equal(kafka_token_get(&nowhere, &token, &err), -1);
    assert_string_equal(err.text, "token_file x: No such file or directory");
    assert_int_equal(kafka_token_get(&folder, &token, &err), -1);
    assert_null(token.value);
}

UNIT(kafka_link)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicting_options_are_rejected),
        cmocka_unit_test(http_token_url_is_allowed_only_for_the_local_host),
        cmocka_unit_test(options_become_settings_of_librdkafka),
        cmocka_unit_test(kerberos_is_configured_by_librdkafka_settings),
        cmocka_unit_test(settings_that_tarry_owns_are_rejected),
        cmocka_unit_test(a_token_file_expires_by_its_claim_or_after_five_minutes),
        cmocka_unit_test(a_token_file_without_a_token_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
