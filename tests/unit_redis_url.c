/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_redis_url.c - URLs of Redis, and what its error replies mean.
 */
#include "bridge/redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

static void same(const char *got, const char *want)
{
    if (got && want)
        assert_string_equal(got, want);
    else
        assert_true(got == NULL && want == NULL);
}

static void every_form_is_understood(void **state)
{
    (void)state;
    const struct {
        const char *text;
        struct redis_url want;
        const char *shown;
    } rows[] = {
        {"redis://localhost",
         {.host = (char *)"localhost", .port = (char *)"6379"},
         "redis://localhost:6379/0"},
        {"redis://10.0.0.1:7000/12",
         {.host = (char *)"10.0.0.1", .port = (char *)"7000", .db = 12},
         "redis://10.0.0.1:7000/12"},
        {"redis://h/", {.host = (char *)"h", .port = (char *)"6379"}, "redis://h:6379/0"},
        {"rediss://bob:s%40cret:x@[::1]:7/1",
         {.tls = true,
          .host = (char *)"::1",
          .port = (char *)"7",
          .user = (char *)"bob",
          .password = (char *)"s@cret:x",
          .db = 1},
         "rediss://[::1]:7/1"},
        {"redis://:p@ss/word@h",
         {.host = (char *)"h", .port = (char *)"6379", .password = (char *)"p@ss/word"},
         "redis://h:6379/0"},
        {"unix:///run/r%20s@x.sock",
         {.unix_path = (char *)"/run/r s@x.sock"},
         "unix:///run/r s@x.sock"},
        {"unix://u:p@/r.sock?db=3",
         {.unix_path = (char *)"/r.sock",
          .user = (char *)"u",
          .password = (char *)"p",
          .db = 3},
         "unix:///r.sock?db=3"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_url url;
        struct err err;
        assert_int_equal(redis_url_parse(rows[i].text, &url, &err), 0);
        assert_int_equal(url.tls, rows[i].want.tls);
        assert_int_equal(url.db, rows[i].want.db);
        same(url.unix_path, rows[i].want.unix_path);
        same(url.host, rows[i].want.host);
        same(url.port, rows[i].want.port);
        same(url.user, rows[i].want.user);
        same(url.password, rows[i].want.password);
        char *shown = redis_url_shown(&url);
        assert_string_equal(shown, rows[i].shown);
        free(shown);
        redis_url_free(&url);
    }
}

static void what_is_wrong_is_refused_and_no_password_is_shown(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "localhost:6379",
        "http://:hunter2@h",
        "redis://",
        "redis://:hunter2@",
        "redis://:hunter2@:6379",
        "redis://:hunter2@h:0",
        "redis://:hunter2@h:65536",
        "redis://:hunter2@h:6379x",
        "redis://:hunter2@h/one",
        "redis://:hunter2@h/1/2",
        "redis://:hunter2@h/-1",
        "redis://:hunter2@h?db=1",
        "redis://:hunter2@[::1",
        "redis://:hunter2@[::1]x",
        "redis://hunter2@h",
        "redis://bob:@h",
        "redis://:hunter2%@h",
        "redis://:hunter2%0@h",
        "redis://:hunter2%00@h",
        "redis://:hunter2%zz@h",
        "redis+sentinel://:hunter2@h",
        "unix://:hunter2@path",
        "unix://path",
        "unix:///",
        "unix:///s?hunter=1",
        "unix:///s?db=x",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_url url;
        struct err err = {""};
        assert_int_equal(redis_url_parse(rows[i], &url, &err), -1);
        assert_non_null(strstr(err.text, "redis url: "));
        assert_null(strstr(err.text, "hunter2"));
    }
}

static void an_error_reply_is_judged_by_its_first_words(void **state)
{
    (void)state;
    const struct {
        const char *text;
        enum redis_error want;
    } rows[] = {
        {"NOSCRIPT No matching script.", REDIS_NO_SCRIPT},
        {"LOADING Redis is loading the dataset in memory", REDIS_WAIT},
        {"BUSY Redis is busy running a script.", REDIS_WAIT},
        {"BUSYKEY Target key name already exists.", REDIS_WRONG},
        {"NOREPLICAS Not enough good replicas to write. script: 0f", REDIS_WAIT},
        {"MISCONF Redis is configured to save RDB snapshots", REDIS_WAIT},
        {"CLUSTERDOWN The cluster is down", REDIS_WAIT},
        {"ERR max number of clients reached", REDIS_WAIT},
        {"OOM command not allowed when used memory > 'maxmemory'. script: a, on 1",
         REDIS_FULL},
        {"READONLY You can't write against a read only replica.", REDIS_MOVED_AWAY},
        {"MASTERDOWN Link with MASTER is down", REDIS_MOVED_AWAY},
        {"NOAUTH Authentication required.", REDIS_DENIED},
        {"WRONGPASS invalid username-password pair or user is disabled.", REDIS_DENIED},
        {"NOPERM this user has no permissions to run the 'get' command", REDIS_DENIED},
        {"ERR The user executing the script can't run this command or subcommand",
         REDIS_DENIED},
        {"ERR unknown command", REDIS_WRONG},
        {"WRONGTYPE Operation against a key", REDIS_WRONG},
        {"", REDIS_WRONG},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        redisReply reply = {.type = REDIS_REPLY_ERROR};
        reply.str = (char *)rows[i].text;
        reply.len = strlen(rows[i].text);
        assert_int_equal(redis_error(&reply), rows[i].want);
    }
    redisReply fine = {.type = REDIS_REPLY_STATUS};
    assert_int_equal(redis_error(&fine), REDIS_NO_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(what_is_wrong_is_refused_and_no_password_is_shown),
        cmocka_unit_test(an_error_reply_is_judged_by_its_first_words),
    };
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
