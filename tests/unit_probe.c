/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_probe.c - a server's information about itself, what it means for the options
 * durability and memory_mark, and the probe with a real server.
 */
#include "bridge/base/loop.h"
#include "bridge/redis/embedded.h"
#include "bridge/redis/redis_probe.h"
#include "tests/redis_server.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char info[] =
    "# Server\r\n"
    "redis_version:7.0.15\r\n"
    "# Memory\r\n"
    "used_memory:939320\r\n"
    "used_memory_human:917.30K\r\n"
    "maxmemory:104857600\r\n"
    "maxmemory_policy:allkeys-lru\r\n"
    "# Replication\r\n"
    "role:master\r\n"
    "connected_slaves:3\r\n"
    "slave0:ip=10.0.0.2,port=6379,state=online,offset=28,lag=0\r\n"
    "slave1:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\n"
    "slave2:ip=10.0.0.4,port=6379,state=online,offset=28,lag=1\r\n"
    "# Persistence\r\n"
    "aof_enabled:0\r\n";

static void info_is_read_line_by_line(void **state)
{
    (void)state;
    struct redis_facts facts;
    redis_facts_begin(&facts);
    assert_int_equal(facts.used_bytes, -1);
    assert_int_equal(facts.min_replicas, -1);
    redis_facts_info(&facts, slice_of(info));
    assert_string_equal(facts.version, "7.0.15");
    assert_int_equal(facts.used_bytes, 939320);
    assert_int_equal(facts.max_bytes, 104857600);
    assert_true(facts.evicts);
    assert_int_equal(facts.replicas, 2); /* one of the three is still syncing */
    assert_int_equal(facts.aof_enabled, 0);
    redis_facts_info(&facts,
                     slice_of("maxmemory_policy:noeviction\nconnected_slaves:0\n"));
    assert_false(facts.evicts);
    assert_int_equal(facts.replicas, 0);
}

static void an_invalid_info_reply_changes_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "\r\n",
        ":",
        "used_memory",
        "used_memory:\r\n",
        "used_memory:x",
        "used_memory:-1",
        "used_memory:99999999999999999999",
        "# used_memory:1",
        "redis_version",
        "\n\n\r\n:5",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_facts facts;
        redis_facts_begin(&facts);
        redis_facts_info(&facts, slice_of(rows[i]));
        assert_int_equal(facts.used_bytes, -1);
        assert_string_equal(facts.version, "");
    }
}

static void a_version_that_is_too_long_is_cut(void **state)
{
    (void)state;
    char text[300];
    struct redis_facts facts;
    snprintf(text, sizeof(text), "redis_version:%060d", 1);
    redis_facts_begin(&facts);
    redis_facts_info(&facts, slice_of(text));
    assert_int_equal(strlen(facts.version), sizeof(facts.version) - 1);
}

static void persistence_follows_from_the_configuration(void **state)
{
    (void)state;
    const struct {
        const char *appendonly, *appendfsync, *rewrite, *save; /* NULL: forbidden */
        const char *info;
        enum redis_persistence persistence;
    } rows[] = {
        {"no", "everysec", "no", "", "aof_enabled:0", PERSISTS_NOTHING},
        {"no", "always", "no", "3600 1 300 100", "aof_enabled:0", PERSISTS_SNAPSHOTS},
        {"yes", "everysec", "no", "3600 1", "aof_enabled:1", PERSISTS_EVERY_SECOND},
        {"yes", "no", "no", "", "aof_enabled:1", PERSISTS_EVERY_SECOND},
        {"yes", "always", "no", "", "aof_enabled:1", PERSISTS_EVERY_WRITE},
        {"yes", "always", "yes", "", "aof_enabled:1", PERSISTS_EVERY_SECOND},
        {NULL, NULL, NULL, NULL, "aof_enabled:1", PERSISTS_UNKNOWN},
        {NULL, NULL, NULL, NULL, "aof_enabled:0", PERSISTS_SNAPSHOTS},
        {NULL, NULL, NULL, NULL, "", PERSISTS_UNKNOWN},
        {"yes", NULL, NULL, NULL, "aof_enabled:1", PERSISTS_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_facts facts;
        redis_facts_begin(&facts);
        redis_facts_info(&facts, slice_of(rows[i].info));
        redis_facts_config(&facts, SLICE_LIT("appendonly"), slice_of(rows[i].appendonly));
        redis_facts_config(&facts, SLICE_LIT("appendfsync"),
                           slice_of(rows[i].appendfsync));
        redis_facts_config(&facts, SLICE_LIT("no-appendfsync-on-rewrite"),
                           slice_of(rows[i].rewrite));
        redis_facts_config(&facts, SLICE_LIT("save"), slice_of(rows[i].save));
        if (redis_facts_persistence(&facts) != rows[i].persistence)
            fail_msg("row %zu: %d", i, redis_facts_persistence(&facts));
    }
}

static void durability_is_one_of_three_forms(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "Async",      "replicas",
                                      "replicas:",  "replicas:0", "replicas:101",
                                      "replicas:x", "fsync ",     "replicas:-1"};
    struct durability d;
    struct err err;
    assert_int_equal(durability_parse("async", &d, &err), 0);
    assert_true(!d.fsync && d.replicas == 0);
    assert_int_equal(durability_parse("fsync", &d, &err), 0);
    assert_true(d.fsync && d.replicas == 0);
    assert_int_equal(durability_parse("replicas:2", &d, &err), 0);
    assert_true(!d.fsync && d.replicas == 2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(durability_parse(bad[i], &d, &err), -1);
        assert_non_null(strstr(err.text, "replicas:N"));
    }
}

static void a_memory_mark_is_a_share_or_a_size(void **state)
{
    (void)state;
    static const char *const bad[] = {"0%",  "101%", "%",  "x%",  "90",
                                      "1.5", "-5%",  "0B", "lots"};
    struct memory_mark m;
    struct err err;
    assert_int_equal(memory_mark_parse("", &m, &err), 0);
    assert_true(m.percent == 0 && m.bytes == 0);
    assert_int_equal(memory_mark_parse("90%", &m, &err), 0);
    assert_true(m.percent == 90 && m.bytes == 0);
    assert_int_equal(memory_mark_parse("512MiB", &m, &err), 0);
    assert_true(m.percent == 0 && m.bytes == 512 << 20);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (memory_mark_parse(bad[i], &m, &err) != -1)
            fail_msg("\"%s\" was taken", bad[i]);
}

static void a_passed_memory_limit_applies_until_five_percent_below(void **state)
{
    (void)state;
    const struct {
        const char *mark;
        int64_t used_bytes, max_bytes;
        bool was, passed;
    } rows[] = {
        {"90%", 900, 1000, false, false},  {"90%", 901, 1000, false, true},
        {"90%", 900, 1000, true, true},    {"90%", 856, 1000, true, true},
        {"90%", 855, 1000, true, false},   {"90%", 5000, 0, false, false},
        {"90%", 5000, 0, true, false},     {"90%", 5000, -1, false, false},
        {"90%", -1, 1000, true, false},    {"1000B", 1001, 0, false, true},
        {"1000B", 1000, 10, false, false}, {"", 1000, 10, true, false},
        {"1000B", -1, 10, true, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_facts facts = {.used_bytes = rows[i].used_bytes,
                                    .max_bytes = rows[i].max_bytes};
        struct memory_mark mark;
        struct err err;
        assert_int_equal(memory_mark_parse(rows[i].mark, &mark, &err), 0);
        if (memory_mark_passed(&mark, &facts, rows[i].was) != rows[i].passed)
            fail_msg("row %zu", i);
    }
}

static void fsync_is_refused_unless_redis_syncs_always(void **state)
{
    (void)state;
    const struct durability async = {0}, fsync_wanted = {.fsync = true};
    const struct {
        enum redis_persistence persistence;
        const char *part; /* NULL: it is sufficient */
    } rows[] = {
        {PERSISTS_EVERY_WRITE, NULL},
        {PERSISTS_EVERY_SECOND, "appendfsync always"},
        {PERSISTS_SNAPSHOTS, "appendonly yes"},
        {PERSISTS_NOTHING, "appendonly yes"},
        {PERSISTS_UNKNOWN, "+config|get"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_facts facts = {.persistence = rows[i].persistence};
        struct err err = {""};
        assert_int_equal(redis_facts_fit(&facts, &async, &err), 0);
        assert_int_equal(redis_facts_fit(&facts, &fsync_wanted, &err),
                         rows[i].part ? -1 : 0);
        if (rows[i].part)
            assert_non_null(strstr(err.text, rows[i].part));
    }
}

static void a_server_older_than_6_2_is_refused_and_both_versions_are_named(void **state)
{
    (void)state;
    const struct durability async = {0};
    const struct {
        const char *version;
        bool fits;
    } rows[] = {
        {"6.0.16", false}, {"5.0.7", false}, {"2.8.24", false},    {"6.1.242", false},
        {"6", false},      {"x", false},     {"6.2.0", true},      {"6.10.1", true},
        {"7.0.15", true},  {"8.0.2", true},  {"10.0.0-rc1", true}, {"255.255.255", true},
        {"", true}, /* INFO is forbidden */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_facts facts = {.persistence = PERSISTS_EVERY_WRITE};
        struct err err = {""};
        snprintf(facts.version, sizeof(facts.version), "%s", rows[i].version);
        assert_int_equal(redis_facts_fit(&facts, &async, &err), rows[i].fits ? 0 : -1);
        if (!rows[i].fits) {
            assert_non_null(strstr(err.text, rows[i].version));
            assert_non_null(strstr(err.text, "6.2"));
        }
    }
}

struct warnings {
    unsigned count, serious;
    char text[2048];
};

static void on_warning(void *arg, bool serious, const char *text)
{
    struct warnings *w = arg;
    w->count++;
    w->serious += serious;
    strncat(w->text, text, sizeof(w->text) - strlen(w->text) - 1);
}

static void settings_that_may_lose_jobs_are_reported(void **state)
{
    (void)state;
    const struct {
        struct redis_facts facts;
        unsigned wanted_replicas, count, serious;
        const char *part;
    } rows[] = {
        {{.persistence = PERSISTS_EVERY_SECOND, .min_replicas = 0}, 0, 0, 0, ""},
        {{.persistence = PERSISTS_UNKNOWN, .min_replicas = -1, .replicas = 2},
         2,
         0,
         0,
         ""},
        {{.persistence = PERSISTS_NOTHING}, 0, 1, 0, "only in memory"},
        {{.persistence = PERSISTS_SNAPSHOTS}, 0, 1, 0, "no append-only file"},
        {{.persistence = PERSISTS_EVERY_WRITE, .evicts = true}, 0, 1, 1, "may drop jobs"},
        {{.persistence = PERSISTS_EVERY_WRITE, .replicas = 1, .min_replicas = 1},
         2,
         1,
         0,
         "1 connected replicas"},
        {{.persistence = PERSISTS_EVERY_WRITE, .replicas = 1},
         0,
         1,
         0,
         "min-replicas-to-write"},
        {{.persistence = PERSISTS_NOTHING, .evicts = true, .replicas = 1}, 3, 4, 1, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct durability want = {.replicas = rows[i].wanted_replicas};
        struct warnings w = {0};
        redis_facts_judge(&rows[i].facts, &want, on_warning, &w);
        assert_int_equal(w.count, rows[i].count);
        assert_int_equal(w.serious, rows[i].serious);
        assert_non_null(strstr(w.text, rows[i].part));
    }
}

/* ------------------------------------------------------------------ a real server */

static char dir[] = "/tmp/tarry-unit-probe-XXXXXX";
static struct child *server;

struct asked {
    struct redis *redis;
    struct redis_facts facts;
    const char *then; /* a command in between, as words; NULL: none */
    unsigned probes, answered, lost;
    bool memory_only, over;
};

static void on_end(void *arg, int status)
{
    (void)arg;
    (void)status;
    server = NULL;
    loop_stop();
}

static void on_probed(void *arg, bool answered)
{
    struct asked *a = arg;
    a->answered += answered;
    a->lost += !answered;
    if (a->answered + a->lost == a->probes) {
        a->over = true;
        loop_stop();
    }
}

static void on_said(void *arg, const struct redisReply *reply)
{
    (void)arg;
    assert_null(redis_error_text(reply).p);
}

static void say(struct redis *r, const char *text)
{
    struct slice args[12];
    unsigned n = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        args[n++] = (struct slice){text, len};
        text += len + (text[len] == ' ');
    }
    redis_command(r, args, n, on_said, NULL);
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct asked *a = arg;
    (void)why;
    if (state != REDIS_UP || a->over)
        return;
    if (a->then)
        say(a->redis, a->then);
    redis_probe(a->redis, &a->facts, on_probed, a);
    a->probes = 1;
}

static void start_server(const char *const *more)
{
    const char *argv[24] = {redis_server(), "--port",     "0",      "--unixsocket",
                            "r.sock",       "--loglevel", "warning"};
    size_t n = 7;
    for (; more && *more; more++)
        argv[n++] = *more;
    const struct child_spec spec = {argv, NULL, dir, -1, true};
    struct err err;
    server = child_start(&spec, on_end, NULL, &err);
    assert_non_null(server);
}

static void ask(struct asked *a, const char *login)
{
    char url[200];
    struct err err;
    struct redis_conf conf = {.connect_timeout_ms = 2000,
                              .command_timeout_ms = 2000,
                              .backoff_first_ms = 5,
                              .backoff_max_ms = 50};
    snprintf(url, sizeof(url), "unix://%s%s/r.sock", login, dir);
    assert_int_equal(redis_url_parse(url, &conf.url, &err), 0);
    a->redis = redis_new(&conf, on_state, a);
    redis_url_free(&conf.url);
    while (!a->over)
        loop_run();
}

static int setup(void **state)
{
    (void)state;
    loop_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (server)
        child_kill(server, SIGKILL);
    while (server)
        loop_run();
    loop_fini();
    return 0;
}

static void a_real_server_is_read(void **state)
{
    (void)state;
    static const char *const more[] = {"--appendonly",
                                       "yes",
                                       "--appendfsync",
                                       "always",
                                       "--maxmemory",
                                       "100mb",
                                       "--min-replicas-to-write",
                                       "2",
                                       NULL};
    struct asked a = {0};
    start_server(more);
    ask(&a, "");
    assert_int_equal(a.answered, 1);
    assert_int_equal(a.facts.persistence, PERSISTS_EVERY_WRITE);
    assert_int_equal(a.facts.max_bytes, 100 << 20);
    assert_true(a.facts.used_bytes > 100000);
    assert_int_equal(a.facts.min_replicas, 2);
    assert_false(a.facts.evicts);
    assert_true(strchr(a.facts.version, '.') != NULL);
    int64_t before_bytes = a.facts.used_bytes;
    a.over = false;
    a.answered = 0;
    say(a.redis, "CONFIG SET min-replicas-to-write 0");
    say(a.redis, "SETRANGE big 5000000 x");
    say(a.redis, "CONFIG SET appendfsync no");
    redis_probe_usage(a.redis, &a.facts, on_probed, &a);
    while (!a.over)
        loop_run();
    assert_int_equal(a.answered, 1);
    assert_true(a.facts.used_bytes > before_bytes + 5000000);
    assert_int_equal(a.facts.persistence, PERSISTS_EVERY_WRITE); /* not read again */
    assert_int_equal(a.facts.min_replicas, 2);
    redis_free(a.redis);
}

static void without_config_get_the_probe_uses_info(void **state)
{
    (void)state;
    static const char *const more[] = {"--save", "",   "--user", "narrow",  "on", ">pw",
                                       "~*",     "&*", "+@all",  "-config", NULL};
    struct asked a = {0};
    start_server(more);
    ask(&a, "narrow:pw@");
    assert_int_equal(a.answered, 1);
    assert_int_equal(a.facts.persistence, PERSISTS_SNAPSHOTS);
    assert_int_equal(a.facts.min_replicas, -1);
    assert_int_equal(a.facts.max_bytes, 0);
    assert_true(a.facts.used_bytes > 0);
    redis_free(a.redis);
}

static void a_probe_ends_once_when_the_connection_does(void **state)
{
    (void)state;
    struct asked a = {0};
    start_server(NULL);
    ask(&a, "");
    a.over = false;
    a.answered = 0;
    redis_probe(a.redis, &a.facts, on_probed, &a);
    redis_probe_usage(a.redis, &a.facts, on_probed, &a);
    a.probes = 2;
    redis_free(a.redis);
    assert_int_equal(a.answered, 0);
    assert_int_equal(a.lost, 2);
}

UNIT(probe)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_is_read_line_by_line),
        cmocka_unit_test(an_invalid_info_reply_changes_nothing),
        cmocka_unit_test(a_version_that_is_too_long_is_cut),
        cmocka_unit_test(persistence_follows_from_the_configuration),
        cmocka_unit_test(durability_is_one_of_three_forms),
        cmocka_unit_test(a_memory_mark_is_a_share_or_a_size),
        cmocka_unit_test(a_passed_memory_limit_applies_until_five_percent_below),
        cmocka_unit_test(fsync_is_refused_unless_redis_syncs_always),
        cmocka_unit_test(a_server_older_than_6_2_is_refused_and_both_versions_are_named),
        cmocka_unit_test(settings_that_may_lose_jobs_are_reported),
        cmocka_unit_test_setup_teardown(a_real_server_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(without_config_get_the_probe_uses_info, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_probe_ends_once_when_the_connection_does, setup,
                                        teardown),
    };
    assert_non_null(mkdtemp(dir));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
