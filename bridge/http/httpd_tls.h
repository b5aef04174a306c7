/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_tls.h - TLS of the HTTP server: which certificate it shows, and whose it asks
 * for. GnuTLS inside, as in the library; only for httpd*.c.
 *
 * Files are read whole by httpd_tls_load(). Each connection holds what was loaded when it
 * began, so that a reload touches none.
 */
#ifndef BRIDGE_HTTPD_TLS_H
#define BRIDGE_HTTPD_TLS_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

struct httpd_opts;
struct httpd_tls; /* counts its users */

/* The options that the library needs for TLS; the table ends as it wants it to. */
extern const struct MHD_OptionItem httpd_tls_options[];

bool httpd_tls_is_wanted(const struct httpd_opts *opts);
/* Reads the files; the caller is the first user. NULL: err names the file and says what
 * is wrong with it. */
struct httpd_tls *httpd_tls_load(const struct httpd_opts *opts, struct err *err);
struct httpd_tls *httpd_tls_use(struct httpd_tls *tls);
void httpd_tls_drop(struct httpd_tls *tls); /* NULL is fine */

struct httpd_tls_wire { /* of one session */
    int fd;
    uint64_t *moved; /* counts its reads and writes that moved anything */
};
/* session: the library's, before its handshake; tls must be used, and wire stay, until it
 * is gone. */
void httpd_tls_begin(const struct httpd_tls *tls, void *session,
                     struct httpd_tls_wire *wire);
/* Appends the names in the client's certificate, each with a NUL: the alternative names,
 * then the common name. Nothing: it showed none. */
void httpd_tls_names(void *session, struct buf *names);
/* Does not wait; what does not fit is lost. */
void httpd_tls_send(void *session, const char *bytes, size_t n);

#endif
