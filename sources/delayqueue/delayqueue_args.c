/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "sources/delayqueue/delayqueue.h"

enum { TTR_MAX_S = 86400 };
#define DELAY_MAX_S (INT64_C(1) << 31)

_Static_assert((int)DELAYQUEUE_ID_MAX <= (int)JOB_ID_MAX &&
                   (int)DELAYQUEUE_TOPIC_MAX < (int)JOB_TOPIC_MAX,
               "an id and a topic of this API fit into a job");

/* ------------------------------------------------------------------ white space */

/* Unicode white space beyond ASCII, in UTF-8. */
static const struct slice spaces[] = {
    SLICE_LIT("\xc2\x85"),     SLICE_LIT("\xc2\xa0"),     SLICE_LIT("\xe1\x9a\x80"),
    SLICE_LIT("\xe2\x80\x80"), SLICE_LIT("\xe2\x80\x81"), SLICE_LIT("\xe2\x80\x82"),
    SLICE_LIT("\xe2\x80\x83"), SLICE_LIT("\xe2\x80\x84"), SLICE_LIT("\xe2\x80\x85"),
    SLICE_LIT("\xe2\x80\x86"), SLICE_LIT("\xe2\x80\x87"), SLICE_LIT("\xe2\x80\x88"),
    SLICE_LIT("\xe2\x80\x89"), SLICE_LIT("\xe2\x80\x8a"), SLICE_LIT("\xe2\x80\xa8"),
    SLICE_LIT("\xe2\x80\xa9"), SLICE_LIT("\xe2\x80\xaf"), SLICE_LIT("\xe2\x81\x9f"),
    SLICE_LIT("\xe3\x80\x80"),
};

/* Returns the bytes of the white-space character at the start or end of s; 0: none. */
static size_t space_bytes(struct slice s, bool at_end)
{
    if (s.n == 0)
        return 0;
    char c = s.p[at_end ? s.n - 1 : 0];
    if ((unsigned char)c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        size_t n = spaces[i].n;
        if (s.n >= n && memcmp(at_end ? s.p + s.n - n : s.p, spaces[i].p, n) == 0)
            return n;
    }
    return 0;
}

struct slice delayqueue_trim(struct slice s)
{
    for (size_t n; (n = space_bytes(s, false)) > 0;)
        s = (struct slice){s.p + n, s.n - n};
    for (size_t n; (n = space_bytes(s, true)) > 0;)
        s.n -= n;
    return s;
}

int delayqueue_set_text(const struct http_param *row, struct slice value, void *field,
                        struct err *err)
{
    (void)row, (void)err;
    *(struct slice *)field = delayqueue_trim(value);
    return 0;
}

/* ------------------------------------------------------------------------- rows */

static const char id_empty[] = "job id不能为空";

#define AT(field) offsetof(struct delayqueue_ask, field)
/* In the order of the original's checks. */
static const struct http_param push_params[] = {
    {"id", HTTP_TEXT, AT(id), .from = FROM_JSON, .min = 1, .wrong = id_empty},
    {"topic", HTTP_TEXT, AT(topic), .from = FROM_JSON, .min = 1,
     .wrong = "topic 不能为空"}, /* with a blank: clients compare */
    {"delay", HTTP_INT, AT(delay_s), .from = FROM_JSON, .min = 1, .max = DELAY_MAX_S,
     .wrong = "delay 取值范围1 - (2^31 - 1)"},
    {"ttr", HTTP_INT, AT(ttr_s), .from = FROM_JSON, .min = 1, .max = TTR_MAX_S,
     .wrong = "ttr 取值范围1 - 86400"},
    {"body", HTTP_TEXT, AT(body), .from = FROM_JSON},
    {0}};
static const struct http_param pop_params[] = {{"topic", HTTP_TEXT, AT(topic),
                                                .from = FROM_JSON, .min = 1,
                                                .wrong = "topic不能为空"},
                                               {0}};
static const struct http_param id_params[] = {
    {"id", HTTP_TEXT, AT(id), .from = FROM_JSON, .min = 1, .wrong = id_empty}, {0}};
#undef AT

/* Rejects values that the original accepts but a job cannot contain. */
static int check_id(const void *args, struct err *err)
{
    const struct delayqueue_ask *ask = args;
    if (ask->id.n > DELAYQUEUE_ID_MAX)
        return err_set(err, "the id is longer than %d bytes", DELAYQUEUE_ID_MAX);
    return 0;
}

static int check_topic(struct slice topic, struct err *err)
{
    if (topic.n > DELAYQUEUE_TOPIC_MAX)
        return err_set(err, "a topic is longer than %d bytes", DELAYQUEUE_TOPIC_MAX);
    return 0;
}

static int check_push(const void *args, struct err *err)
{
    const struct delayqueue_ask *ask = args;
    if (check_id(args, err) < 0 || check_topic(ask->topic, err) < 0)
        return -1;
    if (memchr(ask->topic.p, ',', ask->topic.n))
        return err_set(err,
                       "the topic contains a comma, which /pop uses to separate topics");
    return 0;
}

static int check_pop(const void *args, struct err *err)
{
    const struct delayqueue_ask *ask = args;
    struct slice topics[DELAYQUEUE_TOPICS_MAX] = {{0}};
    size_t commas = 0;
    for (size_t i = 0; i < ask->topic.n; i++)
        commas += ask->topic.p[i] == ',';
    if (commas >= DELAYQUEUE_TOPICS_MAX)
        return err_set(err, "a pop may contain at most %d topics", DELAYQUEUE_TOPICS_MAX);
    unsigned n = delayqueue_split(ask->topic, topics);
    for (unsigned i = 0; i < n; i++)
        if (check_topic(topics[i], err) < 0)
            return -1;
    return 0;
}

const struct http_args delayqueue_push_args = {sizeof(struct delayqueue_ask), push_params,
                                               check_push, true};
const struct http_args delayqueue_pop_args = {sizeof(struct delayqueue_ask), pop_params,
                                              check_pop, true};
const struct http_args delayqueue_id_args = {sizeof(struct delayqueue_ask), id_params,
                                             check_id, true};

unsigned delayqueue_split(struct slice topic, struct slice *topics)
{
    unsigned n = 0;
    while (topic.p && n < DELAYQUEUE_TOPICS_MAX) {
        topics[n] = delayqueue_trim(text_cut(&topic, ','));
        n += topics[n].n > 0;
    }
    return n;
}
