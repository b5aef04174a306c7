/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_sentinel.c - which answer of several sentinels is used. */
#include "bridge/redis/redis.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* The answers of three sentinels at one time: "A5" is epoch 5 and address A, "-" no
 * answer. Then the resulting master, in the same form. */
struct moment {
    int64_t now_ms;
    const char *answers[3], *master;
};

static void expect(const struct moment *moments, size_t count)
{
    struct sentinel_master master = {.epoch = -1};
    for (size_t i = 0; i < count; i++) {
        const struct moment *m = &moments[i];
        struct sentinel_answer answers[3];
        char places[3][2] = {{0}};
        for (size_t k = 0; k < 3; k++) {
            bool none = m->answers[k][0] == '-';
            places[k][0] = m->answers[k][0];
            answers[k] =
                (struct sentinel_answer){none ? -1 : atoi(m->answers[k] + 1),
                                         none ? NULL : places[k], none ? NULL : "6379"};
        }
        int chosen = sentinel_choose(&master, answers, 3, m->now_ms);
        if (chosen >= 0)
            sentinel_master_set(&master, &answers[chosen]);
        if (m->master[0] == '-') {
            assert_null(master.host);
            continue;
        }
        assert_non_null(master.host);
        if (master.host[0] != m->master[0] || master.epoch != atoi(m->master + 1))
            fail_msg("moment %zu: %s%d and not %s", i, master.host, (int)master.epoch,
                     m->master);
    }
    sentinel_master_free(&master);
}
#define EXPECT(...)                                                                      \
    do {                                                                                 \
        const struct moment moments[] = {__VA_ARGS__};                                   \
        expect(moments, sizeof(moments) / sizeof(moments[0]));                           \
    } while (0)

static void the_newest_configuration_is_chosen(void **state)
{
    (void)state;
    EXPECT({1, {"-", "-", "-"}, "-"}, {2, {"-", "A0", "-"}, "A0"},
           {3, {"A0", "A0", "A0"}, "A0"}, {4, {"A0", "B1", "A0"}, "B1"},
           {5, {"B1", "B1", "A0"}, "B1"}, {6, {"C7", "B1", "B1"}, "C7"});
}

static void an_outdated_sentinel_is_ignored(void **state)
{
    (void)state;
    EXPECT({1, {"A0", "B3", "B3"}, "B3"}, {2, {"A0", "-", "-"}, "B3"},
           {60000, {"A0", "-", "-"}, "B3"}, {60001, {"-", "-", "-"}, "B3"},
           {60002, {"A0", "-", "B4"}, "B4"});
}

static void within_an_epoch_the_majority_of_sentinels_decides(void **state)
{
    (void)state;
    EXPECT({1, {"A5", "B5", "B5"}, "B5"}, {2, {"A5", "A5", "B5"}, "A5"},
           {3, {"A5", "-", "B5"}, "A5"}, {4, {"-", "-", "B5"}, "B5"},
           {5, {"A5", "-", "B5"}, "B5"});
}

static void
the_answers_of_sentinels_set_up_anew_are_accepted_after_ten_seconds(void **state)
{
    (void)state;
    EXPECT({1, {"A9", "A9", "A9"}, "A9"}, {1000, {"B0", "B0", "-"}, "A9"},
           {10999, {"B0", "B0", "-"}, "A9"}, {11000, {"B0", "B0", "-"}, "B0"},
           {12000, {"B0", "B0", "B0"}, "B0"});
}

static void ten_seconds_start_again_without_a_majority(void **state)
{
    (void)state;
    EXPECT({1, {"A9", "A9", "A9"}, "A9"}, {1000, {"B0", "B0", "-"}, "A9"},
           {6000, {"B0", "-", "-"}, "A9"}, {7000, {"B0", "B0", "-"}, "A9"},
           {11000, {"B0", "B0", "A9"}, "A9"}, {12000, {"B0", "B0", "-"}, "A9"},
           {21999, {"B0", "B0", "-"}, "A9"}, {22000, {"B0", "B0", "-"}, "B0"});
}

static void
a_sentinel_promotes_from_the_choice_of_a_replica_until_it_is_master(void **state)
{
    (void)state;
    static const struct {
        const char *state; /* NULL: no failover in progress */
        bool promotes;
    } rows[] = {{NULL, false},
                {"none", false},
                {"wait_start", false}, /* it is not elected, and may never be */
                {"select_slave", true},
                {"send_slaveof_noone", true},
                {"wait_promotion", true},
                {"reconf_slaves", false}, /* it names the new master */
                {"update_config", false},
                {"unknown", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(sentinel_is_promoting(slice_of(rows[i].state)),
                         rows[i].promotes);
}

UNIT(sentinel)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_configuration_is_chosen),
        cmocka_unit_test(an_outdated_sentinel_is_ignored),
        cmocka_unit_test(within_an_epoch_the_majority_of_sentinels_decides),
        cmocka_unit_test(
            the_answers_of_sentinels_set_up_anew_are_accepted_after_ten_seconds),
        cmocka_unit_test(ten_seconds_start_again_without_a_majority),
        cmocka_unit_test(
            a_sentinel_promotes_from_the_choice_of_a_replica_until_it_is_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
