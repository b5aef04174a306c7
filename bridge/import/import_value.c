/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_value.c - the neutral values that importers read: their memory, MessagePack, and
 * JSON objects of which the keys are not known beforehand.
 */
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/base/unpack.h"
#include "bridge/import/import.h"

#include <stdlib.h>

enum { DEPTH_MAX = 8, ITEMS_MAX = 1024 }; /* of one value that importers have use for */

void import_values_free(struct import_value *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        import_values_free(v[i].item, v[i].count);
        free(v[i].item);
        free((char *)v[i].text.p);
        v[i] = (struct import_value){0};
    }
}

static int unpack(struct slice *rest, struct import_value *out, unsigned depth)
{
    struct unpacked u;
    size_t count;
    if (depth > DEPTH_MAX || unpack_next(rest, &u) < 0)
        return -1;
    switch (u.kind) {
    case UNPACK_INTEGER:
        out->kind = IMPORT_INTEGER;
        out->integer = u.integer;
        return 0;
    case UNPACK_BYTES:
        out->kind = IMPORT_TEXT;
        out->text = (struct slice){mem_strndup(u.bytes.p, u.bytes.n), u.bytes.n};
        return 0;
    case UNPACK_ARRAY:
    case UNPACK_MAP:
        /* A head claims what it likes: each item needs a byte at least. */
        count = u.kind == UNPACK_MAP ? (size_t)u.count * 2 : u.count;
        if (count > rest->n || count > ITEMS_MAX)
            return -1;
        out->kind = u.kind == UNPACK_MAP ? IMPORT_MAP : IMPORT_LIST;
        out->count = count;
        out->item = mem_alloc(count * sizeof(*out->item));
        for (size_t i = 0; i < count; i++)
            if (unpack(rest, &out->item[i], depth + 1) < 0)
                return -1;
        return 0;
    case UNPACK_NIL:
    case UNPACK_OTHER:
        return 0;
    default:
        return -1;
    }
}

int import_unpack(struct slice bytes, struct import_value *out)
{
    *out = (struct import_value){0};
    if (unpack(&bytes, out, 0) == 0 && bytes.n == 0)
        return 0;
    import_values_free(out, 1);
    return -1;
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
