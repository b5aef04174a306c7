/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_conf_diff.c - a reload detects every changed option, and knows which of them a
 * running daemon can apply.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf_internal.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char file[] = "/tmp/tarry-unit-XXXXXX";

static struct conf *read_text(const char *text)
{
    struct buf errors = {0};
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    struct conf *conf = conf_read(file, &errors);
    if (conf == NULL)
        fail_msg("%s", buf_str(&errors));
    buf_free(&errors);
    return conf;
}

#define SINKS                                                                            \
    "sinks: { out: { type = \"kafka\"; brokers = \"k:1\"; %s };\n"                       \
    "q: { type = \"queue\"; %s }; };\n"
#define ROUTES "routes: { r: { from = \"http\"; to = \"out\"; topic = \"t\"; %s }; };\n"

static struct conf *made(const char *top, const char *out, const char *queue,
                         const char *route)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s\n" SINKS ROUTES, top, out, queue, route);
    return read_text(text);
}

/* Change the field of a row to another value. */
static void disturb(const struct opt *row, void *self)
{
    static const struct opt_value word = {.kind = OPT_IS_STR, .str = "else"};
    static const struct opt_value many = {
        .kind = OPT_IS_LIST, .item = &word, .count = 1, .str = ""};
    static const struct opt_value named = {.kind = OPT_IS_STR, .str = "x", .name = "n"};
    static const struct opt_value pairs = {
        .kind = OPT_IS_GROUP, .item = &named, .count = 1};
    char *field = (char *)self + row->offset;
    struct err err;
    switch (row->type) {
    case OPT_STR:
    case OPT_FILE:
    case OPT_KEY_FILE:
    case OPT_SECRET:
        assert_int_equal(opt_set(row, self, &word, &err), 0);
        return;
    case OPT_LIST:
        assert_int_equal(opt_set(row, self, &many, &err), 0);
        return;
    case OPT_PAIRS:
        assert_int_equal(opt_set(row, self, &pairs, &err), 0);
        return;
    case OPT_RETRY: {
        static const struct opt_value never = {.kind = OPT_IS_STR, .str = "never"};
        assert_int_equal(opt_set(row, self, &never, &err), 0);
        return;
    }
    case OPT_BOOL:
        *(bool *)field = !*(bool *)field;
        return;
    case OPT_CHOICE:
        *(int *)field += 1;
        return;
    case OPT_REAL:
        *(double *)field += 0.5;
        return;
    case OPT_INT:
    case OPT_MS:
    case OPT_BYTES:
        *(int64_t *)field += 1;
        return;
    }
}

static void every_option_of_a_route_that_differs_is_named(void **state)
{
    (void)state;
    struct conf *a = made("", "", "", ""), *b = made("", "", "", "");
    struct conf_diff d = {0};
    assert_int_equal(conf_diff_route(a->routes[0], b->routes[0], &d), CONF_SAME);
    assert_string_equal(buf_str(&d.changed), "");
    for (const struct opt *row = conf_route_rows; row->name; row++) {
        char wanted[128];
        struct conf *c = made("", "", "", "");
        disturb(row, c->routes[0]);
        buf_clear(&d.changed);
        assert_int_equal(conf_diff_route(a->routes[0], c->routes[0], &d), CONF_SOFT);
        snprintf(wanted, sizeof(wanted), "routes.r.%s\n", row->name);
        assert_string_equal(buf_str(&d.changed), wanted);
        conf_free(c);
    }
    conf_diff_free(&d);
    conf_free(a);
    conf_free(b);
}

/* An option that the table of conf_diff.c does not contain requires a restart. */
static void every_option_of_a_section_counts_at_once_or_is_refused_by_name(void **state)
{
    (void)state;
    struct conf *a = made("", "", "", "");
    unsigned at_once = 0, refused = 0;
    for (const struct conf_section *s = conf_sections; s->name; s++)
        for (const struct opt *row = s->rows; row->name; row++) {
            struct conf *c = made("", "", "", "");
            struct conf_diff d = {0};
            char wanted[128];
            disturb(row, (char *)c + s->offset);
            conf_diff_sections(a, c, &d);
            snprintf(wanted, sizeof(wanted), "%s.%s", s->name, row->name);
            assert_memory_equal(buf_str(&d.changed), wanted, strlen(wanted));
            if (d.refused.n > 0)
                assert_memory_equal(buf_str(&d.refused), wanted, strlen(wanted));
            if (strcmp(s->name, "redis") == 0)
                assert_true(d.refused.n > 0);
            *(d.refused.n > 0 ? &refused : &at_once) += 1;
            conf_diff_free(&d);
            conf_free(c);
        }
    assert_true(at_once >= 15 && refused >= 20);
    conf_free(a);
}

static const struct {
    const char *top, *out, *queue, *changed, *refused;
    enum conf_change sink, of_queue;
} cases[] = {
    {"", "", "", "", "", CONF_SAME, CONF_SAME},
    {"", "linger = \"5ms\";", "", "sinks.out.linger\n", "", CONF_HARD, CONF_SAME},
    {"", "max_in_flight = 7;", "", "sinks.out.max_in_flight\n", "", CONF_HARD, CONF_SAME},
    {"", "", "tries = 7;", "sinks.q.tries\n", "", CONF_SAME, CONF_SOFT},
    {"", "", "global_ids = true;", "sinks.q.global_ids\n", "sinks.q.global_ids",
     CONF_SAME, CONF_SOFT},
    {"daemon: { log = \"warn\"; };", "", "", "daemon.log\n", "", CONF_SAME, CONF_SAME},
    {"http: { idle = \"5s\"; };", "", "", "http.idle\n", "", CONF_SAME, CONF_SAME},
    {"http: { listen = \":1\"; };", "", "", "http.listen\n", "http.listen", CONF_SAME,
     CONF_SAME},
    {"pools: { p: { prefix = \"p\"; }; };", "", "", "", "pools.p", CONF_SAME, CONF_SAME},
    {"retries: { slow = [ \"1m\" ]; };", "", "", "retries.slow (added)\n", "", CONF_SAME,
     CONF_SAME},
};

static void parts_restart_only_if_required(void **state)
{
    (void)state;
    struct conf *a = made("", "", "", "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct conf *c = made(cases[i].top, cases[i].out, cases[i].queue, "");
        struct conf_diff d = {0};
        conf_diff_sections(a, c, &d);
        assert_int_equal(conf_diff_sink(a->sinks[0], c->sinks[0], &d), cases[i].sink);
        assert_int_equal(conf_diff_sink(a->sinks[1], c->sinks[1], &d), cases[i].of_queue);
        assert_string_equal(buf_str(&d.changed), cases[i].changed);
        assert_memory_equal(buf_str(&d.refused), cases[i].refused,
                            strlen(cases[i].refused));
        assert_int_equal(d.refused.n > 0, *cases[i].refused != '\0');
        conf_diff_free(&d);
        conf_free(c);
    }
    conf_free(a);
}

static void without_a_listener_only_the_option_listen_counts(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is, *refused;
    } sections[] = {
        {"admin: { listen = \"http\"; };",
         "admin: { listen = \"http\"; head_max = \"9KiB\"; };", ""},
        {"admin: { listen = \"\"; };", "admin: { listen = \"\"; idle = \"9s\"; };", ""},
        {"http: { listen = \"\"; };", "http: { listen = \"\"; connections_max = 7; };",
         ""},
        {"admin: { listen = \"http\"; };", "admin: { listen = \"\"; };", "admin.listen"},
        {"admin: { listen = \":1\"; };",
         "admin: { listen = \":1\"; head_max = \"9KiB\"; };", "admin.head_max"},
    };
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        struct conf *a = made(sections[i].was, "", "", "");
        struct conf *b = made(sections[i].is, "", "", "");
        const char *refused = sections[i].refused;
        struct conf_diff d = {0};
        conf_diff_sections(a, b, &d);
        assert_memory_equal(buf_str(&d.refused), refused, strlen(refused));
        assert_int_equal(d.refused.n > 0, *refused != '\0');
        assert_int_equal(d.changed.n > 0, *refused != '\0');
        conf_diff_free(&d);
        conf_free(a);
        conf_free(b);
    }
}

static void a_changed_certificate_replaces_the_sink(void **state)
{
    (void)state;
    struct conf *a = made("", "", "", ""), *b = made("", "", "", "");
    struct conf_diff d = {0};
    b->sinks[0]->files = a->sinks[0]->files + 1;
    assert_int_equal(conf_diff_sink(a->sinks[0], b->sinks[0], &d), CONF_HARD);
    assert_string_equal(buf_str(&d.changed), "sinks.out (its files)\n");
    conf_diff_free(&d);
    conf_free(a);
    conf_free(b);
}

static void exchanged_fields_own_the_exchanged_memory(void **state)
{
    (void)state;
    struct conf *a =
        made("", "", "", "retry = [ \"1s\", \"2s\" ]; to_allow = [ \"x\" ];");
    struct conf_route other = {0};
    opt_defaults(conf_route_rows, &other);
    opt_exchange(conf_route_rows, a->routes[0], &other);
    assert_string_equal(other.to, "out");
    assert_int_equal(other.retry.list_count, 2);
    assert_null(a->routes[0]->to);
    opt_free(conf_route_rows, &other);
    conf_free(a);
}

static void a_part_in_use_outlives_its_configuration(void **state)
{
    (void)state;
    struct conf *conf = made("", "", "", "");
    struct conf_sink *sink = conf->sinks[0];
    struct conf_route *route = conf->routes[0];
    sink->users++;
    route->users++;
    conf_free(conf);
    assert_string_equal(route->to, sink->name);
    assert_non_null(sink->self);
    conf_part_free(CONF_ROUTES, route);
    conf_part_free(CONF_SINKS, sink);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(file);
}

UNIT(conf_diff)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_of_a_route_that_differs_is_named),
        cmocka_unit_test(every_option_of_a_section_counts_at_once_or_is_refused_by_name),
        cmocka_unit_test(parts_restart_only_if_required),
        cmocka_unit_test(without_a_listener_only_the_option_listen_counts),
        cmocka_unit_test(a_changed_certificate_replaces_the_sink),
        cmocka_unit_test(exchanged_fields_own_the_exchanged_memory),
        cmocka_unit_test(a_part_in_use_outlives_its_configuration),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
