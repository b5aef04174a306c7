/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_message.h - what of a delivery goes into an HTTP request, and what the status of
 * the answer means. Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_MESSAGE_H
#define SINKS_HTTP_MESSAGE_H

#include "bridge/plugin.h"

enum { HTTP_URL_MAX = 8192 };

/* "name: value" lines in curl's form. A zeroed one is ready, and may be used again. */
struct http_lines {
    struct buf text;    /* each line ended by a NUL */
    struct buf offsets; /* size_t: where each begins */
};

/* fixed: the operator's headers, which win over the job's. Gives how many headers of the
 * job were left out because they cannot stand in HTTP. */
unsigned http_lines_make(struct http_lines *lines, const struct delivery *d,
                         const struct opt_pairs *fixed);
size_t http_lines_count(const struct http_lines *lines);
char *http_lines_at(const struct http_lines *lines, size_t i); /* until the next make */
void http_lines_free(struct http_lines *lines);

/* Is it the transport's own, such as Content-Length, and so not to be set by anyone else?
 */
bool http_is_transport_header(struct slice name);
/* Does it begin with http:// or https://, and is it of a sane length? */
bool http_is_url(struct slice url);
enum outcome http_status_outcome(long status);

#endif
