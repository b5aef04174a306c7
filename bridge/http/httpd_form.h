/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_form.h - parameters as they stand in a query, in a urlencoded form and in a
 * multipart body. Pure; what comes in is outside bytes: any content is fine.
 */
#ifndef BRIDGE_HTTPD_FORM_H
#define BRIDGE_HTTPD_FORM_H

#include "bridge/http/httpd.h"

/* Cuts the next pair off rest, as it stands there; empty pairs are passed over. A pair
 * without "=" has an empty value. false: there is none. */
bool form_next(struct slice *rest, struct slice *name, struct slice *value);
/* Decodes %XX and "+". out: room for s.n bytes. Gives the length; -1: bad escape. */
long form_decode(struct slice s, char *out);
/* Is raw, decoded, that name? */
bool form_is(struct slice raw, const char *name);

/* Calls back for each pair, decoded. -1: a bad escape; those before it have been told. */
int form_each(struct slice text, httpd_param_cb *cb, void *arg);

/* Is that the media type of a Content-Type header? Its parameters don't matter. */
bool form_type_is(struct slice content_type, const char *type);
/* Calls back for each part with a name and without a file name. -1: no boundary, or the
 * body ends before its last delimiter, or a part has no proper head. */
int multipart_each(struct slice body, struct slice content_type, httpd_param_cb *cb,
                   void *arg);

#endif
