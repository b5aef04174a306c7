/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_meta.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

/* --- PREFIX:meta --- */

struct ask {
    store_meta_cb *cb;
    void *arg;
};

static void on_meta(void *arg, const struct redisReply *r)
{
    struct ask *ask = arg;
    bool good = r && r->type == REDIS_REPLY_ARRAY && r->elements % 2 == 1;
    unsigned n = good ? (unsigned)r->elements - 1 : 0;
    struct slice *pairs = mem_alloc((n + 1) * sizeof(*pairs));
    for (unsigned i = 0; i < n; i++)
        pairs[i] = redis_text(r->element[i + 1]);
    ask->cb(ask->arg, good && r->element[0]->integer == 1, good ? pairs : NULL, n);
    free(pairs);
    free(ask);
}

void store_meta(struct store *st, const struct meta_change *changes, unsigned n,
                store_meta_cb *cb, void *arg)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    struct slice argv[3 * STORE_META_MAX];
    struct buf key = {0};
    must(n <= STORE_META_MAX);
    *ask = (struct ask){cb, arg};
    for (unsigned i = 0; i < n; i++) {
        argv[3 * i] = slice_of(changes[i].field);
        argv[3 * i + 1] = slice_of(changes[i].was ? changes[i].was : "");
        argv[3 * i + 2] = slice_of(changes[i].now);
    }
    buf_addf(&key, "%s:meta", store_prefix(st));
    store_script(st, SCRIPT_META, buf_slice(&key), argv, 3 * n, on_meta, ask);
    buf_free(&key);
}

/* --- what is there --- */

struct question {
    union {
        figure_cb *figure;
        names_cb *names;
    } cb;
    void *arg;
};

static void on_figure(void *arg, const struct redisReply *r)
{
    struct question *q = arg;
    int64_t n = r && r->type == REDIS_REPLY_INTEGER ? r->integer : -1;
    q->cb.figure(q->arg, r && redis_error(r) == REDIS_DENIED ? 0 : n);
    free(q);
}

void store_figure(struct store *st, const char *command, struct slice key, figure_cb *cb,
                  void *arg)
{
    const struct slice args[] = {slice_of(command), key};
    struct question *q = mem_alloc(sizeof(*q));
    *q = (struct question){.cb.figure = cb, .arg = arg};
    store_command(st, args, 2, on_figure, q);
}

static void on_names(void *arg, const struct redisReply *r)
{
    struct question *q = arg;
    unsigned n = (unsigned)redis_items(r);
    struct slice *names = mem_alloc((n + 1) * sizeof(*names));
    for (unsigned i = 0; i < n; i++)
        names[i] = redis_text(redis_item(r, i));
    q->cb.names(q->arg, r && r->type == REDIS_REPLY_ARRAY ? names : NULL, n);
    free(names);
    free(q);
}

void store_names(struct store *st, struct slice key, int64_t from, int64_t to,
                 names_cb *cb, void *arg)
{
    char first[24], last[24];
    snprintf(first, sizeof(first), "%" PRId64, from);
    snprintf(last, sizeof(last), "%" PRId64, to);
    const struct slice args[] = {SLICE_LIT("ZRANGE"), key, slice_of(first),
                                 slice_of(last)};
    struct question *q = mem_alloc(sizeof(*q));
    *q = (struct question){.cb.names = cb, .arg = arg};
    store_command(st, args, 4, on_names, q);
}
