/* SPDX-License-Identifier: BSD-2-Clause */
/* A job's field of the :tries hash: read and written, from every version. */
#include "bridge/base/mem.h"
#include "bridge/job/tries.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_written_value_is_read_again(void **state)
{
    static const char *const texts[] = {
        "0||0/0/0|0|0|",
        "3||0/503/0|1700000000000|1700000060000|HTTP 503: a|b|c",
        "0|cancelled|0/0/0|0|0|",
        "2|paced|0/429/1|5|6|x",
        "7|undecodable|4/410/2|5|6|not a record",
    };
    struct buf text = {0};
    struct tries t;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        tries_parse(slice_of(texts[i]), &t);
        tries_format(&t, &text);
        assert_string_equal(buf_str(&text), texts[i]);
    }
    buf_free(&text);
}

static void each_field_is_where_it_belongs(void **state)
{
    struct tries t;
    (void)state;
    tries_parse(slice_of("7|rejected|4/410/2|5|6|gone"), &t);
    assert_int_equal(t.attempts, 7);
    assert_string_equal(t.reason, "rejected");
    assert_false(t.cancelled || t.paced);
    assert_int_equal(t.dead_tries, 4);
    assert_int_equal(t.status, 410);
    assert_int_equal(t.replays, 2);
    assert_int_equal(t.first_ms, 5);
    assert_int_equal(t.last_ms, 6);
    assert_string_equal(t.error, "gone");
    tries_parse(slice_of("1|cancelled|0/0/0|0|0|"), &t);
    assert_true(t.cancelled);
    assert_string_equal(t.reason, "");
    tries_parse(slice_of("1|paced|0/0/0|0|0|"), &t);
    assert_true(t.paced);
    assert_string_equal(t.reason, "");
}

static void an_entry_of_an_earlier_layout_is_read(void **state)
{
    struct tries t;
    (void)state;
    tries_parse(slice_of("2|retries|3|5|6|HTTP 500"), &t);
    assert_int_equal(t.attempts, 2);
    assert_int_equal(t.dead_tries, 3);
    assert_int_equal(t.status, 0);
    assert_int_equal(t.replays, 0);
    assert_int_equal(t.last_ms, 6);
    assert_string_equal(t.error, "HTTP 500");
}

static void an_invalid_record_counts_as_no_attempt(void **state)
{
    static const char *const texts[] = {"", "|", "5", "5||0/0/0|1|2", "||||"};
    struct tries t;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        tries_parse(slice_of(texts[i]), &t);
        assert_int_equal(t.attempts, 0);
        assert_string_equal(t.error, "");
    }
    tries_parse(slice_of("99999999999999999999|a-reason-that-is-too-long|//|-1|x|e"), &t);
    assert_int_equal(t.attempts, 1000000);
    assert_int_equal(strlen(t.reason), sizeof(t.reason) - 1);
    assert_int_equal(t.status + (int)t.dead_tries + (int)t.replays, 0);
    assert_int_equal(t.first_ms, 0);
}

static void every_reason_fits(void **state)
{
    struct buf text = {0};
    struct tries t = {0}, read;
    (void)state;
    for (int r = 0; r < REASONS; r++) {
        tries_set_reason(&t, reason_name((enum reason)r));
        tries_format(&t, &text);
        tries_parse(buf_slice(&text), &read);
        assert_string_equal(read.reason, reason_name((enum reason)r));
    }
    buf_free(&text);
}

static void attempts_survive_being_written_and_read(void **state)
{
    (void)state;
    struct tries t = {
        .attempts = 3, .dead_tries = 2, .first_ms = 1700000000000, .last_ms = 9};
    struct tries back;
    struct buf text = {0};
    tries_set_reason(&t, "rejected");
    tries_set_error(&t, "HTTP 418|tea\npot");
    tries_format(&t, &text);
    tries_parse(buf_slice(&text), &back);
    assert_int_equal(back.attempts, 3);
    assert_int_equal(back.dead_tries, 2);
    assert_int_equal(back.first_ms, 1700000000000);
    assert_string_equal(back.reason, "rejected");
    assert_string_equal(back.error, "HTTP 418|tea pot");
    buf_free(&text);
}

static void invalid_attempts_text_counts_as_no_attempts(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "3", "|||", "x|y|z", "\377\377"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct tries t;
        tries_parse(slice_of(texts[i]), &t);
        assert_int_equal(t.attempts, 0);
        assert_string_equal(t.reason, "");
    }
}

static void an_answer_is_stored_only_with_a_dead_letter(void **state)
{
    struct tries t = {.attempts = 1}, back;
    struct buf text = {0};
    (void)state;
    tries_set_error(&t, "HTTP 400");
    t.answer =
        tries_answer_new(SLICE_LIT("text/plain"), SLICE_LIT("upstream\n|exploded\n"));
    tries_format(&t, &text);
    assert_string_equal(buf_str(&text), "1||0/0/0|0|0|HTTP 400");
    tries_set_reason(&t, "rejected");
    tries_format(&t, &text);
    tries_parse(buf_slice(&text), &back);
    assert_string_equal(back.error, "HTTP 400");
    struct tries_answer *read = tries_parse_answer(buf_slice(&text));
    assert_string_equal(read->type, "text/plain");
    assert_string_equal(read->body, "upstream\n|exploded");
    assert_null(tries_answer_new(SLICE_LIT("text/plain"), SLICE_LIT("")));
    assert_null(tries_parse_answer(SLICE_LIT("1|rejected|0/0/0|0|0|HTTP 400")));
    free(t.answer);
    free(read);
    buf_free(&text);
}

static void secrets_and_invalid_bytes_of_an_answer_are_replaced(void **state)
{
    static const struct {
        struct slice body;
        const char *kept;
    } rows[] = {{SLICE_LIT("token=abcdef&x=1"), "token=***&x=1"},
                {SLICE_LIT("a\0b\r\n\tc\x1b[31m"), "a b \n\tc [31m"},
                {SLICE_LIT("caf\xc3\xa9 \xff\xfe\xc2\x85."), "caf\xc3\xa9 ?? ."}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tries_answer *a = tries_answer_new((struct slice){0}, rows[i].body);
        assert_string_equal(a->body, rows[i].kept);
        free(a);
    }
}

static void a_long_answer_is_cut_between_characters_and_behind_a_secret(void **state)
{
    char body[2000];
    (void)state;
    for (size_t i = 0; i < sizeof(body); i += 2)
        memcpy(body + i, "\xc3\xa9", 2);
    body[0] = 'x';
    body[1] = 'y';
    struct tries_answer *a =
        tries_answer_new((struct slice){0}, (struct slice){body + 1, sizeof(body) - 1});
    assert_int_equal(strlen(a->body), TRIES_ANSWER_MAX - 1);
    free(a);
    memset(body, 'x', sizeof(body));
    memcpy(body + TRIES_ANSWER_MAX - 12, " token=", 7);
    a = tries_answer_new((struct slice){0}, (struct slice){body, sizeof(body)});
    assert_string_equal(a->body + TRIES_ANSWER_MAX - 12, " token=***");
    free(a);
}

UNIT(tries)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_survive_being_written_and_read),
        cmocka_unit_test(invalid_attempts_text_counts_as_no_attempts),
        cmocka_unit_test(a_written_value_is_read_again),
        cmocka_unit_test(each_field_is_where_it_belongs),
        cmocka_unit_test(an_entry_of_an_earlier_layout_is_read),
        cmocka_unit_test(an_invalid_record_counts_as_no_attempt),
        cmocka_unit_test(every_reason_fits),
        cmocka_unit_test(an_answer_is_stored_only_with_a_dead_letter),
        cmocka_unit_test(secrets_and_invalid_bytes_of_an_answer_are_replaced),
        cmocka_unit_test(a_long_answer_is_cut_between_characters_and_behind_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
