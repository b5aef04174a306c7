/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_params.h - the parameters of a query, read into a struct by rows.
 */
#ifndef BRIDGE_HTTP_PARAMS_H
#define BRIDGE_HTTP_PARAMS_H

#include "bridge/base/mem.h"
#include "bridge/http/httpd.h"

#include <stdbool.h>
#include <stdint.h>

enum http_param_type { /* field          in the query                       */
                       HTTP_PARAM_MS,     /* int64_t        30s, 1h30m, PT5M, 0 */
                       HTTP_PARAM_INT,    /* int64_t        a decimal integer   */
                       HTTP_PARAM_BOOL,   /* int64_t        true, false         */
                       HTTP_PARAM_WHEN,   /* int64_t, ms    RFC 3339, or epoch  */
                       HTTP_PARAM_NUMBER, /* double         2.5, from 0.001 on  */
                       HTTP_PARAM_CHOICE, /* int64_t        index in choices    */
                       HTTP_PARAM_TEXT    /* struct slice   anything; p NULL    */
};
struct http_param {
    const char *name;
    enum http_param_type type;
    size_t offset;              /* of the field in the struct */
    int64_t def, min, max;      /* an instant has none but the epoch; a number has max */
    const char *const *choices; /* two or three, and NULL */
    bool required;
};

/* Fills the struct at to. rows ends with a row of zeros. -1: a value that does not fit, a
 * required one that is missing, or a parameter that no row knows: a mistyped name must
 * not mean the default. */
int http_params_read(const struct httpd_req *req, const struct http_param *rows, void *to,
                     struct err *err);

/* One value by its row. -1: it does not fit. Pure. */
int http_param_set(const struct http_param *row, struct slice value, void *to,
                   struct err *err);

#endif
