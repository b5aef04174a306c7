/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_args.h - the parameters of a request, read by rows into the arguments of its
 * handler: the kit of all HTTP APIs.
 *
 * A row of an API (struct httpd_route) names its struct http_args. The server reads,
 * checks and converts the parameters into a struct of args->size bytes before it calls
 * the handler, which gets the struct from httpd_args(). It answers 400 when one does not
 * fit. An API that must do something else first has no args in its row and calls
 * httpd_read_args() itself.
 *
 *   struct pull { struct slice name; int64_t max, wait_ms; };
 *   static const struct http_param pull_params[] = {
 *       {"a queue's name", HTTP_TEXT, AT(name), .from = FROM_PATH, .max = JOB_TOPIC_MAX},
 *       {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = 1, .min = 1, .max = 100},
 *       {"wait", HTTP_MS, AT(wait_ms), .from = FROM_QUERY, .max = 600000},
 *       {0}};
 *   static const struct http_args pull_args = {sizeof(struct pull), pull_params};
 *
 * A dialect is how one API differs from the native one. To define it, fill a struct
 * http_dialect with what differs and hand it to httpd_set_dialect() for the listener of
 * that API. Zeroed members mean: as in the native API.
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
    FROM_PATH,   /* the n-th row of this kind is the n-th {} of the path; its name is for
                    error messages */
    FROM_HEADER, /* the first line of that name */
    FROM_JSON,   /* member of a body that json.h reads: HTTP_TEXT (absent: empty) and
                    HTTP_INT only */
    FROM_FORM    /* query, then body (httpd_each_param()); the values of a repeated
                    HTTP_TEXT are joined by ",", of others the first counts */
};
struct http_param {
    const char *name;
    enum http_type type;
    size_t offset; /* of the field in the struct */
    enum http_from from;
    int64_t def, min, max;      /* def: where it is absent; not for HTTP_TEXT */
    const char *const *choices; /* two or three, and NULL */
    bool required;              /* absent: an error */
    const char *wrong;          /* the error message; NULL: one is composed */
};
enum { HTTP_PARAMS_MAX = 16 /* rows of one table */ };

struct http_args {
    size_t size; /* of the struct; members without a row are zero, the handler may keep
                    what it needs in them until it answers */
    const struct http_param *params; /* ends with a row of zeros */
    /* What rows alone cannot say. -1: err has the message. NULL: nothing. */
    int (*check)(const void *args, struct err *err);
    bool others; /* ignore parameters of the query that have no row; else they are errors:
                    a mistyped name must not mean the default */
};

/* For a row of an API: HTTP_ARGS(struct pull, pull_params, .others = true). */
#define HTTP_ARGS(type, ...)                                                             \
    &(const struct http_args)                                                            \
    {                                                                                    \
        .size = sizeof(type), .params = __VA_ARGS__                                      \
    }

/* Puts value into field. -1: it does not fit. */
typedef int http_set(const struct http_param *row, struct slice value, void *field,
                     struct err *err);
struct http_dialect {
    /* Answers an error before it returns: wrong parameters (400, "bad-request"), and what
     * the server refuses by itself (413 "oversize", 400 "bad-path", 503 "stopping", ...);
     * headers of the answer (Allow, Retry-After) are added by then. Errors that come
     * before a request could be read are not in any dialect. NULL: httpd_error(). */
    void (*refuse)(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why);
    http_set *set[HTTP_TYPES]; /* how values are read; not HTTP_INT of FROM_JSON */
    const char *bad_body;      /* message: the body is no form, or not the JSON wanted */
    /* Appends a text of a form as this API keeps it; NULL: as it is. */
    void (*add_text)(struct buf *out, struct slice text);
};
/* For the whole listener. dialect and arg must stay until httpd_stop(). */
void httpd_set_dialect(struct httpd *h, const struct http_dialect *dialect, void *arg);

/* Reads the arguments; httpd_args() gives them from then on. -1: err says what is wrong,
 * nothing was answered. */
int httpd_read_args(struct httpd_req *req, const struct http_args *args, struct err *err);
/* The struct of the row's args. Its slices are the request's. All of it is zero once the
 * listener has been stopped. */
void *httpd_args(const struct httpd_req *req);

/* The rows of FROM_JSON alone, of a body. to: args->size bytes; its texts stand in room,
 * which the caller frees. Pure. */
int http_args_read_json(const struct http_args *args, const struct http_dialect *dialect,
                        struct slice body, void *to, struct buf *room, struct err *err);
/* One value by its row, as the native API reads it. -1: it does not fit. Pure. */
int http_param_set(const struct http_param *row, struct slice value, void *to,
                   struct err *err);
#endif
