/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_guard.c - who asks, and whether he may.
 */
#include "bridge/httpd/httpd_parts.h"
#include "bridge/httpd/tokens.h"

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

/* Any page may have a browser send this, from where it is trusted: where nobody is asked
 * for a token, or along with the certificate of its user. Browsers say where the page is
 * from; others say nothing. */
static bool is_of_other_site(const struct httpd_req *req)
{
    struct slice site = httpd_header(req, "sec-fetch-site");
    return site.p && !slice_is(site, "same-origin") && !slice_is(site, "none");
}

/* The token of "Bearer TOKEN"; p NULL: it is nothing of that kind. */
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

/* Whoever sends a token is that token's, whatever certificate the connection has. */
static const struct token *find(struct httpd_req *req, enum httpd_refusal *why)
{
    struct httpd_conn *conn = req->conn;
    struct slice header = httpd_header(req, "authorization");
    *why = header.p ? BAD_TOKEN : NO_TOKEN;
    if (header.p)
        return tokens_find(req->h->tokens, bearer(header));
    if (conn->session == NULL)
        return NULL;
    if (!conn->named)
        httpd_tls_names(conn->session, &conn->names);
    conn->named = true;
    return tokens_find_certificate(req->h->tokens, buf_slice(&conn->names));
}

void httpd_tell(const struct httpd_req *req)
{
    bool done =
        req->status < 300 && req->refusal == NOT_REFUSED && req->row != HTTPD_REST;
    if (done && req->h->rows[req->row].route->role == HTTPD_ADMIN &&
        httpd_changes_state(req->method))
        log_info("http", "%s %.*s by %s", req->method,
                 (int)(req->path.n < 200 ? req->path.n : 200), req->path.p,
                 req->who[0] ? req->who : "a client");
}

enum httpd_refusal httpd_guard(struct httpd_req *req, enum httpd_role role)
{
    struct httpd *h = req->h;
    enum httpd_refusal why;
    if ((h->roles & 1U << role) == 0)
        return NOT_HERE;
    if (role == HTTPD_OPEN || role == HTTPD_PAGE)
        return NOT_REFUSED;
    if (httpd_changes_state(req->method) && is_of_other_site(req))
        return OTHER_SITE;
    if (h->tokens == NULL)
        return NOT_REFUSED;
    const struct token *token = find(req, &why);
    if (token) {
        snprintf(req->who, sizeof(req->who), "%s", token_name(token));
        if (token_may(token, role))
            return NOT_REFUSED;
        why = NO_ROLE;
    }
    log_limited(&h->turned_away, LOG_WARN, "http", "%s %.*s refused to %s", req->method,
                (int)(req->path.n < 200 ? req->path.n : 200), req->path.p,
                token ? req->who : "a client without a token that is known");
    return why;
}
