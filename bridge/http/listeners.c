/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/listeners.h"
#include "bridge/conf/conf.h"
#include "bridge/http/httpd_internal.h"
#include "bridge/metrics/stats.h"

#include <string.h>

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
    httpd_protect(h, l->tokens);
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
        httpd_limit_roles(l->first, is_apart(conf) ? OPEN_ROLES : ~0U);
    }
    if (admin) {
        h = open_one(l, "admin", &conf->admin, err);
        if (h == NULL)
            return -1;
    }
    if (http && admin)
        httpd_twin(l->first, h);
    *(http ? &l->admin : &l->first) = h;
    return 0;
}

void listeners_drain(const struct listeners *l)
{
    if (l->first)
        httpd_drain(l->first);
    if (l->admin)
        httpd_drain(l->admin);
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

int listeners_change(struct listeners *l, const struct conf *now, const struct conf *next,
                     struct err *err)
{
    bool http = *next->http.listen != '\0';
    const struct httpd_change changes[] = {{l->first, http ? &next->http : &next->admin},
                                           {l->admin, &next->admin}};
    if (listeners_check(now, next, err) < 0 || httpd_reload(changes, 2, err) < 0)
        return -1;
    struct tokens *before = l->tokens;
    l->tokens = tokens_new(next);
    for (size_t i = 0; i < 2; i++)
        if (changes[i].h)
            httpd_protect(changes[i].h, l->tokens);
    tokens_free(before);
    return 0;
}

static void print_refusal(void *arg, const char *word, uint64_t n)
{
    metric_count(arg, "tarry_http_refused_total", LABELS({"reason", word}), n);
}

static void print_connections(void *arg, const char *listener, const char *state,
                              uint64_t n)
{
    metric_count(arg, "tarry_http_connections",
                 LABELS({"listener", listener}, {"state", state}), n);
}

void listeners_print(struct buf *out)
{
    metric_head(out, "tarry_http_connections", "gauge",
                "Connections of clients, by listener and state.");
    httpd_each_connections(print_connections, out);
    metric_head(out, "tarry_http_refused_total", "counter",
                "Requests that a listener rejected itself, by reason; no-request: "
                "connections without a request, such as failed TLS handshakes; "
                "idle-closed: idle connections closed to accept new ones.");
    httpd_each_refusal(print_refusal, out);
}
