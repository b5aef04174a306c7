/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_kafka_part.c - a partition that must be read again, for two reasons at once, and
 * while a query to Redis is in flight. No librdkafka handle; Redis is the fake one.
 */
#include "bridge/engine/bridge.h"
#include "sources/kafka/kafka_marks.h"
#include "tests/fake_redis.h"
#include "tests/batcher_rig.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    BACKOFF_MS = 1500 /* more than that of the second rewind in a row */,
    LIMIT_MS = 10000
};

static struct {
    struct conf_source conf;
    struct bridge bridge;
    struct source src;
    struct kafka_parts parts;
    struct buf written; /* "FIELD=VALUE " of each HSET */
    unsigned writes;
} kafka;

static bool judge(const struct fake_command *c, struct buf *lines)
{
    if (!slice_is(c->word[0], "HSET"))
        return true;
    kafka.writes++;
    for (size_t i = 2; i + 1 < c->n; i += 2)
        buf_addf(&kafka.written, "%.*s=%.*s ", SLICE_ARG(c->word[i]),
                 SLICE_ARG(c->word[i + 1]));
    buf_add_str(lines, ":1\n");
    return true;
}

static int begin(void **state)
{
    static char name[] = "in";
    (void)state;
    rig_start(64, 0);
    memset(&kafka, 0, sizeof(kafka));
    fake.on_command = judge;
    kafka.conf.name = name;
    kafka.bridge.store = rig.store;
    kafka.src.bridge = &kafka.bridge;
    kafka.src.conf = &kafka.conf;
    kafka_parts_init(&kafka.parts, &kafka.src, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    while (!TAILQ_EMPTY(&kafka.parts.list))
        kafka_part_drop(TAILQ_FIRST(&kafka.parts.list));
    rig_stop();
    buf_free(&kafka.written);
    return 0;
}

/* Return partition t/0, whose reading is known, started at that offset. */
static struct kafka_part *part_at(int64_t start, int64_t mark)
{
    struct kafka_part *part = kafka_part_add(&kafka.parts, "t", 0, start, mark);
    part->reading_known = true;
    return part;
}

static void run_ms(int64_t ms)
{
    const int64_t end_ms = loop_mono_ms() + ms;
    while (loop_mono_ms() < end_ms) {
        timer_set(rig.limit, 10);
        loop_run();
    }
}

/* Run until it may be read. */
static bool goes_on(const struct kafka_part *part)
{
    const int64_t end_ms = loop_mono_ms() + LIMIT_MS;
    while (part->pauses && loop_mono_ms() < end_ms)
        run_ms(10);
    return part->pauses == 0;
}

static void store_at(struct kafka_part *part, int64_t offset, int64_t stamp_ms)
{
    struct kafka_read *read = kafka_part_read(part, offset, stamp_ms);
    assert_non_null(read);
    kafka_part_answer(read, true);
}

static void store(struct kafka_part *part, int64_t offset)
{
    store_at(part, offset, 0);
}

static void rewind_seeks_when_redis_has_the_next_reading(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    store(part, 100);
    kafka_part_rewind(part, "r:1", 40);
    assert_null(kafka_part_read(part, 101, 0));
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 40);
    assert_string_equal(part->rewinds_done, "r:1");
    assert_string_equal(buf_str(&kafka.written), "reading t/0=0 r:1 t/0=40 ");
}

static void answer_for_an_earlier_partition_of_the_same_name_is_ignored(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    kafka_part_rewind(part, "r:1", 40);
    rig.pause_at = NULL;
    fake.paused = true;
    assert_true(rig_wait_for(&kafka.writes, 1));
    part = part_at(70, 70); /* the group had lost it, and assigned it again */
    struct kafka_read *read = kafka_part_read(part, 70, 0);
    fake_resume();
    run_ms(100);
    assert_int_equal(kafka.parts.open_requests, 0);
    assert_string_equal(part->rewinds_done, "");
    assert_int_equal(part->mark, 70);
    kafka_part_answer(read, true);
}

static void rewind_that_is_due_while_another_ends_happens_once(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    kafka_part_rewind(part, "r:1", 40);
    fake.paused = true;
    assert_true(rig_wait_for(&kafka.writes, 1));
    kafka_part_rewind_to_mark(part, 60); /* Redis was down: this starts the timer again */
    fake_resume();
    assert_true(goes_on(part));
    struct kafka_read *read = kafka_part_read(part, 40, 0);
    run_ms(BACKOFF_MS); /* a rewind with an open record would abort */
    assert_int_equal(part->offsets.position, 41);
    kafka_part_answer(read, true);
}

static void partition_without_a_mark_starts_at_its_last_rewind(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    kafka_part_rewind(part, "r:1", 40);
    assert_true(goes_on(part));
    for (int64_t offset = 40; offset < 50; offset++)
        store(part, offset);
    kafka_part_rewind_to_mark(part, -1);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 40);
}

static void rewind_waits_while_redis_is_asked_for_the_marks(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    kafka_part_rewind(part, "r:1", 40);
    kafka_parts_pause(&kafka.parts, part, PAUSE_MARKS);
    run_ms(BACKOFF_MS);
    assert_int_equal(kafka.writes, 0);
    assert_int_equal(part->offsets.position, 100);
    kafka_parts_resume(&kafka.parts, part, PAUSE_MARKS);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 40);
}

static void
rewind_that_is_only_noted_waits_for_the_open_record_and_no_longer(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    struct kafka_read *read = kafka_part_read(part, 100, 0);
    kafka_part_rewind(part, "r:1", -1);
    run_ms(100);
    kafka_part_answer(read, true);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 101);
}

static void topic_that_is_missing_is_read_again_from_its_last_record(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    for (int64_t offset = 100; offset < 103; offset++) {
        struct kafka_read *read = kafka_part_read(part, offset, offset);
        kafka_part_answer(read, true);
    }
    kafka_parts_topic_missing(&kafka.parts, "t");
    kafka_parts_topic_missing(&kafka.parts, "t");
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 102);
    assert_null(kafka_part_read(part, 102, 500)); /* another record */
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 0);
    assert_int_equal(part->incarnation, 1);
}

static void
topic_that_was_missing_and_lacks_its_last_record_is_read_from_its_start(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    struct kafka_read *read = kafka_part_read(part, 100, 7);
    kafka_part_answer(read, true);
    kafka_parts_topic_missing(&kafka.parts, "t");
    assert_true(goes_on(part));
    assert_null(kafka_part_read(part, 102, 500));
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 0);
    assert_int_equal(part->incarnation, 0); /* Redis knows whether its records are new */
    read = kafka_part_read(part, 102, 500);
    assert_non_null(read);
    kafka_part_answer(read, true);
}

static void
topic_that_is_missing_again_before_it_was_read_is_read_from_its_start(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    assert_null(kafka_part_read(part, 5, 500)); /* of a topic that was recreated */
    assert_true(goes_on(part));
    kafka_parts_topic_missing(&kafka.parts, "t");
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 0);
    assert_int_equal(part->incarnation, 0); /* Redis knows whether its records are new */
}

static void topic_that_was_missing_and_is_the_same_continues(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    struct kafka_read *read = kafka_part_read(part, 100, 7);
    kafka_part_answer(read, true);
    kafka_parts_topic_missing(&kafka.parts, "t");
    assert_true(goes_on(part));
    read = kafka_part_read(part, 100, 7);
    assert_non_null(read);
    kafka_part_answer(read, true);
    assert_int_equal(part->incarnation, 0);
    assert_int_equal(part->offsets.position, 101);
}

static void recreated_topic_is_read_again_as_the_next_incarnation(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    struct kafka_read *first = kafka_part_read(part, 100, 0),
                      *second = kafka_part_read(part, 101, 0);
    kafka_part_recreated(second);
    kafka_part_answer(second, false);
    kafka_part_recreated(first);
    kafka_part_answer(first, false);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 100);
    assert_int_equal(part->incarnation, 1);
    /* With its mark, else a restart would begin at the committed offset of the old topic,
     * and find yet another incarnation. */
    assert_string_equal(buf_str(&kafka.written), "reading t/0=1 t/0~1=100 ");
}

static void
rewind_of_a_partition_without_a_committed_offset_is_stored_before_any_record(void **state)
{
    struct kafka_part *part = part_at(-1, 100);
    (void)state;
    kafka_part_rewind(part, "r:1@40", 40);
    assert_true(goes_on(part));
    assert_string_equal(buf_str(&kafka.written), "reading t/0=0 r:1@40 t/0=40 ");
    assert_int_equal(part->offsets.position, -1); /* else the records of a new topic are
                                                   * skipped */
    store(part, 0);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 1);
}

static void rewind_of_a_partition_whose_first_record_is_above_it_seeks(void **state)
{
    struct kafka_part *part = part_at(-1, -1);
    (void)state;
    kafka_part_rewind(part, "r:1@40", 40);
    assert_true(goes_on(part));
    assert_null(kafka_part_read(part, 50, 0)); /* else record 40 were already stored */
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 40);
    store(part, 40);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 41);
}

/* Ask for rewind number of route r to offset, as Redis has it. */
static void ask_rewind(struct kafka_part *part, int64_t number, int64_t offset)
{
    const struct rewind_row row = {.topic = "t", .partition = 0, .from = offset};
    struct buf text = {0};
    kafka_rewind_format(number, &row, 1, &text);
    struct kv_item item = {SLICE_LIT("rewind r"), buf_slice(&text)};
    kafka_marks_start_rewinds(&(struct kafka_fields){.item = &item, .n = 1}, part);
    buf_free(&text);
}

static void
records_below_a_rewind_stay_those_of_the_last_rewind_to_a_lower_offset(void **state)
{
    static const struct {
        int64_t offset;
        const char *rewinds;
    } rows[] = {{40, "r:1@40"},
                {60, "r:2@60 r:1@40"},
                {80, "r:3@80 r:2@60"},
                {70, "r:4@70 r:2@60"},
                {30, "r:5@30"}};
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        part->rewind_count = 0; /* else each one waits longer than the one before */
        ask_rewind(part, (int64_t)i + 1, rows[i].offset);
        ask_rewind(part, (int64_t)i + 1, rows[i].offset); /* it is read more than once */
        assert_true(goes_on(part));
        assert_string_equal(part->rewinds_done, rows[i].rewinds);
    }
    ask_rewind(part, 5, 20); /* not above the last number */
    assert_string_equal(part->rewinds_done, "r:5@30");
    assert_null(part->rewinds_next);
}

static void rewind_of_a_new_topic_reads_the_next_incarnation_from_its_start(void **state)
{
    struct kafka_part *part = part_at(-1, 100);
    (void)state;
    kafka_part_rewind(part, "r:1@40", 40);
    assert_true(goes_on(part));
    struct kafka_read *read = kafka_part_read(part, 0, 0);
    assert_non_null(read);
    kafka_part_recreated(read);
    kafka_part_answer(read, false);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 0);
    assert_int_equal(part->incarnation, 1);
    assert_string_equal(part->rewinds_done, "r:1@40");
}

static void rewind_while_the_topic_is_missing_reads_after_the_comparison(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    store_at(part, 100, 7);
    kafka_parts_topic_missing(&kafka.parts, "t");
    assert_true(goes_on(part));
    kafka_part_rewind(part, "r:1@40", 40);
    kafka_part_rewind(part, "s:2@60 r:1@40", 60);
    assert_true(goes_on(part));
    assert_null(kafka_part_read(part, 100, 7)); /* it is sought for the comparison */
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 40);
    assert_string_equal(part->rewinds_done, "s:2@60 r:1@40");
}

static void
rewind_while_the_topic_is_missing_reads_a_partition_from_its_start_if_none_was_read(
    void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    kafka_parts_topic_missing(&kafka.parts, "t");
    kafka_part_rewind(part, "r:1@40", 40);
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 0);
    assert_true(part->maybe_new);
    assert_string_equal(part->rewinds_done, "r:1@40");
    store(part, 30);
    assert_true(goes_on(part));
}

/* Return a partition that has read up to 102, and was rewound to 100 when its topic went
 * missing. */
static struct kafka_part *rewound_and_missing(void)
{
    struct kafka_part *part = part_at(100, 100);
    for (int64_t offset = 100; offset < 103; offset++)
        store_at(part, offset, offset);
    kafka_part_rewind(part, "r:1", 100);
    assert_true(goes_on(part));
    kafka_parts_topic_missing(&kafka.parts, "t");
    assert_true(goes_on(part));
    return part;
}

static void topic_that_was_missing_after_a_rewind_is_compared_and_continues(void **state)
{
    struct kafka_part *part = rewound_and_missing();
    (void)state;
    assert_null(kafka_part_read(part, 102, 102)); /* it is sought for the comparison */
    assert_true(goes_on(part));
    store_at(part, 100, 100);
    store_at(part, 101, 101);
    assert_int_equal(part->incarnation, 0);
}

static void topic_that_was_recreated_after_a_rewind_is_read_from_its_start(void **state)
{
    struct kafka_part *part = rewound_and_missing();
    (void)state;
    assert_null(kafka_part_read(part, 102, 500));
    assert_true(goes_on(part));
    assert_int_equal(part->offsets.position, 0);
    assert_int_equal(part->incarnation, 1);
}

static void mark_beside_a_reading_is_the_stored_offset_without_a_rewind(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    store(part, 100);
    kafka_part_rewind(part, "r:1", -1);
    assert_true(goes_on(part));
    assert_string_equal(buf_str(&kafka.written), "reading t/0=0 r:1 t/0=101 ");
    assert_int_equal(part->mark, 101);
}

static void mark_beside_a_reading_is_the_beginning_where_nothing_is_stored(void **state)
{
    struct kafka_part *part = part_at(100, 100);
    (void)state;
    kafka_part_rewind(part, "r:1", -1);
    assert_true(goes_on(part));
    assert_string_equal(buf_str(&kafka.written), "reading t/0=0 r:1 t/0=100 ");
}

static void first_record_of_a_rewind_waits_for_the_records_before_it(void **state)
{
    struct kafka_part *part = part_at(3, 3);
    (void)state;
    free(part->rewinds_done);
    part->rewinds_done = mem_strdup("r:1@5");
    struct kafka_read *first = kafka_part_read(part, 3, 0);
    struct kafka_read *second = kafka_part_read(part, 4, 0);
    assert_null(kafka_part_read(part, 6, 0)); /* there is no record 5 */
    kafka_part_answer(second, true);
    run_ms(BACKOFF_MS);
    assert_int_not_equal(part->pauses, 0);
    kafka_part_answer(first, true);
    assert_true(goes_on(part));
    first = kafka_part_read(part, 6, 0);
    assert_non_null(first);
    store(part, 7);
    kafka_part_answer(first, true);
}

UNIT(kafka_part)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(rewind_seeks_when_redis_has_the_next_reading),
        CASE(answer_for_an_earlier_partition_of_the_same_name_is_ignored),
        CASE(rewind_that_is_due_while_another_ends_happens_once),
        CASE(partition_without_a_mark_starts_at_its_last_rewind),
        CASE(rewind_waits_while_redis_is_asked_for_the_marks),
        CASE(rewind_that_is_only_noted_waits_for_the_open_record_and_no_longer),
        CASE(topic_that_is_missing_is_read_again_from_its_last_record),
        CASE(topic_that_was_missing_and_lacks_its_last_record_is_read_from_its_start),
        CASE(topic_that_is_missing_again_before_it_was_read_is_read_from_its_start),
        CASE(topic_that_was_missing_and_is_the_same_continues),
        CASE(recreated_topic_is_read_again_as_the_next_incarnation),
        CASE(
            rewind_of_a_partition_without_a_committed_offset_is_stored_before_any_record),
        CASE(rewind_of_a_partition_whose_first_record_is_above_it_seeks),
        CASE(records_below_a_rewind_stay_those_of_the_last_rewind_to_a_lower_offset),
        CASE(rewind_of_a_new_topic_reads_the_next_incarnation_from_its_start),
        CASE(rewind_while_the_topic_is_missing_reads_after_the_comparison),
        CASE(
            rewind_while_the_topic_is_missing_reads_a_partition_from_its_start_if_none_was_read),
        CASE(topic_that_was_missing_after_a_rewind_is_compared_and_continues),
        CASE(topic_that_was_recreated_after_a_rewind_is_read_from_its_start),
        CASE(first_record_of_a_rewind_waits_for_the_records_before_it),
        CASE(mark_beside_a_reading_is_the_stored_offset_without_a_rewind),
        CASE(mark_beside_a_reading_is_the_beginning_where_nothing_is_stored),
    };
    return cmocka_run_group_tests(tests, rig_setup, NULL);
}
