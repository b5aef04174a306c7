/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_args.h - reads request parameters, described by rows, into the arguments of a
 * handler.
 *
 * A row of an API (struct httpd_route) references a struct http_args. Before it calls the
 * handler, the server reads, checks and converts the parameters into a struct of
 * args->size bytes; httpd_args() returns it. The server answers 400 if a parameter is
 * invalid. An API that must act first has no args in its row and calls httpd_read_args()
 * itself.
 *
 *   struct pull { struct slice name; int64_t max, wait_ms; };
 *   static const struct http_param pull_params[] = {
 *       {"a queue's name", HTTP_TEXT, AT(name), .from = FROM_PATH, .max = JOB_TOPIC_MAX},
 *       {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = 1, .min = 1, .max = 100},
 *       {"wait", HTTP_MS, AT(wait_ms), .from = FROM_QUERY, .max = 600000},
 *       {0}};
 *   ... {"POST", "/v1/queues/{}/pull", pull, HTTPD_CONSUME,
 *        HTTP_ARGS(struct pull, pull_params)}, ...
 *
 * A dialect is how an API differs from the native one: a struct http_dialect, set for the
 * API's listener by httpd_set_dialect(). Zeroed members mean: as in the native API.
 */
#ifndef BRIDGE_HTTP_ARGS_H
#define BRIDGE_HTTP_ARGS_H

#include "bridge/base/mem.h"
#include "bridge/http/httpd.h"

#include <stdbool.h>
#include <stdint.h>

enum http_type {
    /*             field          value                                        */
    HTTP_TEXT,   /* struct slice   anything; min, max: bytes, 0: any; p NULL: absent */
    HTTP_INT,    /* int64_t        a decimal integer; min = max: any            */
    HTTP_MS,     /* int64_t        30s, 1h30m, PT5M, 0                          */
    HTTP_BOOL,   /* int64_t        true, false                                  */
    HTTP_WHEN,   /* int64_t, ms    RFC 3339, or epoch, not before 1970          */
    HTTP_NUMBER, /* double         2.5, from 0.001 to max                       */
    HTTP_CHOICE, /* int64_t        index in choices                             */
    HTTP_TYPES
};
enum http_from {
    FROM_QUERY,  /* the first of that name, decoded */
    FROM_PATH,   /* the n-th row of this kind is the n-th {} of the path; name is used
                  * in error messages */
    FROM_HEADER, /* the first header of that name */
    FROM_JSON,   /* member of a JSON body (json.h); only HTTP_TEXT (absent: empty) and
                  * HTTP_INT */
    FROM_FORM    /* query, then body (httpd_each_param()); repeated HTTP_TEXT values
                  * are joined by ",", of other types the first counts */
};
struct http_param {
    const char *name;
    enum http_type type;
    size_t offset; /* of the field in the struct */
    enum http_from from;
    int64_t def, min, max;      /* def: value if absent; not for HTTP_TEXT */
    const char *const *choices; /* two or more, then NULL */
    bool required;              /* absence is an error */
    const char *wrong;          /* error message; NULL: generated */
};
enum { HTTP_PARAMS_MAX = 16 /* rows of one table */ };

struct http_args {
    size_t size; /* of the struct, bytes; members without a row are zero and free for
                  * the handler's use until it answers */
    const struct http_param *params; /* ends with a zeroed row */
    /* Checks what rows cannot express. -1: err contains the message. NULL: no check. */
    int (*check)(const void *args, struct err *err);
    bool others; /* ignore unknown query parameters; by default they are errors, so
                  * that a mistyped name does not silently mean the default */
};

/* For a row of an API: HTTP_ARGS(struct pull, pull_params, .others = true). */
#define HTTP_ARGS(type, ...)                                                             \
    &(const struct http_args)                                                            \
    {                                                                                    \
        .size = sizeof(type), .params = __VA_ARGS__                                      \
    }

/* Converts value into field. -1: invalid. */
typedef int http_set(const struct http_param *row, struct slice value, void *field,
                     struct err *err);
struct http_dialect {
    /* Answers an error before it returns: invalid parameters (400, "bad-request"), and
     * the server's own rejections (413 "oversize", 400 "bad-path", 503 "stopping", ...).
     * Response headers (Allow, Retry-After) are already added. Errors before a request
     * could be read do not use the dialect. NULL: httpd_error(). */
    void (*refuse)(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why);
    http_set *set[HTTP_TYPES]; /* converters; not used for HTTP_INT of FROM_JSON */
    const char *bad_body;      /* message if the body is not the required form or JSON */
    /* Appends a form text in this API's encoding; NULL: unchanged. */
    void (*add_text)(struct buf *out, struct slice text);
};
/* For the whole listener. dialect and arg must remain valid until httpd_stop(). */
void httpd_set_dialect(struct httpd *h, const struct http_dialect *dialect, void *arg);

/* Reads the arguments, which httpd_args() then returns. -1: err says what is wrong; no
 * response was sent. */
int httpd_read_args(struct httpd_req *req, const struct http_args *args, struct err *err);
/* Returns the struct of the row's args. Its slices are borrowed from the request. All
 * members are zero after the listener was stopped. */
void *httpd_args(const struct httpd_req *req);

/* Reads only the FROM_JSON rows, from body. to: args->size bytes. Its texts are in room,
 * which the caller frees. Pure. */
int http_args_read_json(const struct http_args *args, const struct http_dialect *dialect,
                        struct slice body, void *to, struct buf *room, struct err *err);
/* Converts one value by its row, as in the native API. -1: invalid. Pure. */
int http_param_set(const struct http_param *row, struct slice value, void *to,
                   struct err *err);
#endif
