/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_mhd.c - works around faults of libmicrohttpd in the processing of request heads.
 *
 * The library rejects a head or a chunk in HTML and closes without a response after an
 * invalid request line. Version 0.9.75 also answers a rejected head twice and counts
 * blanks after a Content-Length as part of the number; version 1.0 does neither. The
 * library has no callbacks at these points. But it calls its own exported functions
 * through the dynamic linker, so the functions defined here replace the originals, also
 * inside the library. Ubuntu links the library with -Bsymbolic-functions: there its own
 * pages in HTML remain.
 */
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/http/httpd_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

typedef enum MHD_Result queue_fn(struct MHD_Connection *mc, unsigned int status,
                                 struct MHD_Response *response);
static queue_fn *queue; /* the original function */

/* Returns the library's function of that name. */
static void *original(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    must(function != NULL);
    return function;
}

static enum httpd_refusal refusal_of(unsigned status)
{
    switch (status) {
    case MHD_HTTP_CONTENT_TOO_LARGE:
        return TOO_LARGE;
    case MHD_HTTP_URI_TOO_LONG:
    case MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE:
        return HEAD_TOO_LARGE;
    case MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED:
        return BAD_VERSION;
    default:
        return BAD_FRAMING;
    }
}

/* A response that tarry did not create is the library's own, to an invalid head or chunk.
 * Replaces it; MHD_NO makes the library close the connection. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *mc, unsigned int status,
                                   struct MHD_Response *response)
{
    struct httpd_conn *conn = httpd_conn_of(mc);
    if (queue == NULL)
        *(void **)&queue = original("MHD_queue_response");
    if (conn->req && conn->req->response == response)
        return queue(mc, status, response);
    bool no_line = conn->req == NULL && refusal_of(status) == BAD_FRAMING;
    httpd_refuse_raw(conn, no_line ? BAD_LINE : refusal_of(status));
    httpd_conn_enter(conn, CLOSING);
    conn->h->run_again = true; /* the library closes in its next run */
    return MHD_NO;
}

/* Returns whether bytes were received and none were sent; false if the kernel does not
 * count them. */
static bool is_unanswered(int fd, bool ended)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0)
        return false;
    return info.tcpi_bytes_received > ended && info.tcpi_bytes_sent == 0;
}

/* The library also closes after its own failures, such as out of memory; a valid request
 * must not get 400 then. Responds only if the library has read all bytes. After an
 * earlier request on the connection this is unknown. */
void httpd_answer_closed(const struct httpd_conn *conn)
{
    char c;
    if (conn->session || conn->state != NEW) /* TLS is already shut down */
        return;
    ssize_t n = recv(conn->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    bool all_read = n == 0 || (n < 0 && errno == EAGAIN);
    if (all_read && is_unanswered(conn->fd, n == 0))
        httpd_refuse_raw(conn, BAD_LINE);
}

#if MHD_VERSION < 0x01000000
typedef enum MHD_Result lookup_fn(struct MHD_Connection *mc, enum MHD_ValueKind kind,
                                  const char *key, size_t key_n, const char **value,
                                  size_t *value_n);
static lookup_fn *lookup; /* the original function */

struct slice httpd_lookup(struct MHD_Connection *mc, struct slice name)
{
    struct slice s = {0};
    if (lookup == NULL)
        *(void **)&lookup = original("MHD_lookup_connection_value_n");
    if (lookup(mc, MHD_HEADER_KIND, name.p, name.n, &s.p, &s.n) == MHD_NO)
        return (struct slice){0};
    return text_trim(s.p ? s : SLICE_LIT(""));
}

/* Looks up headers for the library. A value that is too long for room is reported as
 * empty; frame_read() in httpd_read.c rejects it. */
enum MHD_Result MHD_lookup_connection_value_n(struct MHD_Connection *mc,
                                              enum MHD_ValueKind kind, const char *key,
                                              size_t key_n, const char **value,
                                              size_t *value_n)
{
    static char room[32]; /* the library reads it before its next call */
    struct slice name = {key, key_n}, found;
    (void)kind; /* the library asks only for headers */
    if (slice_is(name, MHD_HTTP_HEADER_COOKIE))
        return MHD_NO; /* tarry uses no cookies; do not let the library parse them */
    found = httpd_lookup(mc, name);
    if (found.p == NULL)
        return MHD_NO;
    size_t n = found.n < sizeof(room) ? found.n : 0;
    memcpy(room, found.p, n);
    room[n] = 0;
    if (slice_is(name, MHD_HTTP_HEADER_CONTENT_LENGTH) &&
        (n == 0 || n > HTTPD_LENGTH_DIGITS || strspn(room, "0123456789") != n))
        return MHD_NO; /* invalid; frame_read() in httpd_read.c rejects it with a
                        * message */
    if (value)
        *value = room;
    if (value_n)
        *value_n = n;
    return MHD_YES;
}
#else
struct slice httpd_lookup(struct MHD_Connection *mc, struct slice name)
{
    struct slice s = {0};
    if (MHD_lookup_connection_value_n(mc, MHD_HEADER_KIND, name.p, name.n, &s.p, &s.n) ==
        MHD_NO)
        return (struct slice){0};
    return text_trim(s.p ? s : SLICE_LIT(""));
}
#endif
