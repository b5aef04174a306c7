/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/member_list.h"
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"

#include <stdint.h>
#include <stdlib.h>

/* Remove the text up to the next space from the front of s, and return it. */
static struct slice word(struct slice *s)
{
    const char *space = s->n ? memchr(s->p, ' ', s->n) : NULL;
    struct slice taken = {s->p, space ? (size_t)(space - s->p) : s->n};
    size_t used = space ? taken.n + 1 : taken.n;
    *s = (struct slice){s->p + used, s->n - used};
    return taken;
}

bool member_list_set(struct member_list *list, const struct slice *members, size_t n)
{
    struct buf text = {0};
    for (size_t i = 0; i < n; i++) {
        buf_add_slice(&text, members[i]);
        buf_add_str(&text, "\n");
    }
    if (slice_eq(buf_slice(&text), buf_slice(&list->text))) {
        buf_free(&text);
        return false;
    }
    member_list_fini(list);
    list->text = text;
    list->members = mem_alloc((n + 1) * sizeof(*list->members));
    const char *at = buf_slice(&text).p;
    for (size_t i = 0; i < n; at += members[i++].n + 1) {
        struct slice rest = {at, members[i].n};
        struct slice id = word(&rest);
        if (id.n > 0)
            list->members[list->n++] = (struct member){id, rest};
    }
    return true;
}

void member_list_fini(struct member_list *list)
{
    buf_free(&list->text);
    free(list->members);
    *list = (struct member_list){0};
}

bool member_serves(const struct member *one, const char *route)
{
    struct slice rest = one->routes;
    size_t n = strlen(route);
    while (rest.n > 0) {
        struct slice name = word(&rest);
        if (name.n == n && memcmp(name.p, route, n) == 0)
            return true;
    }
    return false;
}

/* FNV-1a alone differs too little between "r/1" and "r/2". The finalizer of MurmurHash3
 * lets every bit affect every other bit. */
static uint64_t weight(struct slice id, const char *bucket)
{
    uint64_t x = hash_fnv1a(hash_fnv1a(HASH_FNV1A, id), slice_of(bucket));
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
    return x ^ x >> 33;
}

unsigned member_list_rank(const struct member_list *list, const char *id,
                          const char *route, const char *bucket)
{
    uint64_t own = weight(slice_of(id), bucket);
    unsigned rank = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct member *one = &list->members[i];
        if (!slice_is(one->id, id) && weight(one->id, bucket) > own &&
            member_serves(one, route))
            rank++;
    }
    return rank;
}
