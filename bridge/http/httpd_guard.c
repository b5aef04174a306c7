/* SPDX-License-Identifier: BSD-2-Clause */
/* httpd_guard.c - authentication and authorization of requests. */
#include "bridge/http/httpd_internal.h"

#include <stdio.h>
#include <string.h>

bool httpd_changes_state(const char *method)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(method, methods[i]) == 0)
            return true;
    }
    return false;
}

void httpd_limit_roles(struct httpd *h, unsigned roles)
{
    h->roles = roles;
}

void httpd_protect(struct httpd *h, const struct tokens *tokens)
{
    h->tokens = tokens;
}

void httpd_protect_roles(struct httpd *h, struct tokens *const *tokens)
{
    h->role_tokens = tokens;
}

static const struct tokens *tokens_of(const struct httpd *h)
{
    return h->role_tokens ? *h->role_tokens : h->tokens;
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
    bool strict = hosts->n > 0 || (h->loopback && !h->tls && !h->tokens);
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

/* --- authentication --- */

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
        snprintf(req->token_name, sizeof(req->token_name), "%s", token_name(token));
        req->roles = token_roles(token);
        if (httpd_may(req, role))
            return NOT_REFUSED;
        why = NO_ROLE;
    }
    log_limited(&h->rejected, LOG_WARN, "http", "rejected %s %.*s from %s", req->method,
                (int)(req->path.n < 200 ? req->path.n : 200), req->path.p,
                token ? req->token_name : "a client without a known token");
    return why;
}
