/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net_tls.c - TLS by OpenSSL. Loop thread. Only this file includes OpenSSL's TLS headers.
 *
 * Certificates are read for each connection, so that renewed files need no restart.
 */
#include "bridge/base/net.h"
#include "bridge/base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls {
    SSL_CTX *ctx;
    SSL *ssl;
};

/* Returns the first error in OpenSSL's queue, which is the cause; later errors are
 * consequences. */
static const char *reason(void)
{
    unsigned long code = ERR_get_error();
    const char *text = ERR_reason_error_string(code);
    /* OpenSSL 3 has no texts for system errors. */
    if (text == NULL && ERR_SYSTEM_ERROR(code))
        text = strerror(ERR_GET_REASON(code));
    ERR_clear_error();
    return text ? text : "unknown error";
}

/* Passes the key's password to OpenSSL. Without this callback OpenSSL would ask for a
 * missing password on the terminal. */
static int pass_password(char *out, int size, int writing, void *arg)
{
    const char *password = arg;
    size_t n = password ? strlen(password) : 0;

    (void)writing;
    if (n == 0 || n > (size_t)size)
        return -1;
    memcpy(out, password, n);
    return (int)n;
}

static int load_files(SSL_CTX *ctx, const struct net_conf *conf, struct err *err)
{
    if (conf->ca_file && SSL_CTX_load_verify_locations(ctx, conf->ca_file, NULL) != 1)
        return err_set(err, "ca_file %s: %s", conf->ca_file, reason());
    if (!conf->ca_file && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return err_set(err, "the system's CA certificates: %s", reason());
    if (!conf->cert_file)
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, conf->cert_file) != 1)
        return err_set(err, "cert_file %s: %s", conf->cert_file, reason());
    SSL_CTX_set_default_passwd_cb(ctx, pass_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, (void *)(uintptr_t)conf->key_password);
    const char *key = conf->key_file ? conf->key_file : conf->cert_file;
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        return err_set(err, "key_file %s: %s", key, reason());
    return 0;
}

/* Requests verification of the peer's name, or of its IP address. SNI accepts only names
 * (RFC 6066). */
static int name_peer(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 ? 0 : -1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1)
        return -1;
    return 0;
}

struct tls *tls_new(const struct net_conf *conf, int fd, struct err *err)
{
    struct tls *t = mem_alloc(sizeof(*t));
    ERR_clear_error();
    t->ctx = SSL_CTX_new(TLS_client_method());
    must(t->ctx != NULL);
    SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    /* The buffer of net.c may move between two attempts of the same write. */
    SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
    if (load_files(t->ctx, conf, err) != 0)
        goto fail;
    /* Unlike the other functions of OpenSSL, this one returns 0 on success. */
    if (conf->alpn && SSL_CTX_set_alpn_protos(t->ctx, (const unsigned char *)conf->alpn,
                                              (unsigned)strlen(conf->alpn)) != 0) {
        err_set(err, "alpn: %s", reason());
        goto fail;
    }
    t->ssl = SSL_new(t->ctx);
    must(t->ssl != NULL);
    if (name_peer(t->ssl, conf->host) != 0 || SSL_set_fd(t->ssl, fd) != 1) {
        err_set(err, "TLS for host %s: %s", conf->host, reason());
        goto fail;
    }
    SSL_set_connect_state(t->ssl);
    return t;
fail:
    tls_free(t);
    return NULL;
}

void tls_free(struct tls *t)
{
    if (t == NULL)
        return;
    SSL_free(t->ssl);
    SSL_CTX_free(t->ctx);
    free(t);
}

static enum io outcome(struct tls *t, int result, struct err *err)
{
    int system_error = errno;
    switch (SSL_get_error(t->ssl, result)) {
    case SSL_ERROR_NONE:
        return IO_DONE;
    case SSL_ERROR_WANT_READ:
        return IO_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return IO_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return IO_CLOSED;
    case SSL_ERROR_SYSCALL:
        if (ERR_peek_error() == 0) {
            if (system_error == 0)
                return IO_CLOSED;
            err_set(err, "connection lost: %s", strerror(system_error));
            return IO_FAILED;
        }
        break;
    default:
        break;
    }
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        ERR_clear_error(); /* many servers close without close_notify; incomplete
                            * replies are detected elsewhere */
        return IO_CLOSED;
    }
#endif
    err_set(err, "TLS: %s", reason());
    return IO_FAILED;
}

enum io tls_handshake(struct tls *t, struct err *err)
{
    ERR_clear_error();
    errno = 0;
    enum io io = outcome(t, SSL_do_handshake(t->ssl), err);
    long verified = SSL_get_verify_result(t->ssl);
    if (io == IO_FAILED && verified != X509_V_OK)
        err_set(err, "TLS: the server's certificate: %s",
                X509_verify_cert_error_string(verified));
    return io;
}

enum io tls_read(struct tls *t, void *bytes, size_t room, size_t *count, struct err *err)
{
    ERR_clear_error();
    errno = 0;
    int n = SSL_read(t->ssl, bytes, room > INT_MAX ? INT_MAX : (int)room);
    *count = n > 0 ? (size_t)n : 0;
    return outcome(t, n, err);
}

enum io tls_write(struct tls *t, const void *bytes, size_t n, size_t *count,
                  struct err *err)
{
    ERR_clear_error();
    errno = 0;
    int sent = SSL_write(t->ssl, bytes, n > INT_MAX ? INT_MAX : (int)n);
    *count = sent > 0 ? (size_t)sent : 0;
    return outcome(t, sent, err);
}

bool tls_has_more(const struct tls *t)
{
    return SSL_has_pending(t->ssl) == 1;
}

void tls_shutdown(struct tls *t)
{
    if (SSL_is_init_finished(t->ssl))
        SSL_shutdown(t->ssl);
    ERR_clear_error();
}
