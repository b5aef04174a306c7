/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_attr.h - attributes of a job: headers Job-Attr-NAME of the request that
 * publishes it, kept as the job's headers.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_ATTR_H
#define SOURCES_LMSTFY_LMSTFY_ATTR_H

#include "sources/lmstfy/lmstfy_api.h"

enum {
    LMSTFY_ATTRS = 16,      /* of one job */
    LMSTFY_ATTR_NAME = 32,  /* bytes; the rest is cut off */
    LMSTFY_ATTR_VALUE = 128 /* likewise */
};

struct lmstfy_attr {
    char name[LMSTFY_ATTR_NAME];
    size_t name_n;
    struct slice value; /* the request's */
};
struct lmstfy_attrs {
    bool with_version; /* the client can take a job with attributes */
    bool too_many;
    unsigned n;
    struct lmstfy_attr v[LMSTFY_ATTRS]; /* by name */
};

void lmstfy_attrs_read(struct lmstfy_attrs *attrs, const struct httpd_req *req);
/* One header of the request: the first of a name counts, an empty value is none. */
void lmstfy_attrs_take(struct lmstfy_attrs *attrs, struct slice name, struct slice value);

void lmstfy_attrs_keep(const struct lmstfy_attrs *attrs, struct job *job);
/* Appends the object, or null. */
void lmstfy_attrs_show(struct buf *out, struct slice id, const struct job *job);

#endif
