/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/membership.h"
#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* No source or route has this name. */
static const char publish_name[] = "=@alive", *const channel_name = publish_name + 1;

struct membership {
    struct bridge *bridge;
    char id[32];
    char *member; /* as in Redis */
    struct member_list list;
    unsigned open; /* calls without an answer */
    bool tell;     /* the others must be notified */
    bool leaving, left;
};

/* --- pure --- */

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
        struct slice id = text_cut(&rest, ' ');
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

static bool serves(const struct member *one, const char *route)
{
    struct slice rest = one->routes;
    while (rest.n > 0)
        if (slice_is(text_cut(&rest, ' '), route))
            return true;
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
        if (!slice_is(one->id, id) && weight(one->id, bucket) > own && serves(one, route))
            rank++;
    }
    return rank;
}

/* --- reports --- */

static char *new_member(const struct membership *a)
{
    struct buf text = {0};
    buf_add_str(&text, a->id);
    EACH_ROUTE (a->bridge, route)
        if (route->bucket_count > 0) /* else it has no buckets */
            buf_addf(&text, " %s", route->conf->name);
    char *member = mem_strdup(buf_str(&text));
    buf_free(&text);
    return member;
}

struct membership *membership_new(struct bridge *bridge)
{
    struct membership *a = mem_alloc(sizeof(*a));
    a->bridge = bridge;
    snprintf(a->id, sizeof(a->id), "%010" PRIx64, bridge->instance);
    a->member = new_member(a);
    return a;
}

void membership_free(struct membership *a)
{
    if (a == NULL)
        return;
    member_list_fini(&a->list);
    free(a->member);
    free(a);
}

static void learn(struct membership *a, const struct redisReply *reply)
{
    size_t n = redis_items(reply), before = a->list.n;
    struct slice *members = mem_alloc((n + 1) * sizeof(*members));
    for (size_t i = 0; i < n; i++)
        members[i] = redis_text(redis_item(reply, i));
    bool other = member_list_set(&a->list, members, n);
    free(members);
    if (!other)
        return;
    if (a->list.n > 1 || before > 1)
        log_info("daemon", "%zu instances share this Redis", a->list.n);
    EACH_ROUTE (a->bridge, route)
        EACH_SCHED (route, s)
            sched_members_changed(s);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct membership *a = arg;
    a->open--;
    if (reply && !a->leaving)
        learn(a, reply);
    if (a->open > 0)
        return; /* a later call has an answer that is not older */
    a->left = a->leaving;
    if (a->tell && reply)
        store_notify(a->bridge->store, publish_name);
    a->tell = a->tell && reply == NULL;
}

static void ask(struct membership *a)
{
    struct buf key = {0};
    buf_addf(&key, "%s:alive", store_prefix(a->bridge->store));
    a->open++;
    store_alive(a->bridge->store, buf_slice(&key), slice_of(a->member), a->leaving,
                MEMBER_TIMEOUT_MS, on_reply, a);
    buf_free(&key);
}

void membership_routes_changed(struct membership *a)
{
    char *former = a->member;
    a->member = new_member(a);
    if (strcmp(a->member, former) != 0)
        membership_join(a);
    free(former);
}

void membership_join(struct membership *a)
{
    if (a->leaving)
        return;
    a->tell = true;
    ask(a);
}

void membership_report(struct membership *a)
{
    if (!a->leaving && store_is_up(a->bridge->store))
        ask(a);
}

void membership_notified(struct membership *a, struct slice name)
{
    if (name.p == NULL || slice_is(name, channel_name))
        membership_report(a);
}

void membership_leave(struct membership *a)
{
    a->leaving = a->tell = true;
    ask(a);
}

bool membership_has_left(const struct membership *a)
{
    return a->left;
}

unsigned membership_rank(const struct membership *a, const char *route,
                         const char *bucket)
{
    return a ? member_list_rank(&a->list, a->id, route, bucket) : 0;
}

int membership_others(const struct membership *a, const char *route)
{
    int n = 0;
    for (size_t i = 0; i < a->list.n; i++)
        n +=
            !slice_is(a->list.members[i].id, a->id) && serves(&a->list.members[i], route);
    return a->list.n > 0 ? n : -1;
}

const struct member_list *membership_list(const struct membership *a)
{
    return &a->list;
}
