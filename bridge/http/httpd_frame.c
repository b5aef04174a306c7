/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_frame.c - whether a request's head can be read in one way only.
 *
 * Where two servers in a row see different ends of one request, a client can slip the
 * second a request that the first never saw. So what the library is lenient about is
 * refused here.
 */
#include "bridge/base/text.h"
#include "bridge/http/httpd_parts.h"

#include <stdlib.h>
#include <string.h>

enum { CRLF = 2 };

static bool begins(struct slice name, const char *with)
{
    return name.n >= strlen(with) && strncasecmp(name.p, with, strlen(with)) == 0;
}

/* From 1.0 on the library sees to it. Before, it takes a bare LF for the end of a line,
 * joins folded ones, and stops at a NUL; but it parses in place, so each of these shows:
 * between what it found something else stood than a CR and an LF. */
static bool follows(const char *end, size_t gap, const char *next)
{
#if MHD_VERSION < 0x01000000
    return end + gap == next;
#else
    (void)end, (void)gap, (void)next;
    return true;
#endif
}

static bool is_length(struct slice s)
{
    bool digits = s.n > 0;
    for (size_t i = 0; i < s.n; i++)
        digits &= s.p[i] >= '0' && s.p[i] <= '9';
    return digits;
}

/* Names are matched by their beginning: 0.9.75 takes "Transfer-Encoding :" for a name. */
static enum MHD_Result on_line(void *arg, enum MHD_ValueKind kind, const char *name,
                               size_t name_n, const char *value, size_t value_n)
{
    struct httpd_frame *f = arg;
    struct slice n = {name, name_n}, v = {value ? value : "", value_n};
    const char *end = v.p + v.n;
    f->lines++;
    if (kind != MHD_HEADER_KIND) /* a parameter of the query */
        return MHD_YES;
    f->fields++;
    f->bad |=
        !text_is_token(n) || !text_is_header_value(v) || !follows(f->end, CRLF, n.p);
    f->end = end;
    v = text_trim(v);
    if (begins(n, "content-length")) {
        f->lengths++;
        f->bad |= !slice_is_nocase(n, "content-length") || !is_length(v);
        f->length = v.n <= HTTPD_LENGTH_DIGITS ? strtoll(v.p, NULL, 10) : INT64_MAX;
    } else if (begins(n, "transfer-encoding")) {
        f->codings++;
        f->bad |=
            !slice_is_nocase(n, "transfer-encoding") || !slice_is_nocase(v, "chunked");
    } else if (slice_is_nocase(n, "host")) {
        f->hosts++;
        f->host = v;
    } else if (slice_is_nocase(n, "expect")) {
        f->expects = true;
    }
    return MHD_YES;
}

void httpd_frame_read(const struct httpd_req *req, const char *url, const char *method,
                      const char *version, struct httpd_frame *f)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mc, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    *f = (struct httpd_frame){.end = version + strlen(version)};
    f->bad = !follows(method + strlen(method), 1, url) ||
             !follows(url + req->target_n, 1, version);
    MHD_get_connection_values_n(req->mc, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, on_line,
                                f);
    f->bad |= f->codings > 0 && strcmp(version, "HTTP/1.0") == 0; /* which has none */
    f->bad |= f->lengths + f->codings > 1 || f->hosts > 1 ||
              !follows(f->end, 2 * (size_t)CRLF, method + info->header_size);
}
