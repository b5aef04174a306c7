/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_limit.c - rate limits of tokens: stored in the kv "limits" as POOL/NS/TOKEN ->
 * JSON, and counted in Redis by kv_tally() across all instances.
 */
#include "bridge/base/text.h"
#include "bridge/base/json.h"
#include "bridge/base/when.h"
#include "sources/lmstfy/lmstfy.h"

#include <inttypes.h>
#include <stdlib.h>

struct limit { /* requests per window; 0 or less: no limit */
    int64_t read, write;
    int64_t interval; /* seconds of a window */
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

/* Returns the allowed requests of that kind per window; 0: no limit. text.p NULL: no
 * limit. */
static int64_t limit_of(struct slice text, bool produces, int64_t *window_ms)
{
    struct limit limit;
    if (text.p == NULL || limit_read(text, &limit) < 0 || limit.interval <= 0)
        return 0; /* nothing that we put there */
    int64_t most = produces ? limit.write : limit.read;
    *window_ms =
        limit.interval < WHEN_LAST_MS / 1000 ? limit.interval * 1000 : WHEN_LAST_MS / 2;
    return most > 0 ? most : 0;
}

/* Valid until the next lmstfy_key(). */
static struct slice tally_of(struct lmstfy_req *r)
{
    lmstfy_key(r);
    buf_add_str(&r->l->key, r->row->produces ? "/w" : "/r");
    return buf_slice(&r->l->key);
}

static void answer_away(struct lmstfy_req *r)
{
    lmstfy_answer_member(r, 500, "err", "cannot read the rate limits from Redis");
}

static void on_counted(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    struct buf text = {0};
    r->limited = code == KV_OK;
    if (code == KV_OK) {
        lmstfy_run(r);
    } else if (code == KV_AWAY) {
        answer_away(r);
    } else {
        lmstfy_count_limited(r);
        buf_addf(&text, "token(%.*s) %s reach the limit rate, please retry later",
                 SLICE_ARG(r->token), r->row->produces ? "produce" : "consume");
        lmstfy_answer_member(r, 429, "msg", buf_str(&text));
        buf_free(&text);
    }
}

static void on_limit(void *arg, enum kv_code code, struct slice text)
{
    struct lmstfy_req *r = arg;
    int64_t window_ms = 0, most = limit_of(text, r->row->produces, &window_ms);
    if (code == KV_AWAY)
        answer_away(r);
    else if (most > 0)
        kv_tally(r->l->api.src, tally_of(r), 1, most, window_ms, on_counted, r);
    else
        lmstfy_run(r);
}

void lmstfy_limit_acquire(struct lmstfy_req *r)
{
    lmstfy_look_up(r, &r->l->limits, on_limit);
}

static void on_released(void *arg, enum kv_code code)
{
    (void)arg, (void)code; /* ignore an error: the window ends soon */
}

void lmstfy_limit_release(struct lmstfy_req *r)
{
    kv_tally(r->l->api.src, tally_of(r), -1, 0, 0, on_released, NULL);
}

/* Appends an entry of the list. -1: an invalid entry. */
static int add_listed(struct buf *out, const struct kv_item *item)
{
    struct limit limit;
    struct slice token = item->field, pool = text_cut(&token, '/'),
                 ns = text_cut(&token, '/');
    if (token.p == NULL || limit_read(item->value, &limit) < 0)
        return -1;
    buf_add_str(out, "{\"namespace\":");
    text_add_json_go(out, ns);
    buf_add_str(out, ",\"token\":");
    lmstfy_add_token(out, pool, token, false);
    buf_add_str(out, ",\"limiter\":");
    limit_add_json(out, &limit);
    buf_add_str(out, "}");
    return 0;
}

static void on_listed(void *arg, enum kv_code code, const struct kv_item *items,
                      unsigned n)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code != KV_OK))
        return;
    struct kv_item *sorted = lmstfy_sorted(items, n);
    buf_add_str(&r->out, "[");
    for (unsigned i = 0; i < n; i++) {
        size_t was = r->out.n;
        if (was > 1)
            buf_add_str(&r->out, ",");
        if (add_listed(&r->out, &sorted[i]) < 0)
            r->out.n = was;
    }
    buf_add_str(&r->out, "]");
    free(sorted);
    lmstfy_answer(r, 200);
}

/* Ignores force_update: the list is always read from Redis. */
void lmstfy_limit_list(struct lmstfy_req *r)
{
    kv_list(r->l->api.src, LMSTFY_LIMITS_KV, on_listed, r);
}

/* ------------------------------------------------------------ one limit */

static void on_shown(void *arg, enum kv_code code, struct slice value)
{
    struct lmstfy_req *r = arg;
    struct limit limit;
    if (code == KV_AWAY) {
        lmstfy_internal_error(r);
    } else if (code == KV_NOT || limit_read(value, &limit) < 0) {
        buf_add_str(&r->out, "null");
        lmstfy_answer(r, 404);
    } else {
        limit_add_json(&r->out, &limit);
        lmstfy_answer(r, 200);
    }
}

void lmstfy_limit_get(struct lmstfy_req *r)
{
    if (lmstfy_token_of_path(r) == 0)
        kv_get(r->l->api.src, LMSTFY_LIMITS_KV, lmstfy_key(r), on_shown, r);
}

static const char *error_of(struct lmstfy_req *r, struct limit *limit)
{
    if (limit_read(httpd_body(r->req), limit) < 0)
        return "the body should be a JSON object with the integers read, write, interval";
    if (limit->read <= 0 && limit->write <= 0)
        return "limiter read and write can't be <= 0 at the same time";
    if (limit->interval <= 0)
        return "interval should be > 0";
    if (!lmstfy_name_is_valid(r->ns))
        return "namespace name contains forbidden characters";
    return NULL;
}

static void answer_exists(struct lmstfy_req *r)
{
    struct buf text = {0};
    buf_addf(&text, "throttler token(%.*s) has already exists", SLICE_ARG(r->token));
    lmstfy_error(r, 409, buf_str(&text));
    buf_free(&text);
}

/* POST adds a limit, PUT sets it. */
static bool is_new(const struct lmstfy_req *r)
{
    return strcmp(r->row->method, "POST") == 0;
}

static void on_put(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    if (code == KV_OK)
        lmstfy_answer(r, is_new(r) ? 201 : 200);
    else if (code == KV_NOT)
        answer_exists(r);
    else
        lmstfy_internal_error(r);
}

void lmstfy_limit_put(struct lmstfy_req *r)
{
    struct limit limit;
    struct buf json = {0};
    const char *wrong = error_of(r, &limit);
    if (wrong) {
        lmstfy_error(r, 400, wrong);
        return;
    }
    if (lmstfy_token_of_path(r) < 0)
        return;
    limit_add_json(&json, &limit);
    buf_add_str(&r->out, "{\"limiter\":");
    buf_add_slice(&r->out, buf_slice(&json));
    buf_add_str(&r->out, "}");
    kv_put(r->l->api.src, LMSTFY_LIMITS_KV, lmstfy_key(r), buf_slice(&json), is_new(r),
           on_put, r);
    buf_free(&json);
}

static void on_dropped(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == KV_AWAY))
        return;
    buf_add_str(&r->out, "{\"msg\":\"success\"}");
    lmstfy_answer(r, 200);
}

void lmstfy_limit_delete(struct lmstfy_req *r)
{
    if (lmstfy_token_of_path(r) == 0)
        kv_drop(r->l->api.src, LMSTFY_LIMITS_KV, lmstfy_key(r), on_dropped, r);
}
