/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/log.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* after NULL: nothing is hidden. */
static const struct {
    const char *before, *after;
} cases[] = {
    /* passwords of URLs */
    {"redis://bob:hunter2@h:6379/0", "redis://bob:***@h:6379/0"},
    {"redis://:hunter2@h", "redis://:***@h"},
    {"at mqtts://u:p@ss@broker:1, again", "at mqtts://u:***@broker:1, again"},
    {"unix://tarry:pw@/run/r.sock?db=1", "unix://tarry:***@/run/r.sock?db=1"},
    {"redis://u:pa/ss@h", "redis://u:***@h"},
    {"\"https://u:p@h/x\" and http://a:b@c/",
     "\"https://u:***@h/x\" and http://a:***@c/"},
    {"redis+cluster://u:p@h1:1,h2:2/0", "redis+cluster://u:***@h1:1,h2:2/0"},
    {"http://127.0.0.1:80/a@b", NULL},
    {"http://[::1]:80/a@b:c", NULL},
    {"redis+cluster://h1:1,h2:2", NULL},
    {"mqtt://user@host:1883", NULL},
    {"sasl_ssl://broker:9093/bootstrap: failed", NULL},
    /* parameters and fields */
    {"GET /x?token=abc&n=1", "GET /x?token=***&n=1"},
    {"https://h/cb?sig=1&X-Amz-Signature=abcdef",
     "https://h/cb?sig=1&X-Amz-Signature=***"},
    {"sasl.password = x, sasl.password=hunter2 set",
     "sasl.password = x, sasl.password=*** set"},
    {"{\"access_token\":\"abc\",\"n\":1}", "{\"access_token\":\"***\",\"n\":1}"},
    {"{\"password\":\"a\\\"bcd\",\"n\":1}", "{\"password\":\"***\",\"n\":1}"},
    {"{\"client_secret\": \"abc\"}", "{\"client_secret\": \"***\"}"},
    {"key=orders-17 id=4", NULL},
    {"token_url=https://idp.example/token", NULL},
    {"tokens.shop.token: must be text in quotes", NULL},
    {"client 1: bad user name or password", NULL},
    /* headers, tokens */
    {"Authorization: Basic dTpw\r\nHost: h", "Authorization: ***\r\nHost: h"},
    {"set-cookie: a=b; c", "set-cookie: ***"},
    {"sent Bearer abcdefgh.ijk here", "sent Bearer *** here"},
    {"write Authorization: Bearer ...", "write Authorization: ***"},
    {"401: Bearer realm", NULL},
    {"key whsec_MfKQ9r8GKYqrTwjU, next", "key whsec_***, next"},
    {"auth=eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0. x", "auth=eyJhbGci*** x"},
    {"", NULL},
};

static void secrets_are_hidden_and_nothing_else(void **state)
{
    (void)state;
    char out[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *want = cases[i].after ? cases[i].after : cases[i].before;
        assert_string_equal(redact_text(out, sizeof(out), cases[i].before), want);
        assert_int_equal(redact_finds(cases[i].before), cases[i].after != NULL);
    }
}

static void text_beyond_the_buffer_is_truncated(void **state)
{
    (void)state;
    char out[12];
    assert_string_equal(redact_text(out, sizeof(out), "redis://u:hunter2@h"),
                        "redis://u:*");
    assert_string_equal(redact_text(out, 1, "redis://u:hunter2@h"), "");
}

static void names_of_secrets(void **state)
{
    static const char *const yes[] = {
        "sasl_password", "ssl.key.password", "Authorization", "X-Api-Key",
        "client_secret", "ssl_key_pem",      "Cookie"};
    static const char *const no[] = {"user",         "token_url", "token_file",
                                     "content-type", "key",       "ssl.key.location",
                                     "token_type"};
    (void)state;
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        assert_true(redact_is_secret_name(slice_of(yes[i])));
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        assert_false(redact_is_secret_name(slice_of(no[i])));
}

UNIT(redact)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_hidden_and_nothing_else),
        cmocka_unit_test(text_beyond_the_buffer_is_truncated),
        cmocka_unit_test(names_of_secrets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
