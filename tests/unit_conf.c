/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_conf.c - reads configurations: tests/conf/ contains valid and invalid ones, and
 * for the invalid ones the beginning of each expected error line. Runs in the top folder
 * of the tree.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "hunter2"

static char *file_text(const char *path)
{
    struct buf text = {0};
    FILE *in = fopen(path, "r");
    if (in == NULL)
        fail_msg("cannot open %s", path);
    while (!feof(in))
        buf_grew(&text, fread(buf_room(&text, 4096), 1, 4096, in));
    fclose(in);
    buf_str(&text);
    return text.p;
}

static struct conf *read_text(const char *text, struct buf *errors)
{
    char path[] = "/tmp/tarry-unit-conf.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    struct conf *conf = conf_read(path, errors);
    unlink(path);
    return conf;
}

/* Require that every line of the output begins like the same line of NAME.expected, and
 * that there are no more lines. */
static void refuses(const char *name)
{
    char path[100];
    struct buf errors = {0};

    snprintf(path, sizeof(path), "%s.conf", name);
    struct conf *conf = conf_read(path, &errors);
    assert_null(conf);
    snprintf(path, sizeof(path), "%s.expected", name);
    char *expected = file_text(path), *next = expected;
    const char *got = buf_str(&errors);
    while (*got != '\0' || *next != '\0') {
        char *want = strsep(&next, "\n");
        if (*want == '\0' || strncmp(got, want, strlen(want)) != 0)
            fail_msg("%s: wanted: %s\ngot: %s", path, want, got);
        got = strchr(got, '\n') + 1;
    }
    assert_null(strstr(buf_str(&errors), SECRET));
    free(expected);
    buf_free(&errors);
}

static void
errors_name_every_unknown_key_type_and_section_and_the_nearest_known(void **state)
{
    (void)state;
    refuses("unknown");
}

static void names_every_value_of_a_wrong_type(void **state)
{
    (void)state;
    refuses("types");
}

static void names_every_value_that_is_out_of_range(void **state)
{
    (void)state;
    refuses("ranges");
}

static void reports_every_redis_with_conflicting_address_and_durability(void **state)
{
    (void)state;
    refuses("redis");
}

static void reports_every_invalid_route_and_every_unused_source(void **state)
{
    (void)state;
    refuses("routes");
    refuses("nolistener");
}

static void a_schedule_that_is_wrong_or_missing_is_named(void **state)
{
    (void)state;
    refuses("schedules");
}

static void
a_compat_set_that_nobody_knows_and_a_pace_that_cannot_be_kept_are_named(void **state)
{
    (void)state;
    refuses("pace");
}

static void a_route_to_a_queue_accepts_no_delivery_options(void **state)
{
    (void)state;
    refuses("queues");
}

static void a_file_without_a_route_is_an_error(void **state)
{
    (void)state;
    refuses("empty");
}

static void a_syntax_error_has_its_line_in_whichever_file_it_is(void **state)
{
    (void)state;
    refuses("syntax");
    refuses("twice");
    refuses("unended");
    refuses("comment");
    refuses("included");
}

static void an_integer_that_libconfig_would_wrap_is_found_in_every_file(void **state)
{
    (void)state;
    refuses("integers");
}

static void
a_device_missing_file_or_circle_as_include_does_not_end_the_process(void **state)
{
    (void)state;
    refuses("include");
}

static void
folders_and_patterns_are_included_by_name_and_errors_say_which_file(void **state)
{
    (void)state;
    refuses("parts");
}

static void a_missing_secret_is_an_error_and_none_is_ever_shown(void **state)
{
    (void)state;
    refuses("secrets");
}

static void names_of_included_files_start_at_the_folder_of_the_main_one(void **state)
{
    (void)state;
    struct buf errors = {0};
    assert_null(conf_read("../conf/included.conf", &errors));
    assert_string_equal(buf_str(&errors),
                        "../conf/inc/syntax.conf:2: syntax error: b has no value; "
                        "write b = VALUE;\n");
    buf_free(&errors);
}

static void an_unreadable_file_is_an_error_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *path, *says;
    } cases[] = {
        {"none.conf", "none.conf: cannot read the file: No such file or directory\n"},
        {".", ".: cannot read the file: not a regular file\n"},
        {"/dev/zero", "/dev/zero: cannot read the file: not a regular file\n"},
        {"", ": cannot read the file: No such file or directory\n"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buf errors = {0};
        assert_null(conf_read(cases[i].path, &errors));
        assert_string_equal(buf_str(&errors), cases[i].says);
        buf_free(&errors);
    }
}

static struct conf *read_good(const char *path)
{
    struct buf errors = {0};
    struct conf *conf = conf_read(path, &errors);
    if (conf == NULL)
        fail_msg("%s", buf_str(&errors));
    assert_int_equal(errors.n, 0);
    buf_free(&errors);
    return conf;
}

static void a_good_file_fills_in_every_part(void **state)
{
    (void)state;
    struct conf *conf = read_good("good.conf");
    assert_string_equal(conf->file, "good.conf");
    assert_string_equal(conf->redis.url, "redis://:" SECRET "@127.0.0.1:6379/3");
    assert_int_equal(conf->redis.command_timeout_ms, 2000);
    assert_int_equal(conf->redis.connect_timeout_ms, 5000);
    assert_string_equal(conf->http.listen, "127.0.0.1:0");
    assert_int_equal(conf->http.body_max_bytes, 512 * 1024);
    assert_int_equal(conf->daemon.log_level, LOG_DEBUG);
    assert_int_equal(conf->daemon.queue_max_jobs, 5000000);
    assert_int_equal(conf->daemon.job_max_bytes, 1000000);
    assert_int_equal(conf->source_count, 3);
    assert_string_equal(conf->sources[0]->name, "orders_in");
    assert_string_equal(conf->sources[0]->ops->name, "kafka");
    assert_int_equal(conf->sources[0]->bare_unit, 2);
    assert_int_equal(conf->sources[0]->rename.n, 1);
    assert_string_equal(conf->sources[0]->rename.v[0].name, "deliver-after");
    assert_string_equal(conf->sources[0]->rename.v[0].value, "my-delay");
    assert_int_equal(conf->sink_count, 3);
    assert_int_equal(conf->sinks[0]->max_in_flight, 7);
    assert_string_equal(conf->sinks[2]->ops->name, "http");
    conf_free(conf);
}

static void routes_keep_the_order_of_the_file(void **state)
{
    (void)state;
    struct conf *conf = read_good("good.conf");
    assert_int_equal(conf->route_count, 4);
    struct conf_route *const *r = conf->routes;
    assert_string_equal(r[0]->name, "orders");
    assert_string_equal(r[0]->topic, "orders");
    assert_int_equal(r[0]->retry.list_count, 3);
    assert_int_equal(r[0]->retry.list_ms[2], 90000);
    assert_string_equal(r[1]->match, "a/+/#");
    assert_non_null(r[1]->retry.list_ms);
    assert_int_equal(r[1]->retry.list_count, 0);
    assert_int_equal(r[1]->lease_ms, 5000);
    assert_string_equal(r[2]->from.v[0], "http");
    assert_int_equal(r[2]->buckets, 16);
    assert_int_equal(r[2]->delay_ms, 3600000);
    assert_int_equal(r[2]->retry.limit, 0);
    assert_true(r[2]->retry.factor == 3);
    assert_string_equal(r[3]->dead_topic, "dead/{route}");
    conf_free(conf);
}

static void a_route_copies_the_schedule_that_it_names(void **state)
{
    (void)state;
    struct conf *conf = read_good("good.conf");
    const struct conf_route *r = conf->routes[3];
    const struct conf_schedule *slow = conf_find(conf, CONF_RETRIES, SLICE_LIT("slow"));
    const struct conf_schedule *quick = conf_find(conf, CONF_RETRIES, SLICE_LIT("quick"));
    const struct conf_schedule *once = conf_find(conf, CONF_RETRIES, SLICE_LIT("once"));
    assert_int_equal(conf->schedule_count, 3);
    assert_int_equal(r->retry.list_count, 3);
    assert_int_equal(r->retry.list_ms[2], 3600000);
    assert_ptr_not_equal(r->retry.list_ms, slow->policy.list_ms);
    assert_int_equal(quick->policy.limit, 3);
    assert_int_equal(once->policy.list_count, 0);
    assert_null(conf_find(conf, CONF_RETRIES, SLICE_LIT("slo")));
    assert_null(conf_find(conf, CONF_RETRIES, SLICE_LIT("slower")));
    assert_null(conf_find(conf, CONF_RETRIES, (struct slice){NULL, 0}));
    assert_int_equal(r->retry_allow.n, 2);
    assert_int_equal(r->attempts_max, 5);
    assert_int_equal(conf->routes[2]->retry.list_count,
                     0); /* the others have their own */
    conf_free(conf);
}

static void order_lateness_and_rate_of_a_route_are_read(void **state)
{
    (void)state;
    struct conf *conf = read_good("good.conf");
    const struct conf_route *r = conf->routes[3], *plain = conf->routes[0];
    assert_int_equal(r->order, ORDER_KEY);
    assert_int_equal(r->late, LATE_DROP);
    assert_int_equal(r->too_long, TOO_LONG_CLAMP);
    assert_true(r->rate == 0.5);
    assert_int_equal(r->burst, 2);
    assert_string_equal(r->to_allow.v[0], "more.*");
    assert_int_equal(plain->order, ORDER_NONE);
    assert_int_equal(plain->late, LATE_DEAD);
    assert_int_equal(plain->too_long, TOO_LONG_REJECT);
    assert_int_equal(plain->repeat_min_ms, 1000);
    assert_int_equal(plain->replays_max, 10);
    assert_true(plain->rate == 0 && plain->breaker == 0 && !plain->shared);
    conf_free(conf);
}

static void the_http_source_exists_by_default_if_a_listener_is_configured(void **state)
{
    (void)state;
    struct conf *conf = read_good("good.conf");
    assert_string_equal(conf->sources[2]->name, "http");
    assert_string_equal(conf->sources[2]->ops->name, "http");
    assert_non_null(conf->sources[2]->self);
    assert_int_equal(conf->sources[2]->bare_unit, 1); /* as set in http: { } */
    assert_int_equal(conf->sources[2]->compat.n, 2);
    conf_free(conf);
    struct buf errors = {0};
    conf = read_text("http: { listen = \"\"; compat = \"dapr\"; };"
                     "admin: { listen = \"\"; };"
                     "sources: { i: { type = \"mqtt\"; url = \"mqtt://127.0.0.1\";"
                     "               topics = \"t\"; }; };"
                     "sinks: { o: { type = \"mqtt\"; url = \"mqtt://127.0.0.1\"; }; };"
                     "routes: { r: { from = \"i\"; to = \"o\"; }; };",
                     &errors);
    assert_string_equal(buf_str(&errors), "");
    assert_int_equal(conf->source_count, 1);
    conf_free(conf);
    buf_free(&errors);
}

static void values_moved_to_an_instance_are_not_freed(void **state)
{
    (void)state;
    struct conf *conf = read_good("good.conf");
    const struct source_ops *ops = conf->sources[0]->ops;
    void *taken = conf->sources[0]->self;
    conf->sources[0]->self = NULL;
    conf_free(conf);
    opt_free(ops->opts, taken);
    free(taken);
    conf_free(NULL);
}

static void a_secret_file_loses_only_its_last_newline(void **state)
{
    (void)state;
    struct buf errors = {0};
    char path[] = "/tmp/tarry-unit-secret.XXXXXX", text[600];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "a $${b}\n\n", 9), 9);
    close(fd);
    snprintf(text, sizeof(text),
             "redis: { dir = \"x${file:%s}y\"; server = \"$${env:A}$\"; };"
             "sinks: { o: { type = \"mqtt\"; url = \"mqtt://127.0.0.1\"; }; };"
             "routes: { r: { from = \"http\"; to = \"o\"; }; };",
             path);
    struct conf *conf = read_text(text, &errors);
    unlink(path);
    assert_string_equal(buf_str(&errors), "");
    assert_string_equal(conf->redis.dir, "xa $${b}\ny");
    assert_string_equal(conf->redis.server, "${env:A}$");
    conf_free(conf);
    buf_free(&errors);
}

/* Returns whether the text contains "NAME = DEFAULT;", with quotes or without, commented
 * out or not. */
static bool shows(const char *text, const struct opt *row)
{
    struct buf line = {0};
    bool bare = row->type == OPT_LIST && row->def && *row->def && *row->def != '[';
    const char *before = row->type == OPT_RETRY ? ": " : bare ? " = [ \"" : " = ";
    bool quoted = row->def && (row->type <= OPT_SECRET || row->type == OPT_MS ||
                               row->type == OPT_BYTES || row->type == OPT_CHOICE);

    buf_addf(&line, " %s%s%s%s%s", row->name, before, quoted ? "\"" : "",
             row->def ? row->def : "", quoted ? "\";" : "");
    bool found = strstr(text, buf_str(&line)) != NULL;
    buf_free(&line);
    return found;
}

static void each_shown(const char *text, const char *where, const struct opt *rows)
{
    for (; rows->name != NULL; rows++)
        if (!shows(text, rows))
            fail_msg("etc/tarry.conf lacks %s.%s = %s", where, rows->name,
                     rows->def ? rows->def : "");
}

static void the_sample_is_good_and_shows_every_option_at_its_default(void **state)
{
    (void)state;
    struct conf_plugin plugin;
    char *text = file_text("../../etc/tarry.conf");
    conf_free(read_good("../../etc/tarry.conf"));
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        each_shown(text, s->name, s->rows);
    each_shown(text, "tokens", conf_token_rows);
    each_shown(text, "sources", conf_source_rows);
    each_shown(text, "sinks", conf_sink_rows);
    each_shown(text, "routes", conf_route_rows);
    for (size_t i = 0; conf_plugin(CONF_SOURCES, i, &plugin); i++)
        each_shown(text, plugin.name, plugin.opts);
    for (size_t i = 0; conf_plugin(CONF_SINKS, i, &plugin); i++)
        each_shown(text, plugin.name, plugin.opts);
    free(text);
}

static void the_list_of_options_names_every_section_and_plugin(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    conf_print_options(out);
    fclose(out);
    const char *const wanted[] = {
        "redis: { }",       "http: { }",
        "admin: { }",       "tokens: { NAME",
        "daemon: { }",      "retries: { NAME",
        "type = \"kafka\"", "type = \"mqtt\"",
        "routes: { NAME",   "sinks: { NAME: { type = \"http\"; } }"};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        assert_non_null(strstr(text, wanted[i]));
    free(text);
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static void any_damage_is_refused_or_read_but_never_crashes(void **state)
{
    (void)state;
    static const char signs[] = "{}[]();=:\"\\#/*@$.,-0123456789L \n\x01\xff";
    char *good = file_text("good.conf");
    size_t n = strlen(good);
    unsigned seed = 7;
    for (int round = 0; round < 1500; round++) {
        struct buf errors = {0};
        char *text = mem_strdup(good);
        for (unsigned k = next_random(&seed) % 4 + 1; k > 0; k--)
            text[next_random(&seed) % n] =
                signs[next_random(&seed) % (sizeof(signs) - 1)];
        if (round % 3 == 0)
            text[next_random(&seed) % n] = '\0';
        struct conf *conf = read_text(text, &errors);
        assert_true((conf == NULL) == (errors.n > 0));
        conf_free(conf);
        buf_free(&errors);
        free(text);
    }
    free(good);
}

UNIT(conf)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            errors_name_every_unknown_key_type_and_section_and_the_nearest_known),
        cmocka_unit_test(names_every_value_of_a_wrong_type),
        cmocka_unit_test(names_every_value_that_is_out_of_range),
        cmocka_unit_test(reports_every_redis_with_conflicting_address_and_durability),
        cmocka_unit_test(reports_every_invalid_route_and_every_unused_source),
        cmocka_unit_test(a_schedule_that_is_wrong_or_missing_is_named),
        cmocka_unit_test(
            a_compat_set_that_nobody_knows_and_a_pace_that_cannot_be_kept_are_named),
        cmocka_unit_test(a_route_to_a_queue_accepts_no_delivery_options),
        cmocka_unit_test(a_file_without_a_route_is_an_error),
        cmocka_unit_test(a_syntax_error_has_its_line_in_whichever_file_it_is),
        cmocka_unit_test(an_integer_that_libconfig_would_wrap_is_found_in_every_file),
        cmocka_unit_test(
            a_device_missing_file_or_circle_as_include_does_not_end_the_process),
        cmocka_unit_test(
            folders_and_patterns_are_included_by_name_and_errors_say_which_file),
        cmocka_unit_test(a_missing_secret_is_an_error_and_none_is_ever_shown),
        cmocka_unit_test(names_of_included_files_start_at_the_folder_of_the_main_one),
        cmocka_unit_test(an_unreadable_file_is_an_error_with_its_reason),
        cmocka_unit_test(a_good_file_fills_in_every_part),
        cmocka_unit_test(routes_keep_the_order_of_the_file),
        cmocka_unit_test(a_route_copies_the_schedule_that_it_names),
        cmocka_unit_test(order_lateness_and_rate_of_a_route_are_read),
        cmocka_unit_test(the_http_source_exists_by_default_if_a_listener_is_configured),
        cmocka_unit_test(values_moved_to_an_instance_are_not_freed),
        cmocka_unit_test(a_secret_file_loses_only_its_last_newline),
        cmocka_unit_test(the_sample_is_good_and_shows_every_option_at_its_default),
        cmocka_unit_test(the_list_of_options_names_every_section_and_plugin),
        cmocka_unit_test(any_damage_is_refused_or_read_but_never_crashes),
    };
    setenv("TARRY_TEST_SECRET", SECRET, 1);
    if (chdir("tests/conf") != 0) {
        perror("tests/conf: run this in the top folder of the tree");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
