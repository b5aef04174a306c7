/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/membership.h"
#include "bridge/engine/member_list.h"
#include "bridge/engine/bridge.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* No source or route has this name. */
static const char tell_name[] = "=@alive", *const told_name = tell_name + 1;

struct membership {
    struct bridge *bridge;
    loop_cb *changed;
    void *arg;
    char id[32];
    char *key, *member;
    char *former; /* the previous member, still in Redis; NULL: none */
    struct member_list list;
    bool asking;    /* a call is in flight */
    bool ask_again; /* its answer may be out of date: ask again */
    bool tell;      /* the others must be notified */
    bool leaving, left;
};

static char *new_member(const struct membership *a)
{
    const struct bridge *bridge = a->bridge;
    struct buf text = {0};
    buf_add_str(&text, a->id);
    EACH_ROUTE (bridge, route)
        if (route->bucket_count > 0) /* else it has no buckets */
            buf_addf(&text, " %s", route->conf->name);
    char *member = mem_strdup(buf_str(&text));
    buf_free(&text);
    return member;
}

struct membership *membership_new(struct bridge *bridge, loop_cb *changed, void *arg)
{
    struct membership *a = mem_alloc(sizeof(*a));
    struct buf text = {0};
    a->bridge = bridge;
    a->changed = changed;
    a->arg = arg;
    snprintf(a->id, sizeof(a->id), "%010" PRIx64, bridge->instance);
    buf_addf(&text, "%s:alive", store_prefix(bridge->store));
    a->key = mem_strdup(buf_str(&text));
    buf_free(&text);
    a->member = new_member(a);
    return a;
}

void membership_free(struct membership *a)
{
    if (a == NULL)
        return;
    member_list_fini(&a->list);
    free(a->key);
    free(a->member);
    free(a->former);
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
    a->changed(a->arg);
}

static void ask(struct membership *a);

/* The reply lacks this instance, so it is not used as the list. */
static void on_former_gone(void *arg, const struct redisReply *reply)
{
    struct membership *a = arg;
    a->asking = false;
    if (reply) {
        free(a->former);
        a->former = NULL;
        ask(a);
    } else {
        a->left = a->leaving; /* Redis removes its entry after MEMBER_TIMEOUT_MS */
    }
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct membership *a = arg;
    a->asking = false;
    if (reply && !a->leaving)
        learn(a, reply);
    if (a->ask_again && reply) {
        ask(a);
        return;
    }
    a->left = a->leaving;
    if (a->tell && reply)
        store_notify(a->bridge->store, tell_name);
    a->tell = a->tell && reply == NULL;
}

static void ask(struct membership *a)
{
    char span[24];
    snprintf(span, sizeof(span), "%d", MEMBER_TIMEOUT_MS);
    const char *former = a->former;
    const struct slice argv[] = {SLICE_LIT(""), slice_of(former ? former : a->member),
                                 slice_of(former || a->leaving ? "1" : ""),
                                 slice_of(span)};
    a->ask_again = a->asking;
    if (a->asking)
        return;
    a->asking = true;
    store_script(a->bridge->store, SCRIPT_ALIVE, slice_of(a->key), argv, 4,
                 former ? on_former_gone : on_reply, a);
}

void membership_routes_changed(struct membership *a)
{
    char *member = new_member(a);
    if (strcmp(member, a->member) == 0) {
        free(member);
        return;
    }
    if (a->former == NULL) /* else Redis contains the former member, but not this one */
        a->former = a->member;
    else
        free(a->member);
    a->member = member;
    membership_join(a);
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
    if (name.p == NULL || slice_is(name, told_name))
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
        n += !slice_is(a->list.members[i].id, a->id) &&
             member_serves(&a->list.members[i], route);
    return a->list.n > 0 ? n : -1;
}

size_t membership_count(const struct membership *a)
{
    return a->list.n;
}

void membership_each(const struct membership *a, membership_each_cb *each, void *arg)
{
    for (size_t i = 0; i < a->list.n; i++) {
        const struct member *one = &a->list.members[i];
        const struct membership_instance instance = {
            .id = one->id, .routes = one->routes, .self = slice_is(one->id, a->id)};
        each(arg, &instance);
    }
}
