/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_value.c - the values that importers read: their memory, and JSON objects of
 * which the keys are not known beforehand.
 */
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/import/import.h"

#include <stdlib.h>

void import_values_free(struct import_value *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        import_values_free(v[i].item, v[i].count);
        free(v[i].item);
        free((char *)v[i].text.p);
        v[i] = (struct import_value){0};
    }
}

static struct slice decoded(const struct json_quoted *q, char **room)
{
    struct slice s = {*room, json_decode(q, *room)};
    *room += s.n;
    return s;
}

static int each_pair(struct json_reader *r, char *room, import_pair_cb *cb, void *arg)
{
    struct json_quoted name, value;
    do {
        char *at = room;
        if (json_pass_key(r, &name) < 0)
            return -1;
        if (r->p == r->end || *r->p != '"') {
            if (json_pass_value(r) < 0)
                return -1;
        } else if (json_pass_string(r, &value) < 0) {
            return -1;
        } else {
            struct slice first = decoded(&name, &at);
            cb(arg, first, decoded(&value, &at));
        }
        json_space(r);
    } while (json_take(r, ','));
    return 0;
}

int import_each_pair(struct slice json, import_pair_cb *cb, void *arg)
{
    struct json_reader r = json_reader_of(json);
    json_space(&r);
    if (!json_take(&r, '{'))
        return -1;
    json_space(&r);
    if (json_take(&r, '}'))
        return json_pass_end(&r);
    char *room = mem_alloc(3 * json.n + 1); /* a byte that is no UTF-8 becomes three */
    int result = each_pair(&r, room, cb, arg);
    free(room);
    return result == 0 && json_take(&r, '}') ? json_pass_end(&r) : -1;
}
