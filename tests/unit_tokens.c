/* SPDX-License-Identifier: BSD-2-Clause */
/* Which requests a token or certificate allows over HTTP: bridge/http/httpd_guard.c. */
#include "bridge/conf/conf.h"
#include "bridge/http/httpd_internal.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char produce[] = "produce", consume[] = "consume", admin[] = "admin",
            root[] = "root";
static char *two[] = {produce, consume}, *all[] = {admin}, *none[] = {produce, root};

static char shop[] = "shop", ops[] = "ops", cert[] = "cert";
static char shop_token[] = "shop-token-0123456789", ops_token[] = "ops-token-0123456789";
static char cert_name[] = "ops.example.com";

static struct conf_token parts[] = {
    {.name = shop, .token = shop_token, .roles = {two, 2}},
    {.name = ops, .token = ops_token, .roles = {all, 1}},
    {.name = cert, .certificate = cert_name, .roles = {two, 1}},
};
static struct conf_token *list[] = {&parts[0], &parts[1], &parts[2]};
static struct conf conf = {.tokens = list, .token_count = 3};

static const char *whose(const struct tokens *tokens, const char *text)
{
    const struct token *token = tokens_find(tokens, slice_of(text));
    return token ? token->name : "";
}

static void a_token_is_found_whole_and_not_by_a_part_of_it(void **state)
{
    (void)state;
    struct tokens *tokens = tokens_new(&conf);
    assert_string_equal(whose(tokens, shop_token), "shop");
    assert_string_equal(whose(tokens, ops_token), "ops");
    assert_string_equal(whose(tokens, "shop-token-012345678"), "");
    assert_string_equal(whose(tokens, "shop-token-01234567890"), "");
    assert_string_equal(whose(tokens, ""), "");
    assert_null(tokens_find(tokens, (struct slice){0}));
    /* A token configured by a certificate has no secret, not even 32 zero bytes. */
    assert_string_equal(whose(tokens, cert_name), "");
    tokens_free(tokens);
    tokens_free(NULL);
}

static void a_certificate_is_found_by_any_of_its_names(void **state)
{
    (void)state;
    static const struct {
        struct slice names;
        bool known;
    } cases[] = {
        {SLICE_LIT("ops.example.com\0"), true},
        {SLICE_LIT("a\0ops.example.com\0b\0"), true},
        {SLICE_LIT("a\0b\0ops.example.com\0"), true},
        {SLICE_LIT("x.ops.example.com\0"), false},
        {SLICE_LIT("ops.example.com.\0a\0"), false},
        {SLICE_LIT("ops\0.example.com\0"), false},
        {SLICE_LIT("shop-token-0123456789\0"), false},
        {{0}, false},
    };
    struct tokens *tokens = tokens_new(&conf);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(tokens_find_certificate(tokens, cases[i].names) != NULL,
                         cases[i].known);
    tokens_free(tokens);
}

static void a_role_permits_its_rows_and_admin_permits_all(void **state)
{
    (void)state;
    static const struct {
        const char *token;
        bool may[HTTPD_ROLES];
    } cases[] = {
        {"shop-token-0123456789", {[HTTPD_PRODUCE] = true, [HTTPD_CONSUME] = true}},
        {"ops-token-0123456789",
         {[HTTPD_PRODUCE] = true,
          [HTTPD_CONSUME] = true,
          [HTTPD_METRICS] = true,
          [HTTPD_ADMIN] = true}},
    };
    struct tokens *tokens = tokens_new(&conf);
    for (size_t i = 0; i < 2; i++)
        for (enum httpd_role role = HTTPD_PRODUCE; role <= HTTPD_ADMIN; role++)
            assert_int_equal(
                tokens_find(tokens, slice_of(cases[i].token))->roles >> role & 1,
                cases[i].may[role]);
    tokens_free(tokens);
}

static void an_unknown_role_is_named(void **state)
{
    (void)state;
    struct err err = {""};
    unsigned roles;
    assert_int_equal(tokens_roles(&(struct opt_list){two, 2}, &roles, &err), 0);
    assert_int_equal(roles, 1 << HTTPD_PRODUCE | 1 << HTTPD_CONSUME);
    assert_int_equal(tokens_roles(&(struct opt_list){none, 2}, &roles, &err), -1);
    assert_non_null(strstr(err.text, "\"root\""));
}

static void a_token_must_fit_in_a_header_and_be_hard_to_guess(void **state)
{
    (void)state;
    struct err err = {""};
    char longest[1026] = {0};
    memset(longest, 'x', 1025);
    assert_int_equal(tokens_check("0123456789abcdef", &err), 0);
    assert_int_equal(tokens_check("0123456789abcde", &err), -1);
    assert_int_equal(tokens_check("0123456789 abcdef", &err), -1);
    assert_int_equal(tokens_check("0123456789abcde\xc3\xa9", &err), -1);
    assert_int_equal(tokens_check("0123456789abcdef\n", &err), -1);
    assert_int_equal(tokens_check(longest, &err), -1);
    assert_int_equal(tokens_check(longest + 1, &err), 0);
}

static void an_empty_token_section_has_no_tokens(void **state)
{
    (void)state;
    const struct conf empty = {0};
    assert_null(tokens_new(&empty));
}

UNIT(tokens)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_found_whole_and_not_by_a_part_of_it),
        cmocka_unit_test(a_certificate_is_found_by_any_of_its_names),
        cmocka_unit_test(a_role_permits_its_rows_and_admin_permits_all),
        cmocka_unit_test(an_unknown_role_is_named),
        cmocka_unit_test(a_token_must_fit_in_a_header_and_be_hard_to_guess),
        cmocka_unit_test(an_empty_token_section_has_no_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
