/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/listen.h"
#include "bridge/base/buf.h"

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

int httpd_check_opts(const struct httpd_opts *opts, struct err *err)
{
    return httpd_check_hosts(opts, err) < 0 ? -1 : httpd_check_tls(opts, err);
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
