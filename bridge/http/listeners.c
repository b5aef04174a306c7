/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/listeners.h"
#include "bridge/conf/conf.h"
#include "bridge/http/httpd_internal.h"
#include "bridge/metrics/stats.h"

#include <stddef.h>
#include <string.h>

/* ------------------------------------------------------------------ all listeners */

struct httpd_list httpd_all = LIST_HEAD_INITIALIZER(httpd_all);

#define AT(field) offsetof(struct httpd_opts, field)
static const struct opt own_rows[] = {
    /* the options whose values are copies */
    {.name = "tls_cert", .type = OPT_FILE, .offset = AT(tls_cert)},
    {.name = "tls_key", .type = OPT_FILE, .offset = AT(tls_key)},
    {.name = "tls_client_ca", .type = OPT_FILE, .offset = AT(tls_client_ca)},
    {.name = "hosts", .type = OPT_LIST, .offset = AT(hosts)},
    {0},
};
#undef AT

void httpd_set(struct httpd *h, const struct httpd_opts *opts)
{
    struct httpd_opts *own = &h->opts;
    if (opts == own)
        return;
    opt_free(own_rows, own);
    if (opts == NULL)
        return;
    *own = *opts;
    own->listen = NULL;
    own->hosts = (struct opt_list){0};
    own->tls_cert = mem_strdup(opts->tls_cert);
    own->tls_key = mem_strdup(opts->tls_key);
    own->tls_client_ca = mem_strdup(opts->tls_client_ca);
    for (size_t i = 0; i < opts->hosts.n; i++)
        opt_list_add(&own->hosts, opts->hosts.v[i]);
}

int httpd_check(const struct httpd_opts *opts, struct err *err)
{
    struct httpd_tls *tls;
    int rc = httpd_tls_load(opts, &tls, err);
    httpd_tls_drop(tls);
    return rc;
}

/* -------------------------------------------------------- the daemon's own listeners */

enum {
    OPEN_ROLES =
        1 << HTTPD_OPEN | 1 << HTTPD_PRODUCE | 1 << HTTPD_CONSUME | 1 << HTTPD_EITHER
};

static bool is_apart(const struct conf *conf)
{
    return strcmp(conf->admin.listen, CONF_ADMIN_ON_HTTP) != 0;
}

static struct httpd *open_one(const struct listeners *l, const char *section,
                              const struct httpd_opts *opts, struct err *err)
{
    struct httpd *h = httpd_open(section, opts, err);
    if (h == NULL) {
        err_in(err, section);
        return NULL;
    }
    httpd_protect(h, &l->tokens);
    h->tokens_suffice = true;
    log_info(section, "listens on %s%s", opts->listen,
             opts->tls_client_ca ? " with TLS, for clients with a certificate"
             : opts->tls_cert    ? " with TLS"
                                 : "");
    return h;
}

int listeners_start(struct listeners *l, const struct conf *conf, struct err *err)
{
    bool http = *conf->http.listen != '\0';
    bool admin = is_apart(conf) && *conf->admin.listen != '\0';
    struct httpd *h = NULL;
    l->tokens = tokens_new(conf);
    httpd_set_bodies_max(conf->daemon.queue_max_bytes);
    if (http) {
        l->first = open_one(l, "http", &conf->http, err);
        if (l->first == NULL)
            return -1;
        l->first->roles = is_apart(conf) ? OPEN_ROLES : ~0U;
    }
    if (admin) {
        h = open_one(l, "admin", &conf->admin, err);
        if (h == NULL)
            return -1;
    }
    if (http && admin)
        l->first->twin = h;
    *(http ? &l->admin : &l->first) = h;
    return 0;
}

void listeners_drain(const struct listeners *l)
{
    if (l->first)
        l->first->draining = true;
    if (l->admin)
        l->admin->draining = true;
}

void listeners_stop(struct listeners *l)
{
    httpd_stop(l->first);
    httpd_stop(l->admin);
    tokens_free(l->tokens);
    *l = (struct listeners){0};
}

/* Checks for options that require a restart. If nothing listens (or another listener
 * serves the section's rows), the other options have no effect. */
static int check_one(const char *section, const struct httpd_opts *now,
                     const struct httpd_opts *next, struct err *err)
{
    if (strcmp(now->listen, next->listen) != 0)
        return err_set(err, "%s.listen needs a restart", section);
    if (*now->listen == '\0' || strcmp(now->listen, CONF_ADMIN_ON_HTTP) == 0)
        return 0;
    if (now->head_max_bytes != next->head_max_bytes)
        return err_set(err, "%s.head_max needs a restart", section);
    if (now->connections_max != next->connections_max)
        return err_set(err, "%s.connections_max needs a restart", section);
    if ((now->tls_cert == NULL) != (next->tls_cert == NULL))
        return err_set(err, "%s.tls_cert: turning TLS on or off needs a restart",
                       section);
    return httpd_check(next, err) < 0 ? err_in(err, section) : 0;
}

int listeners_check(const struct conf *now, const struct conf *next, struct err *err)
{
    if (check_one("http", &now->http, &next->http, err) < 0)
        return -1;
    return check_one("admin", &now->admin, &next->admin, err);
}

/* Returns the new options of h. A listener of a compatible API keeps its own. */
static const struct httpd_opts *opts_of(const struct listeners *l, const struct httpd *h,
                                        const struct conf *next)
{
    if (h == l->admin || (h == l->first && *next->http.listen == '\0'))
        return &next->admin;
    return h == l->first ? &next->http : &h->opts;
}

int listeners_change(struct listeners *l, const struct conf *now, const struct conf *next,
                     struct err *err)
{
    int rc = listeners_check(now, next, err);
    for (struct httpd *h = LIST_FIRST(&httpd_all); h; h = LIST_NEXT(h, link))
        if (h->tls && rc == 0)
            rc = httpd_tls_load(opts_of(l, h, next), &h->renewed, err);
    for (struct httpd *h = LIST_FIRST(&httpd_all); h; h = LIST_NEXT(h, link)) {
        struct httpd_tls *unused = h->renewed;
        if (rc == 0) {
            httpd_set(h, opts_of(l, h, next));
            unused = h->tls;
            h->tls = h->renewed;
        }
        httpd_tls_drop(unused);
        h->renewed = NULL;
    }
    if (rc < 0)
        return -1;
    tokens_free(l->tokens);
    l->tokens = tokens_new(next);
    return 0;
}

void listeners_print(struct buf *out)
{
    static const char *const states[CONN_STATES] = {
        [NEW] = "new",         [READING] = "reading",
        [WAITING] = "waiting", [ANSWERING] = "answering",
        [IDLE] = "idle",       [CLOSING] = "closing",
    };
    metric_head(out, "tarry_http_connections", "gauge",
                "Connections of clients, by listener and state.");
    for (const struct httpd *h = LIST_FIRST(&httpd_all); h; h = LIST_NEXT(h, link))
        for (int state = 0; state < CONN_STATES; state++)
            metric_count(out, "tarry_http_connections",
                         LABELS({"listener", h->name}, {"state", states[state]}),
                         h->conns[state].n);
    httpd_print_refusals(out);
}
