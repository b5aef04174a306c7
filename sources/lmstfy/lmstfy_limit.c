/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_limit.c - limits of tokens: on the shelf "limits", POOL/NS/TOKEN -> JSON, and
 * counted in Redis by shelf_tally(), so that they hold for all instances together.
 */
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/lmstfy/lmstfy_copy.h"

#include <inttypes.h>
#include <stdlib.h>

struct limit { /* requests per window; 0 or less: as many as they like */
    int64_t read, write;
    int64_t interval; /* s, of a window */
};

static const struct json_field fields[] = {
    {.name = "read", .type = JSON_INT, .offset = offsetof(struct limit, read)},
    {.name = "write", .type = JSON_INT, .offset = offsetof(struct limit, write)},
    {.name = "interval", .type = JSON_INT, .offset = offsetof(struct limit, interval)},
    {0},
};

static int limit_read(struct slice text, struct limit *limit)
{
    struct buf room = {0};
    *limit = (struct limit){0};
    int result = json_read(text, fields, limit, &room);
    buf_free(&room);
    return result;
}

static void limit_add_json(struct buf *out, const struct limit *limit)
{
    buf_addf(out, "{\"read\":%" PRId64 ",\"write\":%" PRId64 ",\"interval\":%" PRId64 "}",
             limit->read, limit->write, limit->interval);
}

/* ------------------------------------------------------------ counting */

struct take {
    struct lmstfy *l;
    enum lmstfy_action action;
    struct buf key; /* POOL/NS/TOKEN; then the name of its tally */
    size_t pool_n, ns_n;
    lmstfy_cb *cb;
    void *arg;
};

static const char *const tally_suffix[] = {
    [LMSTFY_PRODUCE] = "/w", [LMSTFY_CONSUME] = "/r"};

static void take_end(struct take *t, enum lmstfy_answer answer)
{
    t->cb(t->arg, answer);
    lmstfy_let_go(t->l);
    buf_free(&t->key);
    free(t);
}

static void count_refused(const struct take *t)
{
    const char *p = t->key.p;
    size_t before = t->pool_n + t->ns_n + 2;
    lmstfy_count_refused(
        t->l, (struct slice){p, t->pool_n}, (struct slice){p + t->pool_n + 1, t->ns_n},
        (struct slice){p + before, t->key.n - before - strlen(tally_suffix[t->action])},
        t->action);
}

static void on_counted(void *arg, enum shelf_code code)
{
    static const enum lmstfy_answer answers[] = {
        [SHELF_OK] = LMSTFY_YES, [SHELF_NOT] = LMSTFY_NO, [SHELF_AWAY] = LMSTFY_AWAY};
    struct take *t = arg;
    if (code == SHELF_NOT)
        count_refused(t);
    take_end(t, answers[code]);
}

/* Requests of that kind in one window; 0: no limit. */
static int64_t limit_of(struct slice text, enum lmstfy_action action, int64_t *window_ms)
{
    struct limit limit;
    if (limit_read(text, &limit) < 0 || limit.interval <= 0)
        return 0; /* nothing that we put there */
    int64_t most = action == LMSTFY_CONSUME ? limit.read : limit.write;
    *window_ms =
        limit.interval < WHEN_LAST_MS / 1000 ? limit.interval * 1000 : WHEN_LAST_MS / 2;
    return most > 0 ? most : 0;
}

static void tally(struct take *t, int64_t most, int64_t window_ms)
{
    buf_add_str(&t->key, tally_suffix[t->action]);
    shelf_tally(t->l->src, buf_slice(&t->key), 1, most, window_ms, on_counted, t);
}

static void on_got(void *arg, enum shelf_code code, struct slice value)
{
    struct take *t = arg;
    int64_t window_ms = 0;
    int64_t most = code == SHELF_OK ? limit_of(value, t->action, &window_ms) : 0;
    if (most > 0)
        tally(t, most, window_ms);
    else
        take_end(t, code == SHELF_AWAY ? LMSTFY_AWAY : LMSTFY_YES);
}

enum lmstfy_answer lmstfy_limit_take(struct lmstfy *l, struct slice pool, struct slice ns,
                                     struct slice token, enum lmstfy_action action,
                                     lmstfy_cb *cb, void *arg)
{
    struct lmstfy_copy *limits = l->limits;
    int64_t window_ms = 0, most = 0;
    if (limits == NULL)
        return LMSTFY_AWAY;
    if (limits->fresh && limits->n == 0)
        return LMSTFY_YES;
    buf_clear(&limits->key);
    lmstfy_add_key(&limits->key, pool, ns, token);
    if (limits->fresh) {
        const struct shelf_item *item = lmstfy_copy_find(limits, buf_slice(&limits->key));
        most = item ? limit_of(item->value, action, &window_ms) : 0;
        if (most == 0)
            return LMSTFY_YES;
    }
    struct take *t = mem_alloc(sizeof(*t));
    *t = (struct take){
        .l = l, .action = action, .pool_n = pool.n, .ns_n = ns.n, .cb = cb, .arg = arg};
    buf_add_slice(&t->key, buf_slice(&limits->key));
    lmstfy_hold(l);
    if (most > 0)
        tally(t, most, window_ms);
    else
        shelf_get(l->src, LMSTFY_LIMITS_SHELF, buf_slice(&t->key), on_got, t);
    return LMSTFY_LATER;
}

static void on_given_back(void *arg, enum shelf_code code)
{
    (void)code; /* lost: the window is over soon */
    lmstfy_let_go(arg);
}

void lmstfy_limit_give_back(struct lmstfy *l, struct slice pool, struct slice ns,
                            struct slice token, enum lmstfy_action action)
{
    struct lmstfy_copy *limits = l->limits;
    if (limits == NULL)
        return;
    buf_clear(&limits->key);
    lmstfy_add_key(&limits->key, pool, ns, token);
    buf_add_str(&limits->key, tally_suffix[action]);
    lmstfy_hold(l);
    shelf_tally(l->src, buf_slice(&limits->key), -1, 0, 0, on_given_back, l);
}

/* ------------------------------------------------------------ GET /limits */

/* "POOL/NS/TOKEN" as the list shows it. -1: nothing that we put there. */
static int add_listed(struct buf *out, const struct shelf_item *item)
{
    struct limit limit;
    struct buf shown = {0};
    const char *p = item->field.p, *end = p + item->field.n;
    const char *ns = memchr(p, '/', item->field.n);
    const char *token = ns ? memchr(ns + 1, '/', (size_t)(end - ns - 1)) : NULL;
    if (token == NULL || limit_read(item->value, &limit) < 0)
        return -1;
    struct slice pool = {p, (size_t)(ns - p)};
    if (!slice_is(pool, "default")) {
        buf_add_slice(&shown, pool);
        buf_add_str(&shown, ":");
    }
    buf_add(&shown, token + 1, (size_t)(end - token - 1));
    buf_add_str(out, "{\"namespace\":");
    text_add_json_go(out, (struct slice){ns + 1, (size_t)(token - ns - 1)});
    buf_add_str(out, ",\"token\":");
    text_add_json_go(out, buf_slice(&shown));
    buf_add_str(out, ",\"limiter\":");
    limit_add_json(out, &limit);
    buf_add_str(out, "}");
    buf_free(&shown);
    return 0;
}

static void on_listed(void *arg, enum shelf_code code, const struct shelf_item *items,
                      unsigned n)
{
    struct lmstfy_call *call = arg;
    if (code != SHELF_OK) {
        lmstfy_call_away(call);
        return;
    }
    struct shelf_item *sorted = mem_alloc((n + 1) * sizeof(*sorted));
    for (unsigned i = 0; i < n; i++)
        sorted[i] = items[i];
    qsort(sorted, n, sizeof(*sorted), lmstfy_copy_order);
    buf_add_str(&call->out, "[");
    for (unsigned i = 0; i < n; i++) {
        size_t was = call->out.n;
        if (was > 1)
            buf_add_str(&call->out, ",");
        if (add_listed(&call->out, &sorted[i]) < 0)
            call->out.n = was;
    }
    buf_add_str(&call->out, "]");
    free(sorted);
    lmstfy_call_json(call, 200);
}

/* force_update needs no look: the list always comes from Redis. */
void lmstfy_limit_list(struct lmstfy_call *call)
{
    shelf_list(call->l->src, LMSTFY_LIMITS_SHELF, on_listed, call);
}

/* ------------------------------------------------------------ one limit */

static void on_shown(void *arg, enum shelf_code code, struct slice value)
{
    struct lmstfy_call *call = arg;
    struct limit limit;
    if (code == SHELF_AWAY) {
        lmstfy_call_away(call);
    } else if (code == SHELF_NOT || limit_read(value, &limit) < 0) {
        buf_add_str(&call->out, "null");
        lmstfy_call_json(call, 404);
    } else {
        limit_add_json(&call->out, &limit);
        lmstfy_call_json(call, 200);
    }
}

void lmstfy_limit_get(struct lmstfy_call *call)
{
    if (lmstfy_call_key(call) == 0)
        shelf_get(call->l->src, LMSTFY_LIMITS_SHELF, buf_slice(&call->key), on_shown,
                  call);
}

static const char *what_is_wrong(struct lmstfy_call *call, struct limit *limit)
{
    if (limit_read(httpd_body(call->req), limit) < 0)
        return "the body should be a JSON object with the integers read, write, interval";
    if (limit->read <= 0 && limit->write <= 0)
        return "limiter read and write can't be <= 0 at the same time";
    if (limit->interval <= 0)
        return "interval should be > 0";
    if (lmstfy_call_ns(call).n == 0)
        return "namespace name contains forbidden characters";
    return NULL;
}

static void answer_exists(struct lmstfy_call *call)
{
    struct buf text = {0};
    struct slice pool, token;
    lmstfy_cut_token(httpd_segment(call->req, 1), &pool, &token);
    buf_addf(&text, "throttler token(%.*s) has already exists", SLICE_ARG(token));
    lmstfy_call_error(call, 409, buf_str(&text));
    buf_free(&text);
}

static void on_put(struct lmstfy_call *call, enum shelf_code code, unsigned status)
{
    if (code == SHELF_OK)
        lmstfy_call_json(call, status);
    else if (code == SHELF_NOT)
        answer_exists(call);
    else
        lmstfy_call_away(call);
}

static void on_added(void *arg, enum shelf_code code)
{
    on_put(arg, code, 201);
}

static void on_set(void *arg, enum shelf_code code)
{
    on_put(arg, code, 200);
}

static void put(struct lmstfy_call *call, bool only_new, shelf_cb *cb)
{
    struct limit limit;
    struct buf json = {0};
    const char *wrong = what_is_wrong(call, &limit);
    if (wrong) {
        lmstfy_call_error(call, 400, wrong);
        return;
    }
    if (lmstfy_call_key(call) < 0)
        return;
    limit_add_json(&json, &limit);
    buf_add_str(&call->out, "{\"limiter\":");
    buf_add_slice(&call->out, buf_slice(&json));
    buf_add_str(&call->out, "}");
    shelf_put(call->l->src, LMSTFY_LIMITS_SHELF, buf_slice(&call->key), buf_slice(&json),
              only_new, cb, call);
    buf_free(&json);
}

void lmstfy_limit_add(struct lmstfy_call *call)
{
    put(call, true, on_added);
}

void lmstfy_limit_set(struct lmstfy_call *call)
{
    put(call, false, on_set);
}

static void on_dropped(void *arg, enum shelf_code code)
{
    struct lmstfy_call *call = arg;
    if (code == SHELF_AWAY) {
        lmstfy_call_away(call);
        return;
    }
    buf_add_str(&call->out, "{\"msg\":\"success\"}");
    lmstfy_call_json(call, 200);
}

void lmstfy_limit_delete(struct lmstfy_call *call)
{
    if (lmstfy_call_key(call) == 0)
        shelf_drop(call->l->src, LMSTFY_LIMITS_SHELF, buf_slice(&call->key), on_dropped,
                   call);
}
