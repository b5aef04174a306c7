/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_json.c - libFuzzer: any bytes as an object, and as an array. Texts must be valid
 * UTF-8, values must be complete, and written values must be read back unchanged.
 */
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

struct thing {
    struct slice text, task, raw;
    int64_t number;
    bool yes;
};
static const struct json_field fields[] = {
    {"text", JSON_TEXT, offsetof(struct thing, text), 0, 0},
    {"task", JSON_TEXT, offsetof(struct thing, task), 0, 0},
    {"raw", JSON_RAW, offsetof(struct thing, raw), 0, 0},
    {"n", JSON_INT, offsetof(struct thing, number), -5, 100},
    {"yes", JSON_BOOL, offsetof(struct thing, yes), 0, 0},
    {0},
};

static void ignore(void *arg, struct slice raw)
{
    (void)arg;
    (void)raw;
}

/* Require one value without surrounding white space, and nothing else. */
static void check_value(struct slice raw)
{
    struct buf array = {0};
    buf_addf(&array, "[");
    buf_add_slice(&array, raw);
    buf_add_str(&array, "]");
    must(raw.n > 0 && !strchr(" \t\r\n", raw.p[0]) &&
         !strchr(" \t\r\n", raw.p[raw.n - 1]));
    must(json_each(buf_slice(&array), ignore, NULL) == 1);
    buf_free(&array);
}

/* Require that it is unchanged after writing and reading. */
static void check_text(struct slice text)
{
    struct buf object = {0}, room = {0};
    struct thing again = {.yes = false};
    must(text_is_utf8(text));
    buf_add_str(&object, "{\"text\":");
    text_add_json_go(&object, text);
    buf_add_str(&object, "}");
    must(json_read(buf_slice(&object), fields, &again, &room) == 0);
    must(slice_eq(again.text, text));
    buf_free(&object);
    buf_free(&room);
}

static void on_element(void *arg, struct slice raw)
{
    int *count = arg;
    if ((*count)++ < 100)
        check_value(raw);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice all = {(const char *)bytes, n};
    struct buf room = {0}, written = {0};
    struct thing t = {.yes = false};
    int count = 0;

    if (json_read(all, fields, &t, &room) == 0) {
        if (t.text.p)
            check_text(t.text);
        if (t.task.p)
            check_text(t.task);
        if (t.raw.p)
            check_value(t.raw);
        must(t.number >= -5 && t.number <= 100);
    }
    int elements = json_each(all, on_element, &count);
    must(count == (elements > 0 ? elements : 0));
    text_add_json_go(&written, all); /* may contain anything */
    must(text_is_utf8(buf_slice(&written)));
    buf_free(&written);
    buf_free(&room);
    return 0;
}
