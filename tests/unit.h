/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit.h - the unit program: build/tests/unit contains the tests of all files
 * tests/unit_SUBJECT.c.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

typedef int unit_run(void);

/* Registers the tests of a subject. run returns the number of failed tests, or less than
 * 0. */
void unit_add(const char *subject, unit_run *run);

/* Starts the function that runs the tests of a subject: UNIT(job) { return
 * cmocka_run_...; } */
#define UNIT(subject)                                                                    \
    static int run_##subject(void);                                                      \
    __attribute__((constructor)) static void add_##subject(void)                         \
    {                                                                                    \
        unit_add(#subject, run_##subject);                                               \
    }                                                                                    \
    static int run_##subject(void)

/* As cmocka's assert_in_range(), which cmocka 2 has replaced. */
#define assert_within(value, low, high)                                                  \
    do {                                                                                 \
        const long long v_ = (value);                                                    \
        if (v_ < (low) || v_ > (high))                                                   \
            fail_msg("%s is %lld, outside of %s to %s", #value, v_, #low, #high);        \
    } while (0)

#endif
