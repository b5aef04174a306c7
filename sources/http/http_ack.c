/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_ack.c - acknowledges many jobs in one request.
 *
 * The whole body is parsed first, so that an error in it leaves all jobs unchanged. The
 * answer contains the outcome for each job, as for a single job (http_queue.c).
 */
#include "bridge/base/text.h"
#include "sources/http/http_source.h"

#include <stdlib.h>

#include <jansson.h>

enum { ACK_MAX = 1000 /* jobs per request */ };

struct args {
    struct slice queue;
};
static const struct http_param params[] = {HTTP_QUEUE_ROW(offsetof(struct args, queue)),
                                           {0}};
const struct http_args http_ack_args = {.size = sizeof(struct args), .params = params};

struct ack {
    struct acks *acks;
    struct slice id;  /* points into acks->body or bytes */
    struct buf bytes; /* decoded id_base64 */
    int64_t token;
};

struct acks {
    struct httpd_req *req;
    json_t *body;
    unsigned open; /* jobs without an answer, plus one while jobs are being passed on */
    unsigned acked, count;
    struct buf failed;
    struct ack ack[];
};

static void acks_free(struct acks *a)
{
    for (unsigned i = 0; i < a->count; i++)
        buf_free(&a->ack[i].bytes);
    buf_free(&a->failed);
    json_decref(a->body);
    free(a);
}

/* ------------------------------------------------------------------ the answer */

static const char *word(enum queue_code code, enum queue_state was)
{
    static const char *const words[] = {[QUEUE_NONE] = "not-found",
                                        [QUEUE_REFUSED] = "not-held",
                                        [QUEUE_NO_ROUTE] = "no-route",
                                        [QUEUE_AWAY] = "unavailable"};
    return code == QUEUE_REFUSED && was == QUEUE_ENDED ? "ended" : words[code];
}

static void one_less(struct acks *a)
{
    struct buf json = {0};
    if (--a->open > 0)
        return;
    buf_addf(&json, "{\"acked\":%u,\"failed\":[", a->acked);
    buf_add_slice(&json, buf_slice(&a->failed));
    buf_add_str(&json, "]}\n");
    httpd_answer_json(a->req, 200, &json);
    acks_free(a);
}

static void on_ended(void *arg, enum queue_code code, enum queue_state was)
{
    struct ack *ack = arg;
    struct acks *a = ack->acks;
    if (code == QUEUE_OK) {
        a->acked++;
    } else {
        buf_add_str(&a->failed, a->failed.n ? ",{" : "{");
        text_add_json_id(&a->failed, ack->id);
        buf_addf(&a->failed, ",\"error\":\"%s\"}", word(code, was));
    }
    one_less(a);
}

/* ----------------------------------------------------------------- the request */

/* Reads the id in the format of a pull: "id_base64" overrides "id". */
static int read_one(struct acks *a, json_t *job, struct err *err)
{
    static const struct http_param row = {
        "token", HTTP_INT, 0, .from = FROM_QUERY, .min = 1, .max = INT64_MAX};
    struct ack *ack = &a->ack[a->count++];
    struct slice id = {0}, base64 = {0}, token = {0};
    ack->acks = a;
    if (json_unpack(job, "{s?s%, s?s%, s:s%}", "id", &id.p, &id.n, "id_base64", &base64.p,
                    &base64.n, "token", &token.p, &token.n) < 0 ||
        (id.p == NULL && base64.p == NULL))
        return err_set(err, "each job must have an \"id\" and a \"token\", both strings");
    if (base64.p && text_base64_decode(base64, &ack->bytes) < 0)
        return err_set(err, "id_base64 is not base64");
    ack->id = base64.p ? buf_slice(&ack->bytes) : id;
    return http_param_set(&row, token, &ack->token, err);
}

static struct acks *read_all(struct httpd_req *req, struct err *err)
{
    json_error_t why;
    struct slice text = httpd_body(req);
    json_t *body =
        json_loadb(text.p, text.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    json_t *jobs = NULL;
    bool read = json_unpack(body, "{s:o!}", "jobs", &jobs) == 0;
    size_t n = read ? json_array_size(jobs) : 0;
    if (n == 0 || n > ACK_MAX) {
        err_set(err, "the body must be JSON: {\"jobs\": [1 to %d jobs]}", ACK_MAX);
        json_decref(body);
        return NULL;
    }
    struct acks *a = mem_alloc(sizeof(*a) + n * sizeof(a->ack[0]));
    a->req = req;
    a->body = body;
    for (size_t i = 0; i < n; i++) {
        if (read_one(a, json_array_get(jobs, i), err) < 0) {
            acks_free(a);
            return NULL;
        }
    }
    return a;
}

void http_ack(void *arg, struct httpd_req *req)
{
    const struct args *args = httpd_args(req);
    struct err err;
    struct acks *a = read_all(req, &err);
    if (a == NULL) {
        httpd_error(req, 400, "bad-request", "%s", err.text);
        return;
    }
    a->open = 1 + a->count;
    for (unsigned i = 0; i < a->count; i++) {
        const struct queue_finish how = {
            .lease = a->ack[i].token, .end = QUEUE_END_ACKED, .alive_only = true};
        queue_finish(arg, args->queue, a->ack[i].id, &how, on_ended, &a->ack[i]);
    }
    one_less(a);
}
