/* SPDX-License-Identifier: BSD-2-Clause */
/* httpd_reload.c - applies new options and renewed certificates to running listeners. */
#include "bridge/conf/conf.h"
#include "bridge/http/httpd_internal.h"

#include <stddef.h>

static struct httpd *all; /* list of open listeners */

void httpd_list_add(struct httpd *h)
{
    h->next = all;
    if (all)
        all->before = h;
    all = h;
}

/* The options that a listener copies. */
#define AT(field) offsetof(struct httpd_opts, field)
static const struct opt own_rows[] = {
    {.name = "tls_cert", .type = OPT_FILE, .offset = AT(tls_cert)},
    {.name = "tls_key", .type = OPT_FILE, .offset = AT(tls_key)},
    {.name = "tls_client_ca", .type = OPT_FILE, .offset = AT(tls_client_ca)},
    {.name = "hosts", .type = OPT_LIST, .offset = AT(hosts)},
    {0},
};
#undef AT

void httpd_list_del(struct httpd *h)
{
    *(h->before ? &h->before->next : &all) = h->next;
    if (h->next)
        h->next->before = h->before;
    opt_free(own_rows, &h->opts);
}

int httpd_check(const struct httpd_opts *opts, struct err *err)
{
    if (httpd_check_opts(opts, err) < 0)
        return -1;
    if (!httpd_tls_is_wanted(opts))
        return 0;
    struct httpd_tls *tls = httpd_tls_load(opts, err);
    httpd_tls_drop(tls);
    return tls ? 0 : -1;
}

void httpd_set(struct httpd *h, const struct httpd_opts *opts)
{
    struct httpd_opts *own = &h->opts;
    if (opts == own)
        return;
    opt_free(own_rows, own);
    own->tls_cert = mem_strdup(opts->tls_cert);
    own->tls_key = mem_strdup(opts->tls_key);
    own->tls_client_ca = mem_strdup(opts->tls_client_ca);
    for (size_t i = 0; i < opts->hosts.n; i++)
        opt_list_add(&own->hosts, opts->hosts.v[i]);
    own->body_max_bytes = opts->body_max_bytes;
    own->body_rate_bytes = opts->body_rate_bytes;
    own->deadline_ms = opts->deadline_ms;
    own->idle_ms = opts->idle_ms;
    own->requests_max = opts->requests_max;
    own->connections_per_address = opts->connections_per_address;
}

void httpd_each_connections(httpd_connections_cb *cb, void *arg)
{
    static const char *const states[CONN_STATES] = {
        [NEW] = "new",         [READING] = "reading",
        [WAITING] = "waiting", [ANSWERING] = "answering",
        [IDLE] = "idle",       [CLOSING] = "closing",
    };
    for (const struct httpd *h = all; h; h = h->next)
        for (int state = 0; state < CONN_STATES; state++)
            cb(arg, h->name, states[state], h->conns[state].n);
}

/* Returns the new options of h, or its current ones if it is not in changes. */
static const struct httpd_opts *opts_of(const struct httpd *h,
                                        const struct httpd_change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (changes[i].h == h)
            return changes[i].opts;
    return &h->opts;
}

int httpd_reload(const struct httpd_change *changes, size_t n, struct err *err)
{
    int rc = 0;
    for (struct httpd *h = all; h && rc == 0; h = h->next)
        if (h->tls) {
            h->renewed = httpd_tls_load(opts_of(h, changes, n), err);
            rc = h->renewed ? 0 : -1;
        }
    for (struct httpd *h = all; h; h = h->next) {
        struct httpd_tls *unused = h->renewed;
        if (rc == 0) {
            httpd_set(h, opts_of(h, changes, n));
            unused = h->tls;
            h->tls = h->renewed;
        }
        httpd_tls_drop(unused);
        h->renewed = NULL;
    }
    return rc;
}
