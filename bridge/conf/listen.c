/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/listen.h"
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- listeners */

int httpd_check_hosts(const struct httpd_opts *opts, struct err *err)
{
    for (size_t i = 0; i < opts->hosts.n; i++)
        if (strpbrk(opts->hosts.v[i], ":/ ") ||
            (*opts->hosts.v[i] == '*' && opts->hosts.v[i][1]))
            return err_set(
                err,
                "hosts: \"%.60s\" is not a host name; write a name without port and "
                "scheme, such as \"tarry.example.com\", or \"*\" for any",
                opts->hosts.v[i]);
    return 0;
}

int httpd_check_tls(const struct httpd_opts *opts, struct err *err)
{
    if (opts->tls_cert == NULL && (opts->tls_key || opts->tls_client_ca))
        return err_set(err, "%s requires tls_cert, the server certificate",
                       opts->tls_key ? "tls_key" : "tls_client_ca");
    return 0;
}

/* Splits "host:port" in place. -1: invalid. */
static int cut(char *text, char **host, char **port)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL || colon[1] == 0 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return -1;
    *colon = 0;
    *port = colon + 1;
    *host = text;
    if (text[0] == '[') {
        if (colon[-1] != ']')
            return -1;
        colon[-1] = 0;
        *host = text + 1;
    } else if (strchr(text, ':')) {
        return -1; /* an IPv6 address without brackets */
    }
    return 0;
}

int httpd_cut_address(const char *listen, char *text, char **host, char **port,
                      struct err *err)
{
    if (cut(text, host, port) < 0)
        return err_set(err,
                       "listen: \"%s\" is not an address; write host:port, [v6]:port, "
                       ":port or unix:/path",
                       listen);
    return text_check_port(slice_of(*port), 0, err) < 0 ? err_in(err, "listen") : 0;
}

int httpd_check_address(const struct httpd_opts *opts, struct err *err)
{
    const char *listen = opts->listen;
    char *copy, *host, *port;
    if (listen == NULL || *listen == '\0')
        return 0;
    if (strncmp(listen, "unix:", 5) == 0)
        return listen[5] == '/' ? 0
                                : err_set(err,
                                          "listen: \"%s\": an absolute path must follow "
                                          "unix:",
                                          listen);
    copy = mem_strdup(listen);
    int rc = httpd_cut_address(listen, copy, &host, &port, err);
    free(copy);
    return rc;
}

int httpd_check_opts(const struct httpd_opts *opts, struct err *err)
{
    if (httpd_check_address(opts, err) < 0 || httpd_check_hosts(opts, err) < 0)
        return -1;
    return httpd_check_tls(opts, err);
}

/* Returns whether the text of the address shows that it is local: loopback or a Unix
 * socket. */
static bool is_local(const char *listen)
{
    static const char *const begins[] = {"unix:", "127.", "[::1]:", "localhost:"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(listen, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

void httpd_warn_insecure(const struct httpd_opts *opts, const char *prefix,
                         const struct httpd_secrets *secrets, struct buf *lines)
{
    if (is_local(opts->listen) || opts->tls_client_ca)
        return;
    if (secrets == NULL || !secrets->asked_for)
        buf_addf(lines,
                 "%slisten: every client that can connect to %s may use it; set "
                 "%s%s%stls_client_ca\n",
                 prefix, opts->listen, secrets ? secrets->remedy : "",
                 secrets ? ", or " : "", prefix);
    else if (opts->tls_cert == NULL)
        buf_addf(lines,
                 "%slisten: %s travel to %s without TLS, so others can read them; set "
                 "%stls_cert, unless a proxy in front uses TLS\n",
                 prefix, secrets->what, opts->listen, prefix);
}

/* -------------------------------------------------------------------- tokens */

static const struct {
    const char *name;
    enum httpd_role role;
} role_names[] = {{"produce", HTTPD_PRODUCE},
                  {"consume", HTTPD_CONSUME},
                  {"metrics", HTTPD_METRICS},
                  {"admin", HTTPD_ADMIN}};
enum { ROLE_NAMES = sizeof(role_names) / sizeof(role_names[0]), TOKEN_MIN = 16 };

int tokens_roles(const struct opt_list *names, unsigned *roles, struct err *err)
{
    *roles = 0;
    for (size_t i = 0; i < names->n; i++) {
        unsigned bit = 0;
        for (size_t k = 0; k < ROLE_NAMES; k++)
            if (strcmp(role_names[k].name, names->v[i]) == 0)
                bit = 1U << role_names[k].role;
        if (bit == 0)
            return err_set(err,
                           "unknown role \"%.60s\"; known: produce, consume, metrics, "
                           "admin (which includes all others)",
                           names->v[i]);
        *roles |= bit;
    }
    return 0;
}

int tokens_check(const char *token, struct err *err)
{
    size_t n = strlen(token);
    for (size_t i = 0; i < n; i++)
        if (token[i] <= ' ' || token[i] > '~')
            return err_set(err, "must consist of visible ASCII characters without "
                                "blanks; `openssl rand -hex 32` creates a token");
    if (n < TOKEN_MIN || n > TOKEN_BYTES_MAX)
        return err_set(
            err, "must have %d to %d characters; `openssl rand -hex 32` creates a token",
            TOKEN_MIN, TOKEN_BYTES_MAX);
    return 0;
}
