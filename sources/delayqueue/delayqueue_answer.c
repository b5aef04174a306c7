/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "sources/delayqueue/delayqueue_server.h"

static const char text_type[] = "text/plain; charset=utf-8";
const char delayqueue_done[] = "操作成功";

static void answer(struct httpd_req *req, int code, const char *message,
                   struct slice data)
{
    struct buf json = {0};
    buf_addf(&json, "{\"code\":%d,\"message\":", code);
    text_add_json_go(&json, slice_of(message));
    buf_add_str(&json, ",\"data\":");
    buf_add_slice(&json, data.p ? data : SLICE_LIT("null"));
    buf_add_str(&json, "}");
    httpd_answer(req, 200, text_type, buf_slice(&json));
    buf_free(&json);
}

void delayqueue_ok(struct httpd_req *req, const char *message, struct slice data)
{
    answer(req, 0, message, data);
}

void delayqueue_error(struct httpd_req *req, const char *message)
{
    answer(req, 1, message, (struct slice){NULL, 0});
}

void delayqueue_trouble(struct httpd_req *req, enum queue_code code)
{
    delayqueue_error(req, code == QUEUE_NO_ROUTE
                              ? "no route takes this topic, or the queue it ends at has "
                                "no global_ids; see the configuration"
                              : "Redis did not answer; the outcome is unknown, send it "
                                "again");
}

void delayqueue_not_found(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_add(req, "X-Content-Type-Options", "nosniff");
    httpd_answer(req, 404, text_type, SLICE_LIT("404 page not found\n"));
}

/* A path that can't be read is none of the API's; there every answer has status 200. */
void delayqueue_refuse(void *arg, struct httpd_req *req, unsigned status,
                       const char *word, const char *why)
{
    (void)arg;
    (void)word;
    if (status == 400)
        httpd_answer(req, 400, text_type, SLICE_LIT("400 Bad Request"));
    else
        delayqueue_error(req, why);
}
