/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_value.c - delay-queue's job: a MessagePack map with the keys "1" to "5", in
 * any order, of which some may be missing; or an array of the five.
 */
#include "sources/delayqueue/delayqueue_import.h"

enum { FIELDS = 5 };

static const struct field {
    enum import_kind kind;
    size_t offset;
} fields[FIELDS] = {
    {IMPORT_TEXT, offsetof(struct delayqueue_value, topic)},
    {IMPORT_TEXT, offsetof(struct delayqueue_value, id)},
    {IMPORT_INTEGER, offsetof(struct delayqueue_value, due_s)},
    {IMPORT_INTEGER, offsetof(struct delayqueue_value, ttr_s)},
    {IMPORT_TEXT, offsetof(struct delayqueue_value, body)},
};

static int set(const struct field *field, const struct import_value *v,
               struct delayqueue_value *out)
{
    void *at = (char *)out + field->offset;
    if (v->kind == IMPORT_NIL)
        return 0;
    if (v->kind != field->kind)
        return -1;
    if (v->kind == IMPORT_TEXT)
        *(struct slice *)at = v->text;
    else
        *(int64_t *)at = v->integer;
    return 0;
}

/* 0 to 4; FIELDS: a key that is skipped. */
static size_t number_of(const struct import_value *key)
{
    if (key->kind != IMPORT_TEXT || key->text.n != 1 || key->text.p[0] < '1' ||
        key->text.p[0] > '5')
        return FIELDS;
    return (size_t)(key->text.p[0] - '1');
}

int delayqueue_value_read(const struct import_value *v, struct delayqueue_value *out)
{
    *out = (struct delayqueue_value){
        .topic = SLICE_LIT(""), .id = SLICE_LIT(""), .body = SLICE_LIT("")};
    if (v->kind == IMPORT_LIST && v->count == FIELDS) {
        for (size_t i = 0; i < FIELDS; i++)
            if (set(&fields[i], &v->item[i], out) < 0)
                return -1;
    } else if (v->kind == IMPORT_MAP) {
        for (size_t i = 0; i + 1 < v->count; i += 2) {
            size_t n = number_of(&v->item[i]);
            if (n < FIELDS && set(&fields[n], &v->item[i + 1], out) < 0)
                return -1;
        }
    } else {
        return -1;
    }
    return out->id.n > 0 && out->topic.n > 0 ? 0 : -1;
}
