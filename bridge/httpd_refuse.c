/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_refuse.c - the answers that the server gives by itself.
 */
#include "bridge/httpd_parts.h"
#include "bridge/mem.h"

#include <stdio.h>

/* What the refusals say: {"error": word, "message": before DETAIL after}. */
static const struct {
    const char *word, *before, *after;
    unsigned status;
    bool again; /* Retry-After: 1 */
    bool close; /* the connection ends */
} refusals[] = {
    [NO_PATH] = {"not-found", "there is nothing at this path", "", 404, false, false},
    [BAD_PATH] = {"bad-path", "the path is none, or has a % without two hex digits", "",
                  400, false, false},
    [NO_METHOD] = {"bad-method", "this path takes ", " only", 405, false, false},
    [TOO_LARGE] = {"oversize", "the body is larger than the ", " bytes allowed", 413,
                   false, false},
    [CROWDED] = {"full", "too many bodies are being received; send it again", "", 503,
                 true, false},
    [DRAINED] = {"stopping", "the daemon is stopping; send it again", "", 503, true,
                 true},
};

/* Every method the path has. */
static void list_methods(const struct httpd_req *req, struct buf *allow)
{
    struct httpd_path path;
    struct slice took[HTTPD_TOOK_MAX];
    struct buf room = {0};
    if (httpd_path_split(&path, req->path, buf_room(&room, req->path.n)) == 0) {
        for (size_t i = 0; i < req->h->rows_n; i++) {
            const struct httpd_row *row = &req->h->rows[i];
            if (httpd_pattern_match(&row->pattern, &path, took) < 0)
                continue;
            buf_addf(allow, "%s%s%s", allow->n ? ", " : "", row->route->method,
                     strcmp(row->route->method, "GET") == 0 ? ", HEAD" : "");
        }
    }
    buf_free(&room);
}

void httpd_refuse(struct httpd_req *req)
{
    enum httpd_refusal what = req->refusal;
    char why[512], number[24];
    struct buf allow = {0};
    const char *detail = "";
    if (what == NO_METHOD) {
        list_methods(req, &allow);
        detail = buf_str(&allow);
        httpd_add(req, "Allow", detail);
    } else if (what == TOO_LARGE) {
        snprintf(number, sizeof(number), "%lld", (long long)req->h->conf.body_max);
        detail = number;
    }
    if (refusals[what].again)
        httpd_add(req, "Retry-After", "1");
    if (refusals[what].close)
        httpd_add(req, "Connection", "close");
    snprintf(why, sizeof(why), "%s%s%s", refusals[what].before, detail,
             refusals[what].after);
    if (req->h->shape)
        req->h->shape(req->h->shape_arg, req, refusals[what].status, refusals[what].word,
                      why);
    else
        httpd_error(req, refusals[what].status, refusals[what].word, "%s", why);
    must(req->stage == ANSWERED);
    buf_free(&allow);
}
