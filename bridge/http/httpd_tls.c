/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/httpd_internal.h"
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/http/httpd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

enum { NAME_MAX_BYTES = 256, NAMES_MAX = 64 };
enum { FILE_MAX_BYTES = 1024 * 1024, WHERE_BYTES = 256 };

struct httpd_tls {
    gnutls_certificate_credentials_t cred;
    bool asks; /* clients must present a certificate */
    unsigned users;
};

/* The library requires a certificate callback at start-up. Each connection receives its
 * listener's current credentials instead, so that this function is never called. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *issuers,
                          int issuers_n, const gnutls_pk_algorithm_t *algorithms,
                          int algorithms_n, gnutls_pcert_st **chain, unsigned *chain_n,
                          gnutls_privkey_t *key)
{
    (void)session, (void)issuers, (void)issuers_n, (void)algorithms, (void)algorithms_n;
    (void)chain, (void)chain_n, (void)key;
    return -1;
}

const struct MHD_OptionItem httpd_tls_options[] = {
    {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)no_certificate},
    {MHD_OPTION_HTTPS_PRIORITIES, 0,
     (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
    {MHD_OPTION_END, 0, NULL},
};

/* Reads a file, which may contain a key: the caller must use text_wipe(). */
static int read_file(const char *option, const char *name, struct buf *text,
                     struct err *err)
{
    char where[WHERE_BYTES];
    buf_room(text, FILE_MAX_BYTES); /* allocate once: a growing buffer would leave
                                     * copies behind */
    if (buf_add_file(text, name, FILE_MAX_BYTES, err) == 0)
        return 0;
    snprintf(where, sizeof(where), "%s %.200s", option, name);
    return err_in(err, where);
}

/* Returns text with a NUL at its end, as GnuTLS expects. */
static gnutls_datum_t pem(struct buf *text)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)buf_str(text), (unsigned)text->n};
}

/* Parses the certificate separately, so that an error names the right file. */
static int load_pair(struct httpd_tls *tls, const struct httpd_opts *opts,
                     struct err *err)
{
    const char *key_file = opts->tls_key ? opts->tls_key : opts->tls_cert;
    struct buf cert_text = {0}, key_text = {0};
    gnutls_x509_crt_t *chain = NULL;
    unsigned n = 0;
    int rc = read_file("tls_cert", opts->tls_cert, &cert_text, err);
    if (rc == 0)
        rc = read_file("tls_key", key_file, &key_text, err);
    const gnutls_datum_t cert = pem(&cert_text), key = pem(&key_text);
    if (rc == 0) {
        int why = gnutls_x509_crt_list_import2(&chain, &n, &cert, GNUTLS_X509_FMT_PEM, 0);
        for (unsigned i = 0; i < n; i++)
            gnutls_x509_crt_deinit(chain[i]);
        gnutls_free(chain);
        if (why < 0)
            rc = err_set(err, "tls_cert %s: not a certificate in PEM format: %s",
                         opts->tls_cert, gnutls_strerror(why));
    }
    if (rc == 0) {
        int why = gnutls_certificate_set_x509_key_mem2(tls->cred, &cert, &key,
                                                       GNUTLS_X509_FMT_PEM, NULL, 0);
        if (why < 0)
            rc = err_set(err,
                         "tls_key %s: not the key of the certificate in %s (PEM format, "
                         "without a password): %s",
                         key_file, opts->tls_cert, gnutls_strerror(why));
    }
    text_wipe(&cert_text);
    text_wipe(&key_text);
    return rc;
}

static int load_client_ca(struct httpd_tls *tls, const struct httpd_opts *opts,
                          struct err *err)
{
    struct buf text = {0};
    if (opts->tls_client_ca == NULL)
        return 0;
    int rc = read_file("tls_client_ca", opts->tls_client_ca, &text, err);
    const gnutls_datum_t ca = pem(&text);
    int n = rc < 0 ? 0
                   : gnutls_certificate_set_x509_trust_mem(tls->cred, &ca,
                                                           GNUTLS_X509_FMT_PEM);
    buf_free(&text);
    if (rc < 0)
        return -1;
    if (n <= 0)
        return err_set(err, "tls_client_ca %s: not a certificate in PEM format%s%s",
                       opts->tls_client_ca, n < 0 ? ": " : "",
                       n < 0 ? gnutls_strerror(n) : "");
    tls->asks = true;
    return 0;
}

int httpd_tls_load(const struct httpd_opts *opts, struct httpd_tls **tls, struct err *err)
{
    *tls = NULL;
    if (httpd_check_opts(opts, err) < 0)
        return -1;
    if (opts->tls_cert == NULL)
        return 0;
    *tls = mem_alloc(sizeof(**tls));
    (*tls)->users = 1;
    must(gnutls_certificate_allocate_credentials(&(*tls)->cred) == GNUTLS_E_SUCCESS);
    if (load_pair(*tls, opts, err) == 0 && load_client_ca(*tls, opts, err) == 0)
        return 0;
    httpd_tls_drop(*tls);
    *tls = NULL;
    return -1;
}

struct httpd_tls *httpd_tls_use(struct httpd_tls *tls)
{
    tls->users++;
    return tls;
}

void httpd_tls_drop(struct httpd_tls *tls)
{
    if (tls == NULL || --tls->users > 0)
        return;
    gnutls_certificate_free_credentials(tls->cred);
    free(tls);
}

static ssize_t pull(gnutls_transport_ptr_t arg, void *bytes, size_t room)
{
    struct httpd_tls_wire *wire = arg;
    ssize_t n = recv(wire->fd, bytes, room, MSG_DONTWAIT);
    *wire->transfers += n >= 0;
    return n;
}

static ssize_t push(gnutls_transport_ptr_t arg, const giovec_t *pieces, int count)
{
    struct httpd_tls_wire *wire = arg;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(wire->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    *wire->transfers += n > 0;
    return n;
}

/* Client certificates must be valid now, signed by tls_client_ca and usable for clients;
 * otherwise the handshake fails. */
void httpd_tls_begin(const struct httpd_tls *tls, void *session,
                     struct httpd_tls_wire *wire)
{
    static char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    static gnutls_typed_vdata_st demands[] = {
        {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)purpose, 0}};
    must(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->cred) ==
         GNUTLS_E_SUCCESS);
    gnutls_transport_set_ptr(session, wire);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_vec_push_function(session, push);
    if (!tls->asks)
        return;
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_cert2(session, demands, 1, 0);
}

/* Skips a name with a NUL, which would read as a different name. */
static void add_name(struct buf *names, const char *name, size_t n)
{
    if (n == 0 || memchr(name, 0, n))
        return;
    buf_add(names, name, n);
    buf_add(names, "", 1);
}

void httpd_tls_names(void *session, struct buf *names)
{
    char name[NAME_MAX_BYTES];
    gnutls_x509_crt_t crt;
    unsigned n = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);
    if (chain == NULL || n == 0 || gnutls_x509_crt_init(&crt) != GNUTLS_E_SUCCESS)
        return;
    if (gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER) == GNUTLS_E_SUCCESS) {
        for (unsigned i = 0; i < NAMES_MAX; i++) {
            size_t size = sizeof(name);
            int type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &size, NULL);
            if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_URI ||
                type == GNUTLS_SAN_RFC822NAME)
                add_name(names, name, size);
            else if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                break;
        }
        size_t size = sizeof(name);
        if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name,
                                          &size) == GNUTLS_E_SUCCESS)
            add_name(names, name, size);
    }
    gnutls_x509_crt_deinit(crt);
}

void httpd_tls_send(void *session, const char *bytes, size_t n)
{
    if (gnutls_record_send(session, bytes, n) > 0)
        gnutls_bye(session, GNUTLS_SHUT_WR);
}
