/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/import/import_internal.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { VALUE_DEPTH_MAX = 8 };

struct link { /* a connection */
    struct import_redis *owner;
    struct redis *redis;
    char *host, *port; /* of a cluster node; else NULL */
    bool up;
};

struct import_redis {
    struct sentinel *sentinel; /* NULL: none */
    struct link **links;
    unsigned count;
    uint16_t *link_of; /* index in links for each slot; NULL: not a cluster */
    bool lost;         /* a connection was lost */
    bool redirected;   /* a key was on another node: MOVED, ASK */
    bool opened;       /* import_redis_open() has returned it */
    char why[256];
    unsigned open; /* commands without a reply */
    unsigned unanswered;
};

static void note_error(struct import_redis *a, const char *why)
{
    if (a->why[0] == '\0')
        snprintf(a->why, sizeof(a->why), "%s", why);
}

/* --- connections --- */

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct link *l = arg;
    if (state == REDIS_UP) {
        l->up = true;
    } else if (state == REDIS_DOWN) {
        l->owner->lost = true;
        note_error(l->owner, why);
    }
    loop_stop();
}

/* host NULL: use the address of the URL, or the finder. */
static void link_add(struct import_redis *a, const struct redis_conf *conf,
                     const char *host, const char *port)
{
    struct link *l = mem_alloc(sizeof(*l));
    struct redis_conf own = *conf;
    l->owner = a;
    if (host) {
        l->host = mem_strdup(host);
        l->port = mem_strdup(port);
        own.url.kind = REDIS_ONE;
        own.url.host = l->host;
        own.url.port = l->port;
        own.url.places = NULL;
        own.url.place_count = 0;
    }
    a->links = mem_realloc(a->links, (a->count + 1) * sizeof(struct link *));
    a->links[a->count++] = l;
    l->redis = redis_new(&own, on_state, l);
}

/* Wait until all connections are up. Returns -1 if one fails. */
static int links_wait(struct import_redis *a, struct err *err)
{
    for (unsigned i = 0; i < a->count && !a->lost;)
        if (a->links[i]->up)
            i++;
        else
            loop_run();
    return a->lost ? err_set(err, "%s", a->why) : 0;
}

static void links_free(struct import_redis *a)
{
    for (unsigned i = 0; i < a->count; i++) {
        struct link *l = a->links[i];
        redis_free(l->redis);
        free(l->host);
        free(l->port);
        loop_defer_free(l);
    }
    a->count = 0;
    a->lost = false;
    a->why[0] = '\0';
}

/* --- a cluster --- */

struct survey { /* the reply to CLUSTER SLOTS of one node */
    struct import_redis *owner;
    const struct redis_conf *conf;
    const char *host; /* of the node that was asked */
    unsigned covered; /* number of slots with an owner */
    bool answered, nameless;
    char error[80];
};

static unsigned link_at(struct survey *s, const char *host, const char *port)
{
    struct import_redis *a = s->owner;
    unsigned i = 1; /* link 0 is the node that was asked */
    while (i < a->count &&
           (strcmp(a->links[i]->host, host) != 0 || strcmp(a->links[i]->port, port) != 0))
        i++;
    if (i == a->count)
        link_add(a, s->conf, host, port);
    return i;
}

static void on_slots(void *arg, const struct redisReply *reply)
{
    struct survey *s = arg;
    struct slice error = redis_error_text(reply);
    s->answered = true;
    snprintf(s->error, sizeof(s->error), "%.*s", SLICE_ARG(error));
    for (size_t i = 0; i < redis_items(reply); i++) {
        struct redis_slots row;
        int result = redis_slots_read(redis_item(reply, i), &row);
        s->nameless |= row.nameless;
        if (result < 0)
            continue;
        unsigned link = link_at(s, *row.host ? row.host : s->host, row.port);
        for (unsigned slot = row.first; slot <= row.last; slot++)
            s->owner->link_of[slot] = (uint16_t)link;
        s->covered += row.last - row.first + 1;
    }
    loop_stop();
}

/* Link 0 is used only for CLUSTER SLOTS. Each master has a link after it. */
static int find_masters(struct import_redis *a, const struct redis_conf *conf,
                        const struct redis_place *place, struct err *err)
{
    static const struct slice args[] = {SLICE_LIT("CLUSTER"), SLICE_LIT("SLOTS")};
    struct survey s = {.owner = a, .conf = conf, .host = place->host};
    links_free(a);
    link_add(a, conf, place->host, place->port);
    if (links_wait(a, err) < 0)
        return -1;
    redis_command(a->links[0]->redis, args, 2, on_slots, &s);
    while (!s.answered)
        loop_run();
    if (s.covered != REDIS_SLOTS)
        return err_set(err, "%s:%s: %s", place->host, place->port,
                       s.error[0]   ? s.error
                       : s.nameless ? "a master of the cluster announces no host name; "
                                      "set its cluster-announce-hostname"
                                    : "the cluster has slots without a master");
    return links_wait(a, err);
}

static int open_cluster(struct import_redis *a, const struct redis_conf *conf,
                        struct err *err)
{
    int result = -1;
    a->link_of = mem_alloc(REDIS_SLOTS * sizeof(*a->link_of));
    for (size_t i = 0; i < conf->url.place_count && result < 0; i++)
        result = find_masters(a, conf, &conf->url.places[i], err);
    return result;
}

/* --- one server, or Sentinel --- */

/* Reject a cluster node without redis+cluster://: only a part of the data would be
 * imported. */
static int refuse_cluster_node(struct import_redis *a, struct err *err)
{
    static const struct slice args[] = {SLICE_LIT("INFO"), SLICE_LIT("cluster")};
    struct import_value reply;
    if (import_redis_commands(a, 0, args, 2, 1, &reply, err) < 0)
        return -1;
    bool is_node =
        reply.kind == IMPORT_TEXT && strstr(reply.text.p, "cluster_enabled:1") != NULL;
    import_values_free(&reply, 1);
    return is_node ? err_set(err, "the server is a node of a Redis Cluster; write "
                                  "redis+cluster://HOST:PORT")
                   : 0;
}

static int open_one(struct import_redis *a, const struct redis_conf *conf,
                    const char *sentinel_user, const char *sentinel_password,
                    struct err *err)
{
    struct redis_conf own = *conf;
    if (conf->url.kind == REDIS_SENTINEL) {
        a->sentinel = sentinel_new(conf, sentinel_user, sentinel_password);
        own.finder = sentinel_finder(a->sentinel);
        own.master_only = true;
    }
    link_add(a, &own, NULL, NULL);
    return links_wait(a, err) < 0 ? -1 : refuse_cluster_node(a, err);
}

struct import_redis *import_redis_open(const struct redis_conf *conf,
                                       const char *sentinel_user,
                                       const char *sentinel_password, struct err *err)
{
    struct import_redis *a = mem_alloc(sizeof(*a));
    int result = conf->url.kind == REDIS_CLUSTER
                     ? open_cluster(a, conf, err)
                     : open_one(a, conf, sentinel_user, sentinel_password, err);
    a->opened = result == 0;
    if (a->opened)
        return a;
    import_redis_close(a);
    return NULL;
}

void import_redis_close(struct import_redis *a)
{
    if (a == NULL)
        return;
    links_free(a);
    sentinel_free(a->sentinel);
    free(a->links);
    free(a->link_of);
    loop_defer_free(a);
}

/* --- values --- */

static struct slice copy(const char *p, size_t n)
{
    return (struct slice){mem_strndup(p, n), n};
}

static void to_value(const struct redisReply *reply, struct import_value *v,
                     unsigned depth)
{
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        v->kind = IMPORT_TEXT;
        v->text = copy(reply->str, reply->len);
        return;
    case REDIS_REPLY_ERROR:
        v->kind = IMPORT_ERROR;
        v->text = copy(reply->str, reply->len);
        return;
    case REDIS_REPLY_INTEGER:
        v->kind = IMPORT_INTEGER;
        v->integer = reply->integer;
        return;
    case REDIS_REPLY_ARRAY:
        v->kind = IMPORT_LIST;
        v->count = depth < VALUE_DEPTH_MAX ? reply->elements : 0;
        v->item = mem_alloc(v->count * sizeof(*v->item));
        for (size_t i = 0; i < v->count; i++)
            to_value(reply->element[i], &v->item[i], depth + 1);
        return;
    default:
        v->kind = IMPORT_NIL;
        return;
    }
}

/* --- commands --- */

struct answer {
    struct import_redis *owner;
    struct import_value *value;
};

static bool is_redirect(const struct import_value *v)
{
    return v->kind == IMPORT_ERROR &&
           (strncmp(v->text.p, "MOVED ", 6) == 0 || strncmp(v->text.p, "ASK ", 4) == 0);
}

static void on_answer(void *arg, const struct redisReply *reply)
{
    struct answer *answer = arg;
    struct import_redis *a = answer->owner;
    if (reply == NULL)
        a->lost = true;
    else
        to_value(reply, answer->value, 0);
    a->redirected |= is_redirect(answer->value);
    if (--a->open == 0)
        loop_stop();
}

static struct link *link_of(const struct import_redis *a, const struct slice *args,
                            unsigned n)
{
    return a->links[a->link_of && n > 1 ? a->link_of[redis_slot(args[1])] : 0];
}

static struct link *link_of_node(const struct import_redis *a, int node)
{
    return a->links[a->link_of ? node + 1 : 0];
}

int import_redis_commands(struct import_redis *a, int node, const struct slice *args,
                          unsigned each, unsigned count, struct import_value *out,
                          struct err *err)
{
    struct answer *answers = mem_alloc(count * sizeof(*answers));
    memset(out, 0, count * sizeof(*out));
    for (unsigned i = 0; i < count && !a->lost; i++) {
        const struct slice *one = args + (size_t)i * each;
        struct link *l = node < 0 ? link_of(a, one, each) : link_of_node(a, node);
        answers[i] = (struct answer){a, &out[i]};
        a->open++;
        redis_command(l->redis, one, each, on_answer, &answers[i]);
    }
    while (a->open > 0)
        loop_run();
    free(answers);
    if (!a->lost && !a->redirected)
        return 0;
    import_values_free(out, count);
    /* Abort: keys may have moved to nodes that the scan has already passed. */
    if (a->lost)
        err_set(err, "the connection was lost: %s", a->why[0] ? a->why : "no reply");
    else
        err_set(err, "slots of the cluster moved during the import; run the import again "
                     "when the resharding has finished");
    return a->opened ? err_in(err, "the original's Redis") : -1;
}

unsigned import_redis_node_count(const struct import_redis *a)
{
    return a->link_of ? a->count - 1 : 1;
}

/* The error for a foreign key with the name of a key of the original. import_redis_send()
 * ignores it. */
static const char wrong_type[] = "WRONGTYPE";

static void on_send_reply(void *arg, const struct redisReply *reply)
{
    struct import_redis *a = arg;
    if (reply == NULL)
        a->lost = true;
    else if (reply->type == REDIS_REPLY_ERROR &&
             strncmp(reply->str, wrong_type, strlen(wrong_type)) != 0)
        note_error(a, reply->str);
    a->unanswered--;
    loop_stop();
}

void import_redis_send(struct import_redis *a, const struct slice *args, unsigned n)
{
    if (a->lost)
        return;
    a->unanswered++;
    redis_command(link_of(a, args, n)->redis, args, n, on_send_reply, a);
}

unsigned import_redis_unanswered(const struct import_redis *a)
{
    return a->unanswered;
}

const char *import_redis_error(const struct import_redis *a)
{
    if (a->why[0] != '\0')
        return a->why;
    return a->lost ? "the connection was lost" : NULL;
}
