/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_member_list.c - which live instance owns a bucket.
 */
#include "bridge/engine/membership.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { INSTANCES = 8, BUCKETS = 4000 };

static char texts[INSTANCES][64];
static struct slice members[INSTANCES];

static void name_instances(void)
{
    for (unsigned i = 0; i < INSTANCES; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%010x orders other", i * 2654435761u);
        members[i] = slice_of(texts[i]);
    }
}

static const char *id_of(unsigned i)
{
    static char id[11];
    snprintf(id, sizeof(id), "%.10s", texts[i]);
    return id;
}

/* Return the instance of rank 0. Checks that the ranks of all are 0, 1, 2... */
static unsigned owner(const struct member_list *list, unsigned n, const char *bucket)
{
    unsigned found = INSTANCES, sum = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned rank = member_list_rank(list, id_of(i), "orders", bucket);
        assert_true(rank < n);
        sum += 1u << rank;
        if (rank == 0)
            found = i;
    }
    assert_int_equal(sum, (1u << n) - 1);
    return found;
}

static void every_bucket_has_one_owner_and_an_order_of_successors(void **state)
{
    (void)state;
    struct member_list list = {0};
    unsigned owned[INSTANCES] = {0};
    name_instances();
    assert_true(member_list_set(&list, members, INSTANCES));
    for (unsigned b = 0; b < BUCKETS; b++) {
        char bucket[32];
        snprintf(bucket, sizeof(bucket), "orders/%u", b);
        owned[owner(&list, INSTANCES, bucket)]++;
    }
    for (unsigned i = 0; i < INSTANCES; i++) /* 500 each; five sigma are 105 */
        assert_within(owned[i], 395, 605);
    member_list_fini(&list);
}

static void a_leaving_member_moves_only_its_own_buckets(void **state)
{
    (void)state;
    struct member_list all = {0}, less = {0};
    unsigned inherited[INSTANCES] = {0};
    name_instances();
    member_list_set(&all, members, INSTANCES);
    member_list_set(&less, members, INSTANCES - 1);
    for (unsigned b = 0; b < BUCKETS; b++) {
        char bucket[32];
        snprintf(bucket, sizeof(bucket), "orders/%u", b);
        unsigned before = owner(&all, INSTANCES, bucket);
        unsigned after = owner(&less, INSTANCES - 1, bucket);
        if (before < INSTANCES - 1)
            assert_int_equal(after, before);
        else
            inherited[after]++;
    }
    for (unsigned i = 0; i < INSTANCES - 1; i++)
        assert_within(inherited[i], 25, 125); /* about a seventh of 500 each */
    member_list_fini(&all);
    member_list_fini(&less);
}

static void a_member_that_does_not_serve_a_route_owns_none_of_its_buckets(void **state)
{
    (void)state;
    static const struct slice some[] = {SLICE_LIT("a orders"), SLICE_LIT("b order"),
                                        SLICE_LIT("c"), SLICE_LIT("d x orders2 orders")};
    struct member_list list = {0};
    unsigned first = 0;
    member_list_set(&list, some, 4);
    for (unsigned b = 0; b < 100; b++) {
        char bucket[32];
        snprintf(bucket, sizeof(bucket), "orders/%u", b);
        unsigned a = member_list_rank(&list, "a", "orders", bucket);
        unsigned d = member_list_rank(&list, "d", "orders", bucket);
        assert_int_equal(a + d, 1);
        first += a == 0;
    }
    assert_within(first, 25, 75);
    member_list_fini(&list);
}

static void without_a_membership_list_no_member_has_precedence(void **state)
{
    (void)state;
    struct member_list list = {0};
    assert_int_equal(member_list_rank(&list, "a", "orders", "orders/0"), 0);
    assert_false(member_list_set(&list, NULL, 0));
    member_list_fini(&list);
}

static void a_membership_list_differs_if_any_part_differs(void **state)
{
    (void)state;
    static const struct slice one[] = {SLICE_LIT("a r"), SLICE_LIT("b r s")};
    static const struct slice two[] = {SLICE_LIT("a r"), SLICE_LIT("b r")};
    struct member_list list = {0};
    assert_true(member_list_set(&list, one, 2));
    assert_false(member_list_set(&list, one, 2));
    assert_true(member_list_set(&list, two, 2));
    assert_true(member_list_set(&list, two, 1));
    assert_int_equal(list.n, 1);
    assert_true(member_list_set(&list, two, 0));
    assert_int_equal(list.n, 0);
    member_list_fini(&list);
}

static void invalid_members_are_ignored(void **state)
{
    (void)state;
    static const struct slice mixed[] = {
        SLICE_LIT("a r"), SLICE_LIT("b"), SLICE_LIT(""), {NULL, 0}, SLICE_LIT(" r")};
    struct member_list list = {0};
    assert_true(member_list_set(&list, mixed, 5));
    assert_int_equal(list.n, 2);
    assert_true(slice_is(list.members[0].routes, "r"));
    assert_true(slice_is(list.members[1].routes, ""));
    member_list_fini(&list);
}

UNIT(member_list)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bucket_has_one_owner_and_an_order_of_successors),
        cmocka_unit_test(a_leaving_member_moves_only_its_own_buckets),
        cmocka_unit_test(a_member_that_does_not_serve_a_route_owns_none_of_its_buckets),
        cmocka_unit_test(without_a_membership_list_no_member_has_precedence),
        cmocka_unit_test(a_membership_list_differs_if_any_part_differs),
        cmocka_unit_test(invalid_members_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
