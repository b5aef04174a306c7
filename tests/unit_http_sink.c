/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_http_sink.c - the request of a callback, and the outcome of its answer. */
#include "sinks/http/http_sink.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ------------------------------------------------------------------ outcome rules */

/* lists: texts separated by blanks. */
static struct opt_list list_of(const char *texts)
{
    struct opt_list list = {mem_alloc(32 * sizeof(char *)), 0};
    char *all = mem_strdup(texts), *rest = all;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        list.v[list.n++] = mem_strdup(word);
    free(all);
    return list;
}

static void list_free(struct opt_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->v[i]);
    free(list->v);
    *list = (struct opt_list){0};
}

static int rules(struct http_rules *out, const char *delivered, const char *retry,
                 const char *reject, const char *stop, struct err *err)
{
    struct opt_list lists[HTTP_VERDICTS] = {[HTTP_DELIVERED] = list_of(delivered),
                                            [HTTP_RETRY] = list_of(retry),
                                            [HTTP_REJECT] = list_of(reject),
                                            [HTTP_STOP] = list_of(stop)};
    int rc = http_rules_read(out, lists, err);
    for (size_t i = 0; i < HTTP_VERDICTS; i++)
        list_free(&lists[i]);
    return rc;
}

static void by_default_each_status_has_its_outcome(void **state)
{
    (void)state;
    static const struct {
        long status;
        enum http_verdict verdict;
    } rows[] = {{200, HTTP_DELIVERED}, {204, HTTP_DELIVERED}, {299, HTTP_DELIVERED},
                {300, HTTP_REJECT},    {304, HTTP_REJECT},    {400, HTTP_REJECT},
                {404, HTTP_REJECT},    {408, HTTP_RETRY},     {410, HTTP_STOP},
                {411, HTTP_REJECT},    {425, HTTP_RETRY},     {429, HTTP_RETRY},
                {499, HTTP_REJECT},    {500, HTTP_RETRY},     {503, HTTP_RETRY},
                {599, HTTP_RETRY},     {101, HTTP_RETRY},     {0, HTTP_RETRY},
                {999, HTTP_RETRY},     {1000, HTTP_RETRY},    {-1, HTTP_RETRY},
                {600, HTTP_RETRY}};
    struct http_opts o = {0};
    struct http_rules r;
    struct err err;
    opt_defaults(http_opt_rows, &o);
    assert_int_equal(http_rules_read(&r, o.codes, &err), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(http_rules_verdict(&r, rows[i].status), rows[i].verdict);
    opt_free(http_opt_rows, &o);
}

static void the_narrower_of_two_ranges_wins(void **state)
{
    (void)state;
    struct http_rules r;
    assert_int_equal(
        rules(&r, "2xx 409", "404 500-503 502", "4xx 502-502 5Xx", "404-405", NULL), -1);
    assert_int_equal(rules(&r, "2xx 409", "404 500-503", "4xx 502 5Xx", "404-405", NULL),
                     0);
    static const struct {
        long status;
        enum http_verdict verdict;
    } rows[] = {{409, HTTP_DELIVERED}, {408, HTTP_REJECT}, {404, HTTP_RETRY},
                {405, HTTP_STOP},      {500, HTTP_RETRY},  {502, HTTP_REJECT},
                {504, HTTP_REJECT},    {300, HTTP_RETRY}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(http_rules_verdict(&r, rows[i].status), rows[i].verdict);
}

static void a_code_in_two_lists_or_an_invalid_code_is_an_error(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        "2x",       "0xx",     "99",   "1000", "200-",     "-200",       "xx",
        "300-200", "200 -204", "2xx-4xx", "+200", "200 ", "200-1000", "42949672960"};
    struct http_rules r;
    struct err err;
    assert_int_equal(rules(&r, "200 409", "409", "", "", &err), -1);
    assert_string_equal(err.text,
                        "status 409 is in both retry and delivered: remove it from "
                        "one of them");
    assert_int_equal(rules(&r, "2xx", "", "", "200-299", &err), -1);
    assert_int_equal(rules(&r, "409 409 400-450", "", "", "", &err), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[16];
        char *v = strcpy(text, bad[i]);
        struct opt_list lists[HTTP_VERDICTS] = {[HTTP_STOP] = {&v, 1}};
        assert_int_equal(http_rules_read(&r, lists, &err), -1);
        assert_non_null(strstr(err.text, "stop: "));
    }
}

/* ------------------------------------------------------------------ addresses and hosts
 */

static struct http_guard *guard(struct http_opts *o, const char *allow, const char *deny,
                                const char *hosts, const char *ports)
{
    struct err err;
    *o = (struct http_opts){.url_from_message = true,
                            .allow = list_of(allow),
                            .deny = list_of(deny),
                            .allow_hosts = list_of(hosts),
                            .ports = list_of(ports)};
    return http_guard_new(o, &err);
}

static void guard_free(struct http_guard *g, struct http_opts *o)
{
    http_guard_free(g);
    list_free(&o->allow);
    list_free(&o->deny);
    list_free(&o->allow_hosts);
    list_free(&o->ports);
}

/* Both ways must agree. */
static bool reaches(const struct http_guard *g, enum http_url_source word, const char *ip)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool is_v4 = inet_pton(AF_INET, ip, &v4.sin_addr) == 1;
    assert_true(is_v4 || inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1);
    const void *address = is_v4 ? (const void *)&v4 : &v6;
    bool fine = http_guard_address(g, word, address);
    assert_int_equal(http_guard_ip(g, word, ip), fine);
    return fine;
}

static void a_url_of_a_message_never_reaches_a_private_network(void **state)
{
    (void)state;
    static const char *const private[] = {"0.0.0.0",
                                          "0.1.2.3",
                                          "10.0.0.1",
                                          "100.64.0.1",
                                          "100.127.255.255",
                                          "127.0.0.1",
                                          "127.255.255.255",
                                          "169.254.169.254",
                                          "168.63.129.16",
                                          "::ffff:168.63.129.16",
                                          "5f00::1",
                                          "172.16.0.1",
                                          "172.31.255.255",
                                          "192.0.0.8",
                                          "192.168.1.1",
                                          "198.18.0.1",
                                          "198.19.255.255",
                                          "224.0.0.1",
                                          "239.255.255.255",
                                          "240.0.0.1",
                                          "255.255.255.255",
                                          "::",
                                          "::1",
                                          "fc00::1",
                                          "fdff::1",
                                          "fe80::1",
                                          "febf::1",
                                          "fec0::1",
                                          "ff02::1",
                                          "::ffff:127.0.0.1",
                                          "::ffff:10.1.2.3",
                                          "::127.0.0.1",
                                          "64:ff9b::10.0.0.1",
                                          "64:ff9b:1::8.8.8.8",
                                          "64:ff9b::7f00:1",
                                          "2002:7f00:1::",
                                          "2002:a9fe:a9fe::1",
                                          "2002:a01:203::",
                                          "::ffff:0:127.0.0.1",
                                          "2001::1",
                                          "100::1"};
    static const char *const public[] = {
        "1.1.1.1",      "9.255.255.255",   "11.0.0.0",         "100.63.255.255",
        "100.128.0.0",  "126.255.255.255", "128.0.0.0",        "169.253.255.255",
        "172.15.0.1",   "172.32.0.0",      "192.0.1.0",        "192.167.255.255",
        "198.17.0.1",   "198.20.0.0",      "223.255.255.255",  "2606:4700::1111",
        "2001:4860::1", "::ffff:1.1.1.1",  "64:ff9b::1.1.1.1", "2002:101:101::1",
        "fbff::1",      "::ffff:0:8.8.8.8"};
    struct http_opts o;
    struct http_guard *g = guard(&o, "", "", "", "");
    for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++) {
        assert_false(reaches(g, HTTP_URL_MESSAGE, private[i]));
        assert_false(reaches(g, HTTP_URL_REDIRECT, private[i]));
        assert_true(reaches(g, HTTP_URL_ROUTE, private[i]));
        assert_true(reaches(g, HTTP_URL_CONFIG, private[i]));
    }
    for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
        assert_true(reaches(g, HTTP_URL_MESSAGE, public[i]));
    assert_false(http_guard_ip(g, HTTP_URL_MESSAGE, ""));
    assert_false(
        http_guard_address(g, HTTP_URL_CONFIG, &(struct sockaddr){.sa_family = AF_UNIX}));
    guard_free(g, &o);
}

static void allow_overrides_deny_for_every_url(void **state)
{
    (void)state;
    static const struct {
        const char *ip;
        bool asked, own;
    } rows[] = {{"10.20.1.1", true, true},
                {"10.21.1.1", false, true},
                {"203.0.113.7", false, false},
                {"203.0.113.9", true, true},
                {"2002:cb00:7107::", false, false},
                {"64:ff9b::10.20.1.1", true, true},
                {"64:ff9b::10.21.1.1", false, true},
                {"2001:db8::1", false, false},
                {"2001:db9::1", true, true},
                {"::1", true, true},
                {"::2", false, true},
                {"::ffff:203.0.113.7", false, false}};
    struct http_opts o;
    struct http_guard *g =
        guard(&o, "10.20.0.0/16 203.0.113.9 ::1", "203.0.113.0/24 2001:db8::/32", "", "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(reaches(g, HTTP_URL_MESSAGE, rows[i].ip), rows[i].asked);
        assert_int_equal(reaches(g, HTTP_URL_CONFIG, rows[i].ip), rows[i].own);
    }
    guard_free(g, &o);
    g = guard(&o, "", "::/0", "", ""); /* all of IPv6, no IPv4 */
    assert_false(reaches(g, HTTP_URL_CONFIG, "2606::1"));
    assert_true(reaches(g, HTTP_URL_CONFIG, "1.1.1.1"));
    guard_free(g, &o);
    g = guard(&o, "", "0.0.0.0/0", "", "");
    assert_true(reaches(g, HTTP_URL_CONFIG, "2606::1"));
    assert_false(reaches(g, HTTP_URL_CONFIG, "1.1.1.1"));
    guard_free(g, &o);
}

static void a_bad_network_host_or_port_is_an_error(void **state)
{
    (void)state;
    static const char *const nets[] = {"10.0.0.0/33",  "10.0.0.1/8", "10.0.0",    "x",
                                       "::/129",       "/8",         "10.0.0.0/", "a.b/8",
                                       "10.0.0.0/8-9", "fe80::1/10"};
    static const char *const hosts[] = {"a*",   "*",     "*.", "http://a",
                                        "a:80", "*.*.a", "u@a"};
    static const char *const ports[] = {"65536", "http", "90-80", "-1"};
    struct http_opts o;
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        assert_null(guard(&o, nets[i], "", "", ""));
        guard_free(NULL, &o);
        assert_null(guard(&o, "", nets[i], "", ""));
        guard_free(NULL, &o);
    }
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        assert_null(guard(&o, "", "", hosts[i], ""));
        guard_free(NULL, &o);
    }
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        assert_null(guard(&o, "", "", "", ports[i]));
        guard_free(NULL, &o);
    }
}

static void hosts_and_ports_are_parsed_like_curl_does(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool asked, named;
    } rows[] = {{"http://hooks.example/", true, true},
                {"http://HOOKS.example./", true, true},
                {"https://a.b.shop.example:8443", true, true},
                {"http://shop.example/", false, false},
                {"http://xshop.example/", false, false},
                {"http://.shop.example/", false, false},
                {"http://hooks.example.evil/", false, false},
                {"http://hooks.example@evil/", false, false},
                {"http://evil%2f.shop.example/", false, false},
                {"http://evil?hooks.example", false, false},
                {"http://127.1/", true, true}, /* the same as 127.0.0.1 */
                {"http://2130706433:443/", true, true},
                {"http://[::1]/", true, true},
                {"http://hooks.example:22/", false, true},
                {"http://hooks.example:1024/", true, true},
                {"http://hooks.example:1023/", false, true}};
    struct http_opts o;
    struct http_guard *g =
        guard(&o, "", "", "hooks.example *.shop.example 127.0.0.1 [::1]", "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(!http_guard_url(g, HTTP_URL_MESSAGE, rows[i].url),
                         rows[i].asked);
        assert_int_equal(!http_guard_url(g, HTTP_URL_REDIRECT, rows[i].url),
                         rows[i].asked);
        assert_int_equal(!http_guard_url(g, HTTP_URL_ROUTE, rows[i].url), rows[i].named);
        assert_null(http_guard_url(g, HTTP_URL_CONFIG, rows[i].url));
    }
    assert_true(http_guard_lists_host(g, "http://x.shop.example:1/"));
    assert_false(http_guard_lists_host(g, "http://x.example:1/"));
    o.url_from_message = false;
    assert_non_null(
        strstr(http_guard_url(g, HTTP_URL_MESSAGE, rows[0].url), "url_from_message"));
    assert_null(http_guard_url(g, HTTP_URL_REDIRECT, rows[0].url));
    guard_free(g, &o);
    g = guard(&o, "", "", "", "8443 9000-9001");
    assert_false(http_guard_lists_host(g, "http://a/"));
    assert_non_null(http_guard_url(g, HTTP_URL_ROUTE, "https://a/"));
    assert_null(http_guard_url(g, HTTP_URL_ROUTE, "https://a:8443/"));
    assert_null(http_guard_url(g, HTTP_URL_MESSAGE, "https://a:9001/"));
    assert_non_null(http_guard_url(g, HTTP_URL_MESSAGE, "https://a:9002/"));
    guard_free(g, &o);
}

/* ------------------------------------------------------------------ signatures */

#define V1_KEY "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
/* Seed and public key of RFC 8032, 7.1, test 3. */
#define V1A_SEED "whsk_xaqN9D+fg3vtt0QvMdy3sWbThTUHbwlLhc46LgtEWPc="
#define V1A_PAIR                                                                         \
    "whsk_xaqN9D+"                                                                       \
    "fg3vtt0QvMdy3sWbThTUHbwlLhc46LgtEWPf8Uc2OYhiho42kftACMPBYCBbtE7ozA6xd65EVSJCAJQ=="

static const char *signed_by(const char *keys, const char *body)
{
    static char out[512];
    struct opt_list list = list_of(keys);
    struct err err;
    struct http_signer *s = http_signer_new(&list, &err);
    struct buf b = {0};
    assert_non_null(s);
    http_signer_add(s, SLICE_LIT("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                    slice_of(body), &b);
    assert_true(b.n < sizeof(out));
    strcpy(out, buf_str(&b));
    buf_free(&b);
    http_signer_free(s);
    list_free(&list);
    return out;
}

static void a_signature_is_that_of_the_specification(void **state)
{
    (void)state;
    static const char body[] = "{\"test\": 2432232314}";
    static const char v1[] = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    static const char v1a[] = "v1a,"
                              "CbWWbcW7B69jFUBICrevjm7uB16AqaX4X9zprrpWvW4012zWjiDpguw4L1"
                              "VnBIktLL4pyfhNhZgLFTYi5s10AA==";
    char both[256];
    assert_string_equal(signed_by(V1_KEY, body), v1);
    assert_string_equal(signed_by(V1A_SEED, body), v1a);
    assert_string_equal(signed_by(V1A_PAIR, body), v1a);
    snprintf(both, sizeof(both), "%s %s", v1a, v1);
    assert_string_equal(signed_by(V1A_SEED " " V1_KEY, body), both);
}

static void an_invalid_signing_key_is_rejected_and_not_shown(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_",
        "whsec_c2hvcnQ=", "whsec_!fKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_xapo38u3XB/0z0JLDV+dMjB+Xn7mmvBg3uLWlYAqD8DFqmjfy7dcH/"
        "TPQksNX50yMH5efuaa8GDe"
        "4taVgCoPwAA=",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whpk_xapo38u3XB/0z0JLDV+dMjB+Xn7mmvBg3uLWlYAqD8A=",
        /* two halves that do not match */
        "whsk_xapo38u3XB/0z0JLDV+dMjB+Xn7mmvBg3uLWlYAqD8DFqmjfy7dcH/"
        "TPQksNX50yMH5efuaa8GDe"
        "4taVgCoPwA=="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char keys[256], url[] = "http://a/", agent[] = "t";
        struct err err = {{0}};
        snprintf(keys, sizeof(keys), "%s %s", V1_KEY, bad[i]);
        struct http_opts o = {
            .url = url, .user_agent = agent, .signing_keys = list_of(keys)};
        assert_int_equal(http_opts_check(&o, &err), -1);
        assert_non_null(strstr(err.text, "signing_keys: key number 2 "));
        assert_null(strstr(err.text, "Mf"));
        assert_null(strstr(err.text, "xapo"));
        list_free(&o.signing_keys);
    }
}

/* ------------------------------------------------------------------ checks of options */

static void conflicting_options_of_the_sink_are_errors(void **state)
{
    (void)state;
    char agent[] = "t", proxy[] = "http://p:1", id_name[] = "Webhook-Id", value[] = "1";
    struct pair pair = {id_name, value};
    struct opt_list keys = list_of(V1_KEY), net = list_of("10.0.0.0/8");
    struct err err;
    struct http_opts o = {.user_agent = agent, .proxy = proxy};
    assert_int_equal(http_opts_check(&o, &err), 0);
    o.url_from_message = true;
    assert_int_equal(http_opts_check(&o, &err), -1);
    assert_non_null(strstr(err.text, "behind a proxy"));
    o.url_from_message = false;
    o.deny = net;
    assert_int_equal(http_opts_check(&o, &err), -1);
    o.proxy_guards = true;
    assert_int_equal(http_opts_check(&o, &err), 0);
    o = (struct http_opts){.user_agent = agent, .headers = {&pair, 1}};
    assert_int_equal(http_opts_check(&o, &err), 0);
    o.signing_keys = keys;
    assert_int_equal(http_opts_check(&o, &err), -1);
    assert_non_null(strstr(err.text, "together with signing_keys"));
    list_free(&keys);
    list_free(&net);
}

/* ------------------------------------------------------------------ URLs */

static void only_http_and_https_urls_are_accepted(void **state)
{
    (void)state;
    assert_true(http_is_url(slice_of("http://a/")));
    assert_true(http_is_url(slice_of("HTTPS://a")));
    assert_false(http_is_url(slice_of("http://")));
    assert_false(http_is_url(slice_of("ftp://a/")));
    assert_false(http_is_url(slice_of("a/b")));
    assert_false(http_is_url((struct slice){NULL, 0}));
    assert_false(http_is_url((struct slice){"http://a\0b", 10}));
}

static const char *sent_as(const char *url)
{
    static char out[256];
    struct buf b = {0};
    if (http_url_add(&b, slice_of(url)) < 0)
        return "none";
    assert_true(b.n < sizeof(out));
    strcpy(out, buf_str(&b));
    buf_free(&b);
    return out;
}

static void a_url_is_sent_so_that_it_cannot_end_the_request_line(void **state)
{
    (void)state;
    assert_string_equal(sent_as("http://a/b c?d e#f g"), "http://a/b%20c?d%20e");
    assert_string_equal(sent_as("http://a?x"), "http://a?x");
    assert_string_equal(sent_as("http://a/%2F/../b"), "http://a/%2F/../b");
    assert_string_equal(sent_as("http://a/\xc3\xa4?\xc3\xa4"),
                        "http://a/%C3%A4?\xc3\xa4");
    assert_string_equal(sent_as("http://a/\"\\"), "http://a/%22%5C");
    assert_string_equal(sent_as("http://a/b\r\nHost: c"), "none");
    assert_string_equal(sent_as("http://a/\x7f"), "none");
    assert_string_equal(sent_as("http:///a"), "none");
    assert_string_equal(sent_as("http://u@/a"), "none");
    assert_string_equal(sent_as("http://good\\@evil/"), "none");
    assert_string_equal(sent_as("http://a b/"), "none");
}

static bool same(const char *a, const char *b)
{
    return http_url_same_origin(slice_of(a), slice_of(b));
}

static void credentials_are_sent_only_to_the_same_origin(void **state)
{
    (void)state;
    assert_true(same("http://a/x", "HTTP://A:80/y"));
    assert_true(same("https://u:p@a:443", "https://a?z"));
    assert_false(same("http://a/", "https://a/"));
    assert_false(same("http://a/", "http://a:8080/"));
    assert_false(same("http://a/", "http://a@b/"));
    assert_false(same("http://a/", "http://a.b/"));
    assert_false(same("http://a/", "ftp://a/"));
    assert_false(same("http://a:180/", "http://a:1/"));
}

static void a_referer_contains_no_secrets_and_is_empty_from_https_to_http(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"http://u:p@a/b?c#d", "http://a:80/", "http://a/b?c"},
        {"http://u:p@a/b?c#d", "https://e/", "http://a/"},
        {"https://a:444?c", "https://a/", "https://a:444/"},
        {"https://a/b", "http://e/", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = {0};
        http_url_add_referer(&b, slice_of(rows[i][0]), slice_of(rows[i][1]));
        assert_string_equal(buf_str(&b), rows[i][2]);
        buf_free(&b);
    }
}

static void an_origin_is_the_url_up_to_the_path_without_secrets(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"http://a:80/b?c", "http://a"},     {"https://a:443", "https://a"},
        {"https://a:80#x", "https://a:80"},  {"http://[::1]:8080/", "http://[::1]:8080"},
        {"http://[::80]/", "http://[::80]"}, {"http://u:p@a:80/", "a"},
        {"orders/new", "orders/new"},        {"", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_true(slice_is(http_url_origin(slice_of(rows[i][0])), rows[i][1]));
}

static void only_code_100_in_the_body_counts_as_delivered(void **state)
{
    (void)state;
    static const char *const good[] = {"{\"code\":100}",
                                       " {\"a\":[1,{}],\"CODE\" : 100}\n",
                                       "{\"code\":1,\"Code\":100}"};
    static const char *const bad[] = {"",
                                      "null",
                                      "{}",
                                      "[]",
                                      "100",
                                      "{\"code\":\"100\"}",
                                      "{\"code\":100.0}",
                                      "{\"code\":101}",
                                      "{\"code\":100,\"CODE\":101}",
                                      "{\"code\":100}x",
                                      "{\"code\":100",
                                      "{\"code\":1e2}",
                                      "ok",
                                      "{\"code\":null}",
                                      "{\"code\":99999999999999999999}"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(http_is_code100(slice_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(http_is_code100(slice_of(bad[i])));
}

static void a_redirect_keeps_or_drops_the_body_by_its_status(void **state)
{
    (void)state;
    for (long status = 200; status < 600; status++) {
        enum http_redirect want = HTTP_NO_REDIRECT;
        if (status >= 301 && status <= 303)
            want = HTTP_AS_GET;
        else if (status == 307 || status == 308)
            want = HTTP_AS_IT_IS;
        assert_int_equal(http_status_redirect(status), want);
    }
}

static char authorization[] = "Authorization", bearer[] = "Bearer x", tarry[] = "tarry";
static struct pair authorized = {authorization, bearer};
static const struct http_opts usual = {
    .headers = {&authorized, 1}, .user_agent = tarry, .delay_headers = true};
static const struct http_hop first_hop = {0};

/* The header lines of a delivery, each followed by "|". */
static const char *lines_of(struct header *headers, unsigned n, struct slice key,
                            const struct http_opts *o, const struct http_hop *hop,
                            unsigned want_left_out)
{
    static char out[1024];
    struct job job = {.id = SLICE_LIT("t/0.1"), .key = key};
    struct delivery d = {.job = &job, .headers = headers, .header_count = n};
    struct http_lines lines = {0};
    assert_int_equal(http_lines_make(&lines, &d, o, hop), want_left_out);
    out[0] = 0;
    for (size_t i = 0; i < http_lines_count(&lines); i++)
        strcat(strcat(out, http_lines_at(&lines, i)), "|");
    http_lines_free(&lines);
    return out;
}

static void a_request_contains_the_headers_of_the_job_and_of_tarry(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("x-a"), SLICE_LIT("1")},
                         {SLICE_LIT("x-b"), SLICE_LIT("")}};
    assert_string_equal(lines_of(h, 2, SLICE_LIT("k"), &usual, &first_hop, 0),
                        "Authorization: Bearer x|x-a: 1|x-b;|User-Agent: tarry|"
                        "Content-Type: application/octet-stream|delay-key: k|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

static void a_job_cannot_set_transport_headers_or_break_the_framing(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("Content-Length"), SLICE_LIT("1")},
                         {SLICE_LIT("transfer-encoding"), SLICE_LIT("chunked")},
                         {SLICE_LIT("HOST"), SLICE_LIT("evil")},
                         {SLICE_LIT("authorization"), SLICE_LIT("theirs")},
                         {SLICE_LIT("a b"), SLICE_LIT("1")},
                         {SLICE_LIT("x"), SLICE_LIT("1\r\nHost: evil")},
                         {SLICE_LIT("content-type"), SLICE_LIT("text/plain")}};
    assert_string_equal(
        lines_of(h, 7, (struct slice){"\0", 1}, &usual, &first_hop, 3),
        "Authorization: Bearer x|content-type: text/plain|User-Agent: tarry|"
        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

static void delay_headers_false_omits_the_headers_of_tarry(void **state)
{
    (void)state;
    static char go[] = "Go-http-client/1.1";
    const struct http_opts o = {.user_agent = go};
    struct header h[] = {{SLICE_LIT("Content-Type"), SLICE_LIT("application/json")},
                         {SLICE_LIT("delay-id"), SLICE_LIT("i")},
                         {SLICE_LIT("Delay-Attempt"), SLICE_LIT("1")}};
    assert_string_equal(lines_of(h, 3, SLICE_LIT("k"), &o, &first_hop, 0),
                        "Content-Type: application/json|User-Agent: Go-http-client/1.1|"
                        "Accept:|Expect:|");
}

static void a_redirect_to_another_origin_carries_no_credentials(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("cookie"), SLICE_LIT("c")},
                         {SLICE_LIT("authorization"), SLICE_LIT("theirs")},
                         {SLICE_LIT("content-type"), SLICE_LIT("text/plain")},
                         {SLICE_LIT("x-a"), SLICE_LIT("1")}};
    const struct http_hop hop = {
        .without_body = true, .other_origin = true, .referer = SLICE_LIT("http://a/")};
    assert_string_equal(lines_of(h, 4, (struct slice){0}, &usual, &hop, 0),
                        "x-a: 1|User-Agent: tarry|webhook-id: t/0%2E1|"
                        "Referer: http://a/|Accept:|Expect:|");
    const struct http_hop near = {.without_body = true};
    assert_string_equal(lines_of(h, 4, (struct slice){0}, &usual, &near, 0),
                        "Authorization: Bearer x|cookie: c|x-a: 1|User-Agent: tarry|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

/* Otherwise curl would send it as a form. */
static void a_request_has_a_content_type_if_that_of_the_job_is_invalid(void **state)
{
    (void)state;
    static char name[] = "Content-Type", value[] = "text/csv";
    struct pair pair = {name, value};
    const struct http_opts o = {
        .user_agent = tarry, .headers = {&pair, 1}, .delay_headers = true};
    const struct http_hop foreign = {.other_origin = true};
    struct header bad[] = {{SLICE_LIT("content-type"), SLICE_LIT("a\r\nb")}};
    struct header good[] = {{SLICE_LIT("content-type"), SLICE_LIT("a/b")}};
    assert_string_equal(lines_of(bad, 1, (struct slice){0}, &usual, &foreign, 1),
                        "User-Agent: tarry|Content-Type: application/octet-stream|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
    assert_string_equal(lines_of(bad, 0, (struct slice){0}, &o, &foreign, 0),
                        "User-Agent: tarry|Content-Type: application/octet-stream|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
    assert_string_equal(lines_of(good, 1, (struct slice){0}, &o, &foreign, 0),
                        "content-type: a/b|User-Agent: tarry|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
    assert_string_equal(lines_of(good, 1, (struct slice){0}, &o, &first_hop, 0),
                        "Content-Type: text/csv|User-Agent: tarry|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

/* Three headers of a signed request come only from tarry; without a signature they are
 * ordinary headers. */
static void a_signed_request_has_no_webhook_header_of_the_job(void **state)
{
    (void)state;
    struct opt_list keys = list_of(V1_KEY);
    struct http_signer *signer = http_signer_new(&keys, NULL);
    struct header h[] = {{SLICE_LIT("Webhook-ID"), SLICE_LIT("theirs")},
                         {SLICE_LIT("webhook-signature"), SLICE_LIT("v1,x")},
                         {SLICE_LIT("webhook-timestamp"), SLICE_LIT("1")}};
    const struct http_opts o = {.user_agent = tarry};
    const struct http_hop hop = {.signer = signer, .now_s = 1614265330};
    const char *lines = lines_of(h, 3, (struct slice){0}, &o, &hop, 0);
    assert_string_equal(
        lines, "User-Agent: tarry|Content-Type: application/octet-stream|"
               "webhook-id: t/0%2E1|webhook-timestamp: 1614265330|"
               "webhook-signature: "
               "v1,sinRkcEMs3YVCbzylkgR0InYqX70t+c1B/+lutF+xY8=|Accept:|Expect:|");
    lines = lines_of(h, 3, (struct slice){0}, &o, &first_hop, 0);
    assert_string_equal(lines, "Webhook-ID: theirs|webhook-signature: v1,x|"
                               "webhook-timestamp: 1|User-Agent: tarry|"
                               "Content-Type: application/octet-stream|Accept:|Expect:|");
    http_signer_free(signer);
    list_free(&keys);
}

static void configured_headers_are_not_sent_to_unlisted_hosts(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("authorization"), SLICE_LIT("theirs")}};
    const struct http_hop hop = {.unlisted_host = true};
    assert_string_equal(lines_of(h, 1, (struct slice){0}, &usual, &hop, 0),
                        "authorization: theirs|User-Agent: tarry|"
                        "Content-Type: application/octet-stream|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

static void a_cloudevent_has_http_attribute_names(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("ce_id"), SLICE_LIT("1 \xc3\xa4%")},
                         {SLICE_LIT("ce_source"), SLICE_LIT("/s")},
                         {SLICE_LIT("ce_type"), SLICE_LIT("t")},
                         {SLICE_LIT("ce_specversion"), SLICE_LIT("1.0")},
                         {SLICE_LIT("traceparent"), SLICE_LIT("00-\" %-01")}};
    struct job job = {.id = SLICE_LIT("i"), .headers = h, .header_count = 5};
    struct delivery d = {.job = &job, .headers = h, .header_count = 5};
    static const char *const want[] = {"ce-id: 1%20%C3%A4%25", "ce-source: /s",
                                       "ce-type: t", "ce-specversion: 1.0",
                                       "traceparent: 00-\" %-01"};
    struct http_lines lines = {0};
    assert_int_equal(http_lines_make(&lines, &d, &usual, &first_hop), 0);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        assert_string_equal(http_lines_at(&lines, 1 + i), want[i]);
    job.header_count = 4; /* ce_id and others missing: no event */
    job.headers = h + 1;
    assert_int_equal(http_lines_make(&lines, &d, &usual, &first_hop), 0);
    assert_string_equal(http_lines_at(&lines, 2), "ce_source: /s");
    http_lines_free(&lines);
}

UNIT(http_sink)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_each_status_has_its_outcome),
        cmocka_unit_test(the_narrower_of_two_ranges_wins),
        cmocka_unit_test(a_code_in_two_lists_or_an_invalid_code_is_an_error),
        cmocka_unit_test(a_url_of_a_message_never_reaches_a_private_network),
        cmocka_unit_test(allow_overrides_deny_for_every_url),
        cmocka_unit_test(a_bad_network_host_or_port_is_an_error),
        cmocka_unit_test(hosts_and_ports_are_parsed_like_curl_does),
        cmocka_unit_test(a_signature_is_that_of_the_specification),
        cmocka_unit_test(an_invalid_signing_key_is_rejected_and_not_shown),
        cmocka_unit_test(conflicting_options_of_the_sink_are_errors),
        cmocka_unit_test(an_origin_is_the_url_up_to_the_path_without_secrets),
        cmocka_unit_test(a_signed_request_has_no_webhook_header_of_the_job),
        cmocka_unit_test(configured_headers_are_not_sent_to_unlisted_hosts),
        cmocka_unit_test(a_cloudevent_has_http_attribute_names),
        cmocka_unit_test(only_http_and_https_urls_are_accepted),
        cmocka_unit_test(a_url_is_sent_so_that_it_cannot_end_the_request_line),
        cmocka_unit_test(credentials_are_sent_only_to_the_same_origin),
        cmocka_unit_test(a_referer_contains_no_secrets_and_is_empty_from_https_to_http),
        cmocka_unit_test(only_code_100_in_the_body_counts_as_delivered),
        cmocka_unit_test(a_redirect_keeps_or_drops_the_body_by_its_status),
        cmocka_unit_test(a_request_contains_the_headers_of_the_job_and_of_tarry),
        cmocka_unit_test(delay_headers_false_omits_the_headers_of_tarry),
        cmocka_unit_test(a_redirect_to_another_origin_carries_no_credentials),
        cmocka_unit_test(a_request_has_a_content_type_if_that_of_the_job_is_invalid),
        cmocka_unit_test(a_job_cannot_set_transport_headers_or_break_the_framing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
