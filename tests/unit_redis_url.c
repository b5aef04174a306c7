/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_redis_url.c - URLs of Redis, and the meaning of its error replies. */
#include "bridge/redis/redis.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
    } rows[] = {
        {"redis://localhost", {.host = (char *)"localhost", .port = (char *)"6379"}},
        {"redis://10.0.0.1:7000/12",
         {.host = (char *)"10.0.0.1", .port = (char *)"7000", .db = 12}},
        {"redis://h/", {.host = (char *)"h", .port = (char *)"6379"}},
        {"rediss://bob:s%40cret:x@[::1]:7/1",
         {.tls = true,
          .host = (char *)"::1",
          .port = (char *)"7",
          .user = (char *)"bob",
          .password = (char *)"s@cret:x",
          .db = 1}},
        {"redis://:p@ss/word@h",
         {.host = (char *)"h", .port = (char *)"6379", .password = (char *)"p@ss/word"}},
        {"unix:///run/r%20s@x.sock", {.unix_path = (char *)"/run/r s@x.sock"}},
        {"unix://u:p@/r.sock?db=3",
         {.unix_path = (char *)"/r.sock",
          .user = (char *)"u",
          .password = (char *)"p",
          .db = 3}},
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
        redis_url_free(&url);
    }
}

static void sentinels_and_clusters_are_lists_of_places(void **state)
{
    (void)state;
    const struct {
        const char *text;
        enum redis_kind kind;
        bool tls;
        const char *first, *last, *last_port;
        size_t count;
        const char *master, *user, *password;
        unsigned db;
    } rows[] = {
        {"redis+sentinel://s1/jobs", REDIS_SENTINEL, false, "s1", "s1", "26379", 1,
         "jobs", NULL, NULL, 0},
        {"rediss+sentinel://bob:p%2Cw,x@10.0.0.1:1,[fe80::2],s3:3/my%2Fjobs/7",
         REDIS_SENTINEL, true, "10.0.0.1", "s3", "3", 3, "my/jobs", "bob", "p,w,x", 7},
        {"REDIS+SENTINEL://:pw@s1,s2/jobs/", REDIS_SENTINEL, false, "s1", "s2", "26379",
         2, "jobs", NULL, "pw", 0},
        {"redis+cluster://a:7000,[::1]:7001", REDIS_CLUSTER, false, "a", "::1", "7001", 2,
         NULL, NULL, NULL, 0},
        {"rediss+cluster://u:p@a/0", REDIS_CLUSTER, true, "a", "a", "6379", 1, NULL, "u",
         "p", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_url parsed, url;
        struct err err;
        assert_int_equal(redis_url_parse(rows[i].text, &parsed, &err), 0);
        redis_url_copy(&parsed, &url);
        redis_url_free(&parsed);
        assert_int_equal(url.kind, rows[i].kind);
        assert_int_equal(url.tls, rows[i].tls);
        assert_null(url.host);
        assert_int_equal(url.place_count, rows[i].count);
        same(url.places[0].host, rows[i].first);
        same(url.places[url.place_count - 1].host, rows[i].last);
        same(url.places[url.place_count - 1].port, rows[i].last_port);
        same(url.master, rows[i].master);
        same(url.user, rows[i].user);
        same(url.password, rows[i].password);
        assert_int_equal(url.db, rows[i].db);
        redis_url_free(&url);
    }
}

static void an_error_names_the_missing_part(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"mysql://h", "redis+sentinel://"},
        {"redis+sentinel://a,b", "name of the master is missing"},
        {"redis+sentinel://a,b/", "name of the master is missing"},
        {"redis+sentinel://a,b//3", "name of the master is missing"},
        {"redis+sentinel://a,,b/m", "the host is missing"},
        {"redis+sentinel://a,/m", "the host is missing"},
        {"redis+sentinel:///m", "the host is missing"},
        {"redis+sentinel://a:x,b/m", "port"},
        {"redis+sentinel://a,[::1/m", "]"},
        {"redis+sentinel://a/m/db", "\"db\" is not the number of a database"},
        {"redis+sentinel://a/m/1/2", "not the number of a database"},
        {"redis+sentinel://a/m?db=1", "? and # are not allowed"},
        {"redis+sentinel://a/m%zz", "invalid %-escape"},
        {"redis+cluster://", "the host is missing"},
        {"redis+cluster://a,b/1", "only database 0"},
        {"redis+cluster://a,b/m", "not the number"},
        {"redis+cluster://a#1", "? and # are not allowed"},
        {"redis://a,b/0", "several hosts"},
        {"redis://a%20b/0", "a host may contain only letters"},
        {"redis://a%0d%0ab/0", "a host may contain only letters"},
        {"redis+cluster://a,b%01", "a host may contain only letters"},
        {"redis://a:1,b:2/0", "several hosts"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_url url;
        struct err err = {""};
        assert_int_equal(redis_url_parse(rows[i].text, &url, &err), -1);
        if (strstr(err.text, rows[i].part) == NULL)
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

static void at_most_64_places_may_be_named(void **state)
{
    (void)state;
    for (size_t count = 64; count <= 65; count++) {
        char text[256] = "redis+cluster://a";
        struct redis_url url;
        struct err err;
        for (size_t i = 1; i < count; i++)
            strcat(text, ",a");
        assert_int_equal(redis_url_parse(text, &url, &err), count > 64 ? -1 : 0);
        redis_url_free(&url);
    }
}

static void an_invalid_url_is_refused_and_no_password_is_shown(void **state)
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
        "redis+sentinel://:hunter2@h,h:x/jobs",
        "redis+sentinel://hunter2@h/jobs",
        "rediss+cluster://:hunter2@h/1",
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

static void an_error_reply_is_classified_by_its_first_words(void **state)
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
        {"FENCED the number of buckets of the route has changed", REDIS_FENCED},
        {"NOAUTH Authentication required.", REDIS_DENIED},
        {"WRONGPASS invalid username-password pair or user is disabled.", REDIS_DENIED},
        {"NOPERM this user has no permissions to run the 'get' command", REDIS_DENIED},
        {"ERR The user executing the script can't run this command or subcommand",
         REDIS_DENIED},
        {"ERR unknown command", REDIS_WRONG},
#define IN_6_2 "ERR Error running script (call to f_4e47): @user_script:41: "
        {IN_6_2
         "@user_script: 41: -READONLY You can't write against a read only replica.",
         REDIS_MOVED_AWAY},
        {IN_6_2
         "@user_script: 41: -OOM command not allowed when used memory > 'maxmemory'.",
         REDIS_FULL},
        {IN_6_2 "@user_script: 41: -NOREPLICAS Not enough good replicas to write.",
         REDIS_WAIT},
        {IN_6_2
         "@user_script: 41: The user executing the script can't run this command or "
         "subcommand",
         REDIS_DENIED},
        {IN_6_2 "WRONGTYPE Operation against a key holding the wrong kind of value",
         REDIS_WRONG},
        {IN_6_2, REDIS_WRONG},
        {IN_6_2 "@user_script", REDIS_WRONG},
        {"ERR @user_script: 1: -READONLY", REDIS_WRONG},
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

UNIT(redis_url)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(sentinels_and_clusters_are_lists_of_places),
        cmocka_unit_test(an_error_names_the_missing_part),
        cmocka_unit_test(at_most_64_places_may_be_named),
        cmocka_unit_test(an_invalid_url_is_refused_and_no_password_is_shown),
        cmocka_unit_test(an_error_reply_is_classified_by_its_first_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
