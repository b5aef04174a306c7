/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/import/redis_ask.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { VALUE_DEPTH_MAX = 8 };

struct ask {
    struct redis *redis;
    bool up, lost;
    char why[256];
    struct import_value *out; /* of the next answer; NULL: nobody asks */
    unsigned open;            /* answers that ask_each() waits for */
    unsigned behind;
};

static void keep_why(struct ask *a, const char *why)
{
    if (a->why[0] == '\0')
        snprintf(a->why, sizeof(a->why), "%s", why);
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct ask *a = arg;
    if (state == REDIS_UP) {
        a->up = true;
    } else if (state == REDIS_DOWN) {
        a->lost = true;
        keep_why(a, why);
    }
    loop_stop();
}

struct ask *ask_open(const struct redis_conf *conf, struct err *err)
{
    struct ask *a = mem_alloc(sizeof(*a));
    a->redis = redis_new(conf, on_state, a);
    while (!a->up && !a->lost)
        loop_run();
    if (a->lost) {
        err_set(err, "%s", a->why);
        ask_close(a);
        return NULL;
    }
    return a;
}

void ask_close(struct ask *a)
{
    if (a == NULL)
        return;
    redis_free(a->redis);
    loop_defer_free(a);
}

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

static void on_answer(void *arg, const struct redisReply *reply)
{
    struct ask *a = arg;
    if (reply == NULL)
        a->lost = true;
    else
        to_value(reply, a->out, 0);
    a->out++;
    if (--a->open == 0)
        loop_stop();
}

int ask_each(struct ask *a, const struct slice *args, unsigned each, unsigned count,
             struct import_value *out, struct err *err)
{
    memset(out, 0, count * sizeof(*out));
    a->out = out;
    for (unsigned i = 0; i < count && !a->lost; i++) {
        a->open++;
        redis_command(a->redis, args + (size_t)i * each, each, on_answer, a);
    }
    while (a->open > 0)
        loop_run();
    if (!a->lost)
        return 0;
    import_values_free(out, count);
    return err_set(err, "the connection was lost: %s", a->why[0] ? a->why : "no answer");
}

/* Somebody else's key in the place of one that the original would have made. */
static const char wrong_type[] = "WRONGTYPE";

static void on_behind(void *arg, const struct redisReply *reply)
{
    struct ask *a = arg;
    if (reply == NULL)
        a->lost = true;
    else if (reply->type == REDIS_REPLY_ERROR &&
             strncmp(reply->str, wrong_type, strlen(wrong_type)) != 0)
        keep_why(a, reply->str);
    a->behind--;
    loop_stop();
}

void ask_behind(struct ask *a, const struct slice *args, unsigned n)
{
    if (a->lost)
        return;
    a->behind++;
    redis_command(a->redis, args, n, on_behind, a);
}

unsigned ask_behind_count(const struct ask *a)
{
    return a->behind;
}

const char *ask_complaint(const struct ask *a)
{
    if (a->why[0] != '\0')
        return a->why;
    return a->lost ? "the connection was lost" : NULL;
}
