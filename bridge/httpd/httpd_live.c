/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_live.c - new options and renewed certificates of listeners that run.
 */
#include "bridge/base/mem.h"
#include "bridge/httpd/httpd_parts.h"

#include <stdlib.h>

static struct httpd *all; /* that are open */

void httpd_live_add(struct httpd *h)
{
    h->next = all;
    if (all)
        all->before = h;
    all = h;
}

static void forget_files(struct httpd *h)
{
    free(h->opts.tls_cert);
    free(h->opts.tls_key);
    free(h->opts.tls_client_ca);
}

void httpd_live_del(struct httpd *h)
{
    *(h->before ? &h->before->next : &all) = h->next;
    if (h->next)
        h->next->before = h->before;
    forget_files(h);
}

int httpd_check(const struct httpd_opts *opts, struct err *err)
{
    if (!httpd_tls_is_wanted(opts)) {
        if (opts->tls_key || opts->tls_client_ca)
            return err_set(err, "%s needs tls_cert, the certificate to show",
                           opts->tls_key ? "tls_key" : "tls_client_ca");
        return 0;
    }
    struct httpd_tls *tls = httpd_tls_load(opts, err);
    httpd_tls_drop(tls);
    return tls ? 0 : -1;
}

static char *copy(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

void httpd_set(struct httpd *h, const struct httpd_opts *opts)
{
    struct httpd_opts *own = &h->opts;
    if (opts == own)
        return;
    forget_files(h);
    own->tls_cert = copy(opts->tls_cert);
    own->tls_key = copy(opts->tls_key);
    own->tls_client_ca = copy(opts->tls_client_ca);
    own->body_max_bytes = opts->body_max_bytes;
    own->body_rate_bytes = opts->body_rate_bytes;
    own->deadline_ms = opts->deadline_ms;
    own->idle_ms = opts->idle_ms;
    own->requests_max = opts->requests_max;
}

/* Its own, where none are new. */
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
