/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/http/http_queue.h"

const struct httpd_route http_queue_rows[] = {
    {"POST", "/v1/queues/{}/pull", http_queue_pull, HTTPD_CONSUME, NULL},
    {"POST", "/v1/queues/{}/ack", http_queue_ack, HTTPD_CONSUME, NULL},
    {"GET", "/v1/queues/{}/jobs/{}", http_queue_get, HTTPD_EITHER, NULL},
    {"DELETE", "/v1/queues/{}/jobs/{}", http_queue_delete, HTTPD_EITHER, NULL},
    {"POST", "/v1/queues/{}/jobs/{}/release", http_queue_release, HTTPD_CONSUME, NULL},
    {"POST", "/v1/queues/{}/jobs/{}/touch", http_queue_touch, HTTPD_CONSUME, NULL},
    {"GET", "/v1/queues/{}/peek", http_queue_peek, HTTPD_CONSUME, NULL},
    {"GET", "/v1/queues", http_queue_list, HTTPD_CONSUME, NULL},
    {"GET", "/v1/queues/{}", http_queue_count, HTTPD_CONSUME, NULL},
    {"DELETE", "/v1/queues/{}", http_queue_destroy, HTTPD_ADMIN, NULL},
    {"POST", "/v1/queues/{}/dead/respawn", http_queue_respawn, HTTPD_ADMIN, NULL},
    {"DELETE", "/v1/queues/{}/dead", http_queue_drop_dead, HTTPD_ADMIN, NULL},
    {0},
};

bool http_queue_failed(struct httpd_req *req, enum queue_code code)
{
    switch (code) {
    case QUEUE_OK:
        return false;
    case QUEUE_NONE:
        httpd_error(req, 404, "not-found", "no such job: it is over, or was never there");
        return true;
    case QUEUE_REFUSED:
        httpd_error(req, 409, "not-held",
                    "the job is not in flight, or another consumer's by now");
        return true;
    case QUEUE_NO_ROUTE:
        httpd_error(req, 404, "no-route",
                    "no route leads there: it takes from = \"http\" and a sink of type "
                    "\"queue\" under routes: { }");
        return true;
    case QUEUE_AWAY:
        http_answer_busy(req, "Redis did not answer; ask again");
        return true;
    }
    return false;
}

void http_queue_bad(struct httpd_req *req, const struct err *err)
{
    httpd_error(req, 400, "bad-request", "%s", err->text);
}

bool http_queue_is_name(struct httpd_req *req, struct slice name)
{
    if (name.n > 0 && name.n <= JOB_TOPIC_MAX)
        return true;
    httpd_error(req, 400, "bad-request", "a queue's name has 1 to %d bytes",
                JOB_TOPIC_MAX);
    return false;
}
