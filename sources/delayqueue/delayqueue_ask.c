/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/delayqueue/delayqueue_ask.h"
#include "bridge/base/json.h"
#include "bridge/job/job.h"

enum { TTR_MAX_S = 86400 };
#define DELAY_MAX_S (INT64_C(1) << 31)

_Static_assert((int)DELAYQUEUE_ID_MAX <= (int)JOB_ID_MAX &&
                   (int)DELAYQUEUE_TOPIC_MAX < (int)JOB_TOPIC_MAX,
               "an id and a topic of this API fit into a job");

/* ------------------------------------------------------------------ white space */

/* The space of Unicode beyond ASCII, as UTF-8. */
static const struct slice spaces[] = {
    SLICE_LIT("\xc2\x85"),     SLICE_LIT("\xc2\xa0"),     SLICE_LIT("\xe1\x9a\x80"),
    SLICE_LIT("\xe2\x80\x80"), SLICE_LIT("\xe2\x80\x81"), SLICE_LIT("\xe2\x80\x82"),
    SLICE_LIT("\xe2\x80\x83"), SLICE_LIT("\xe2\x80\x84"), SLICE_LIT("\xe2\x80\x85"),
    SLICE_LIT("\xe2\x80\x86"), SLICE_LIT("\xe2\x80\x87"), SLICE_LIT("\xe2\x80\x88"),
    SLICE_LIT("\xe2\x80\x89"), SLICE_LIT("\xe2\x80\x8a"), SLICE_LIT("\xe2\x80\xa8"),
    SLICE_LIT("\xe2\x80\xa9"), SLICE_LIT("\xe2\x80\xaf"), SLICE_LIT("\xe2\x81\x9f"),
    SLICE_LIT("\xe3\x80\x80"),
};

/* Bytes of the space at the start of s, or at its end; 0: there is none. */
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

/* ----------------------------------------------------------------------- checks */

static bool id_empty(const struct delayqueue_ask *ask)
{
    return ask->id.n == 0;
}

static bool topic_empty(const struct delayqueue_ask *ask)
{
    return ask->topic.n == 0;
}

static bool delay_bad(const struct delayqueue_ask *ask)
{
    return ask->delay_s < 1 || ask->delay_s > DELAY_MAX_S;
}

static bool ttr_bad(const struct delayqueue_ask *ask)
{
    return ask->ttr_s < 1 || ask->ttr_s > TTR_MAX_S;
}

static bool id_long(const struct delayqueue_ask *ask)
{
    return ask->id.n > DELAYQUEUE_ID_MAX;
}

static bool topic_long(const struct delayqueue_ask *ask)
{
    return ask->topic.n > DELAYQUEUE_TOPIC_MAX;
}

static bool topic_has_comma(const struct delayqueue_ask *ask)
{
    return ask->topic.n > 0 && memchr(ask->topic.p, ',', ask->topic.n) != NULL;
}

static bool topics_many(const struct delayqueue_ask *ask)
{
    size_t n = 0;
    for (size_t i = 0; i < ask->topic.n; i++)
        n += ask->topic.p[i] == ',';
    return n >= DELAYQUEUE_TOPICS_MAX;
}

static bool topics_long(const struct delayqueue_ask *ask)
{
    struct slice topics[DELAYQUEUE_TOPICS_MAX];
    unsigned n = delayqueue_split(ask->topic, topics);
    for (unsigned i = 0; i < n; i++) {
        if (topics[i].n > DELAYQUEUE_TOPIC_MAX)
            return true;
    }
    return false;
}

struct check { /* the first that fails speaks */
    bool (*fails)(const struct delayqueue_ask *ask);
    const char *message;
};
static const char id_long_text[] = "the id is longer than 512 bytes";
static const char topic_long_text[] = "a topic is longer than 1000 bytes";

static const struct check push_checks[] = {
    {id_empty, "job id不能为空"},
    {topic_empty, "topic 不能为空"}, /* with a blank: clients compare */
    {delay_bad, "delay 取值范围1 - (2^31 - 1)"},
    {ttr_bad, "ttr 取值范围1 - 86400"},
    {id_long, id_long_text},
    {topic_long, topic_long_text},
    {topic_has_comma, "the topic has a comma: /pop could never name it"},
    {0},
};
static const struct check pop_checks[] = {
    {topic_empty, "topic不能为空"},
    {topics_many, "a pop may name 1000 topics at most"},
    {topics_long, topic_long_text},
    {0},
};
static const struct check id_checks[] = {
    {id_empty, "job id不能为空"},
    {id_long, id_long_text},
    {0},
};

/* ---------------------------------------------------------------------- reading */

#define TEXT(name, field)                                                                \
    {                                                                                    \
        name, JSON_TEXT, offsetof(struct delayqueue_ask, field), 0, 0                    \
    }
#define INT(name, field)                                                                 \
    {                                                                                    \
        name, JSON_INT, offsetof(struct delayqueue_ask, field), 0, 0                     \
    }

static const struct json_field push_fields[] = {
    TEXT("topic", topic), TEXT("id", id),     INT("delay", delay_s),
    INT("ttr", ttr_s),    TEXT("body", body), {0},
};
static const struct json_field pop_fields[] = {TEXT("topic", topic), {0}};
static const struct json_field id_fields[] = {TEXT("id", id), {0}};

static const struct {
    const struct json_field *fields;
    const struct check *checks;
} forms[] = {
    [DELAYQUEUE_PUSH] = {push_fields, push_checks},
    [DELAYQUEUE_POP] = {pop_fields, pop_checks},
    [DELAYQUEUE_ID] = {id_fields, id_checks},
};

const char *delayqueue_read(enum delayqueue_form form, struct slice text,
                            struct delayqueue_ask *ask, struct buf *room)
{
    const struct slice none = SLICE_LIT("");
    *ask = (struct delayqueue_ask){.id = none, .topic = none, .body = none};
    if (json_read(text, forms[form].fields, ask, room) < 0)
        return "解析json失败";
    ask->id = delayqueue_trim(ask->id);
    ask->topic = delayqueue_trim(ask->topic);
    ask->body = delayqueue_trim(ask->body);
    for (const struct check *c = forms[form].checks; c->fails; c++) {
        if (c->fails(ask))
            return c->message;
    }
    return NULL;
}

unsigned delayqueue_split(struct slice topic, struct slice *topics)
{
    unsigned n = 0;
    const char *end = topic.p + topic.n;
    for (const char *p = topic.p; p <= end && n < DELAYQUEUE_TOPICS_MAX;) {
        const char *comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
        const char *stop = comma ? comma : end;
        topics[n] = delayqueue_trim((struct slice){p, (size_t)(stop - p)});
        n += topics[n].n > 0;
        p = stop + 1;
    }
    return n;
}
