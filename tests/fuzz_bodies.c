/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_bodies.c - libFuzzer: any bytes as the body of a request to each HTTP API that
 * accepts JSON, and as parameter values.
 */
#include "sources/camellia/camellia.h"
#include "sources/delayqueue/delayqueue.h"
#include "bridge/http/http_job.h"
#include "sources/later/later.h"
#include "tests/fuzz.h"

#include "bridge/base/text.h"

static void read_later(struct slice body)
{
    struct later_task task;
    struct buf room = {0}, shown = {0};
    static const struct http_dialect none;
    struct err err;

    if (http_args_read_json(&later_create_args, &none, body, &task, &room, &err) == 0) {
        later_set_times(&task, INT64_C(1769860800000));
        must(text_is_utf8(task.topic) && text_is_utf8(task.content));
        task.id = SLICE_LIT("11111111-2222-4333-8444-555555555555");
        struct job *job = later_job_new(&task);
        later_show(&shown, job, 3);
        must(text_is_utf8(buf_slice(&shown)));
        job_free(job);
    }
    if (http_args_read_json(&later_id_args, &none, body, &task, &room, &err) == 0)
        must(task.id.n > 0);
    buf_free(&shown);
    buf_free(&room);
}

static void read_delayqueue(struct slice body)
{
    static const struct http_args *const forms[] = {
        &delayqueue_push_args, &delayqueue_pop_args, &delayqueue_id_args};
    struct slice topics[DELAYQUEUE_TOPICS_MAX];

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct delayqueue_ask ask;
        struct buf room = {0};
        struct err err;
        if (http_args_read_json(forms[i], &delayqueue_dialect, body, &ask, &room, &err) ==
            0) {
            must(forms[i] == &delayqueue_pop_args ||
                 (ask.id.p && ask.id.n <= DELAYQUEUE_ID_MAX));
            must(forms[i] != &delayqueue_pop_args ||
                 delayqueue_split(ask.topic, topics) <= DELAYQUEUE_TOPICS_MAX);
        }
        buf_free(&room);
    }
}

static void read_line(struct slice body)
{
    const struct http_place places[] = {
        {.name = SLICE_LIT("r")},
        {.name = SLICE_LIT("q"), .queue = true},
        {.name = SLICE_LIT("q"), .queue = true, .id = SLICE_LIT("i")}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct err err = {""};
        struct buf out = {0};
        struct job *job = http_job_from_line(body, places[i], &err);
        must((job == NULL) == (err.text[0] != '\0'));
        for (unsigned h = 0; job && h < job->header_count; h++)
            must(text_is_token(job->headers[h].name) &&
                 text_is_header_value(job->headers[h].value));
        if (job)
            http_job_members(&out, job);
        must(text_is_utf8(buf_slice(&out)));
        buf_free(&out);
        job_free(job);
    }
}

static void read_params(struct slice value)
{
    static const struct http_param number = {"x", HTTP_INT, 0, .min = INT32_MIN,
                                             .max = INT32_MAX};
    static const struct http_param flag = {"x", HTTP_BOOL, 0, .required = true};
    struct buf text = {0};
    int64_t n = 0, yes = 0;

    camellia_add_repaired(&text, value);
    must(text_is_utf8(buf_slice(&text)) && text.n <= 3 * value.n);
    buf_free(&text);
    camellia_dialect.set[HTTP_INT](&number, value, &n, NULL);
    must(n >= INT32_MIN && n <= INT32_MAX);
    camellia_dialect.set[HTTP_BOOL](&flag, value, &yes, NULL);
    must(yes == 0 || yes == 1);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice body = {(const char *)bytes, n};

    read_later(body);
    read_delayqueue(body);
    read_line(body);
    read_params(body);
    return 0;
}
