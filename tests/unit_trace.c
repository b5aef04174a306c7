/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_trace.c - the header traceparent (W3C Trace Context). */
#include "bridge/trace/trace.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static void a_valid_traceparent_is_read_and_written_unchanged(void **state)
{
    static const char *const good[] = {"00-" TRACE "-" SPAN "-01",
                                       "00-" TRACE "-" SPAN "-00",
                                       "00-00000000000000000000000000000001-" SPAN "-01"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct trace_context c;
        char text[TRACEPARENT_BYTES + 1];
        assert_int_equal(trace_context_read(slice_of(good[i]), &c), 0);
        trace_context_write(&c, text);
        assert_string_equal(text, good[i]);
    }
}

static void unknown_flags_and_later_versions_are_accepted(void **state)
{
    static const char *const good[] = {
        "00-" TRACE "-" SPAN "-ff", "01-" TRACE "-" SPAN "-03",
        "cc-" TRACE "-" SPAN "-01-what-the-future-will-be"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct trace_context c;
        assert_int_equal(trace_context_read(slice_of(good[i]), &c), 0);
        assert_true(c.sampled);
        assert_int_equal(c.trace[0], 0x4bf92f3577b34da6);
        assert_int_equal(c.trace[1], 0xa3ce929d0e0e4736);
        assert_int_equal(c.span, 0x00f067aa0ba902b7);
    }
}

static void an_invalid_traceparent_is_rejected(void **state)
{
    static const char *const bad[] = {"",
                                      "00",
                                      "00-" TRACE "-" SPAN "-0",
                                      "00-" TRACE "-" SPAN "-01-more",
                                      "00-" TRACE "-" SPAN "-011",
                                      "cc-" TRACE "-" SPAN "-01.more",
                                      "ff-" TRACE "-" SPAN "-01",
                                      "00-00000000000000000000000000000000-" SPAN "-01",
                                      "00-" TRACE "-0000000000000000-01",
                                      "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
                                      "00-" TRACE "_" SPAN "-01",
                                      "00-" TRACE "-" SPAN "-0x",
                                      "0x-" TRACE "-" SPAN "-01"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct trace_context c;
        assert_int_equal(trace_context_read(slice_of(bad[i]), &c), -1);
    }
    struct trace_context c;
    assert_int_equal(trace_context_read((struct slice){NULL, 0}, &c), -1);
}

UNIT(trace)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_traceparent_is_read_and_written_unchanged),
        cmocka_unit_test(unknown_flags_and_later_versions_are_accepted),
        cmocka_unit_test(an_invalid_traceparent_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
