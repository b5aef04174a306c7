/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_guard.c - which requests a listener accepts: tokens, hosts and sites.
 *
 * Only the SHA-256 of a token is stored. Hashes are compared in constant time, so that
 * neither memory nor timing reveals a token.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "bridge/http/httpd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>

/* --- tokens --- */

struct tokens {
    size_t n;
    struct token v[];
};

/* Returns the rows' roles that a token's roles include. */
static unsigned opened_by(unsigned roles)
{
    if (roles & 1U << HTTPD_ADMIN)
        return ~0U;
    if (roles & (1U << HTTPD_PRODUCE | 1U << HTTPD_CONSUME))
        roles |= 1U << HTTPD_EITHER;
    return roles;
}

static void make_hash(struct slice text, unsigned char hash[TOKEN_HASH_BYTES])
{
    must(gnutls_hash_fast(GNUTLS_DIG_SHA256, text.p, text.n, hash) == 0);
}

struct tokens *tokens_new(const struct conf *conf)
{
    struct err err;
    if (conf->token_count == 0)
        return NULL;
    struct tokens *tokens =
        mem_alloc(sizeof(*tokens) + conf->token_count * sizeof(tokens->v[0]));
    for (; tokens->n < conf->token_count; tokens->n++) {
        const struct conf_token *c = conf->tokens[tokens->n];
        struct token *token = &tokens->v[tokens->n];
        token->name = mem_strdup(c->name);
        must(tokens_roles(&c->roles, &token->roles, &err) == 0); /* already checked */
        token->roles = opened_by(token->roles);
        if (c->certificate)
            token->certificate = mem_strdup(c->certificate);
        else
            make_hash(slice_of(c->token), token->hash);
    }
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    if (tokens == NULL)
        return;
    for (size_t i = 0; i < tokens->n; i++) {
        free(tokens->v[i].name);
        free(tokens->v[i].certificate);
    }
    free(tokens);
}

const struct token *tokens_find(const struct tokens *tokens, struct slice token)
{
    unsigned char hash[TOKEN_HASH_BYTES];
    const struct token *found = NULL;
    if (token.n == 0 || token.n > TOKEN_BYTES_MAX)
        return NULL;
    make_hash(token, hash);
    for (size_t i = 0; i < tokens->n; i++) { /* no early exit: constant time */
        const struct token *t = &tokens->v[i];
        if (t->certificate == NULL && gnutls_memcmp(t->hash, hash, TOKEN_HASH_BYTES) == 0)
            found = t;
    }
    return found;
}

const struct token *tokens_find_certificate(const struct tokens *tokens,
                                            struct slice names)
{
    for (size_t i = 0; i < tokens->n; i++) {
        const struct token *t = &tokens->v[i];
        for (size_t at = 0; t->certificate && at < names.n;
             at += strlen(names.p + at) + 1)
            if (strcmp(names.p + at, t->certificate) == 0)
                return t;
    }
    return NULL;
}

/* --- protection against other sites --- */

/* Returns "name" of "name:7700" and "name.:7700"; an IPv6 address keeps its brackets. */
static struct slice name_of(struct slice host)
{
    const char *stop =
        host.n > 0 ? memchr(host.p, *host.p == '[' ? ']' : ':', host.n) : NULL;
    if (stop && *host.p != '[')
        host.n = (size_t)(stop - host.p);
    host.n -= host.n > 0 && host.p[host.n - 1] == '.';
    return host;
}

static bool lists(const struct opt_list *hosts, struct slice name)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (slice_is_nocase(name, hosts->v[i]))
            return true;
    return false;
}

/* Returns whether a foreign DNS server cannot map this name to us: an address needs no
 * DNS, browsers resolve localhost and its subdomains themselves, and a name without a dot
 * is not on the Internet. */
static bool is_safe(struct slice name)
{
    const char *dot = name.n > 0 ? memrchr(name.p, '.', name.n) : NULL;
    if (dot == NULL || *name.p == '[')
        return true;
    struct slice last = {dot + 1, (size_t)(name.p + name.n - dot - 1)};
    bool address = last.n > 0; /* ends in a number, which no domain does */
    for (size_t i = 0; i < last.n; i++)
        address &= last.p[i] >= '0' && last.p[i] <= '9';
    return address || slice_is_nocase(last, "localhost");
}

/* Checks Host against DNS rebinding: a page can map its own name to 127.0.0.1 after it
 * was loaded, and the browser then treats this listener as the page's own site. TLS and
 * tokens prevent this. */
bool httpd_host_is_allowed(struct httpd *h, struct slice host)
{
    const struct opt_list *hosts = &h->opts.hosts;
    struct slice name = name_of(host);
    bool guarded = h->tls || (h->tokens_suffice && *h->tokens);
    bool strict = hosts->n > 0 || (h->loopback && !guarded);
    if (!strict || is_safe(name) || lists(hosts, name) || lists(hosts, SLICE_LIT("*")))
        return true;
    log_limited(
        &h->rejected, LOG_WARN, "http",
        "rejected a request: its Host is %.*s, which the option hosts does not list",
        (int)(name.n < 200 ? name.n : 200), name.p);
    return false;
}

/* Returns whether a browser sent the request for a page of another site. Such a request
 * would use the browser's trusted position, or its user's certificate. Browsers send
 * Sec-Fetch-Site, or without TLS at least Origin; other clients send neither. */
static bool is_of_other_site(const struct httpd_req *req)
{
    struct slice site = httpd_header(req, "sec-fetch-site");
    struct slice origin = httpd_header(req, "origin"), host = httpd_header(req, "host");
    if (site.p)
        return !slice_is(site, "same-origin") && !slice_is(site, "none");
    if (origin.p == NULL)
        return false;
    const char *scheme = memmem(origin.p, origin.n, "://", 3); /* absent in "null" */
    if (scheme == NULL)
        return true;
    struct slice from = {scheme + 3, (size_t)(origin.p + origin.n - scheme - 3)};
    bool same = host.p && from.n == host.n && strncasecmp(from.p, host.p, host.n) == 0;
    return !same && !lists(&req->h->opts.hosts, name_of(from));
}

/* --- authentication and authorization --- */

bool httpd_changes_state(const char *method)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(method, methods[i]) == 0)
            return true;
    }
    return false;
}

static const struct tokens *tokens_of(const struct httpd *h)
{
    return h->tokens ? *h->tokens : NULL;
}

void httpd_protect(struct httpd *h, struct tokens *const *tokens)
{
    h->tokens = tokens;
}

bool httpd_may(const struct httpd_req *req, enum httpd_role role)
{
    return (req->roles & 1U << role) != 0;
}

void httpd_deny(struct httpd_req *req)
{
    req->refusal = NO_ROLE;
    httpd_refuse(req);
}

/* Returns the token of "Bearer TOKEN", or p NULL for another scheme. */
static struct slice bearer(struct slice header)
{
    static const char scheme[] = "Bearer ";
    size_t n = sizeof(scheme) - 1;
    if (header.n <= n || strncasecmp(header.p, scheme, n) != 0)
        return (struct slice){0};
    while (n < header.n && header.p[n] == ' ')
        n++;
    return (struct slice){header.p + n, header.n - n};
}

/* Finds the client's token. A token takes precedence over the certificate of the
 * connection. */
static const struct token *find(struct httpd_req *req, enum httpd_refusal *why)
{
    struct httpd_conn *conn = req->conn;
    struct slice header = httpd_header(req, "authorization");
    *why = header.p ? BAD_TOKEN : NO_TOKEN;
    if (header.p)
        return tokens_find(tokens_of(req->h), bearer(header));
    if (conn->session == NULL)
        return NULL;
    if (!conn->names_read)
        httpd_tls_names(conn->session, &conn->names);
    conn->names_read = true;
    return tokens_find_certificate(tokens_of(req->h), buf_slice(&conn->names));
}

void httpd_log_change(const struct httpd_req *req)
{
    bool done = req->status < 300 && req->refusal == NOT_REFUSED;
    if (done && req->h->rows[req->row].route->role == HTTPD_ADMIN &&
        httpd_changes_state(req->method))
        log_info("http", "%s %.*s by %s", req->method,
                 (int)(req->path.n < 200 ? req->path.n : 200), req->path.p,
                 req->token_name[0] ? req->token_name : "a client");
}

enum httpd_refusal httpd_guard(struct httpd_req *req, const struct httpd_route *route)
{
    struct httpd *h = req->h;
    enum httpd_role role = route->role;
    enum httpd_refusal why;
    bool changes = httpd_changes_state(req->method) || strcmp(route->method, "*") == 0;
    if ((h->roles & 1U << role) == 0)
        return ADMIN_ONLY;
    if (changes && is_of_other_site(req))
        return OTHER_SITE;
    if (role == HTTPD_OPEN || role == HTTPD_PAGE || tokens_of(h) == NULL)
        return NOT_REFUSED;
    const struct token *token = find(req, &why);
    if (token) {
        snprintf(req->token_name, sizeof(req->token_name), "%s", token->name);
        req->roles = token->roles;
        if (httpd_may(req, role))
            return NOT_REFUSED;
        why = NO_ROLE;
    }
    log_limited(&h->rejected, LOG_WARN, "http", "rejected %s %.*s from %s", req->method,
                (int)(req->path.n < 200 ? req->path.n : 200), req->path.p,
                token ? req->token_name : "a client without a known token");
    return why;
}
