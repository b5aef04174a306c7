/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy.c - the lmstfy source: its options, its start and its stop.
 *
 * Clients of lmstfy find its job API here, and tools its admin API. The jobs lie wherever
 * a route leads the topics NAMESPACE/QUEUE and POOL/NAMESPACE/QUEUE, which is usually a
 * sink of type "queue", from which consumers then get them.
 */
#include "sources/lmstfy/lmstfy_http.h"
#include "sources/lmstfy/lmstfy_id.h"
#include "sources/lmstfy/lmstfy_import.h"

#include <stdlib.h>

/* -------------------------------------------------------------------------- check */

static int check(const void *self, struct err *err)
{
    const struct lmstfy *l = self;
    if (!lmstfy_has_pool(l, SLICE_LIT("default")))
        return err_set(err, "pools: \"default\" must be among them");
    for (size_t i = 0; i < l->pools.n; i++) {
        if (!lmstfy_name_is_good(slice_of(l->pools.v[i])))
            return err_set(err, "pools: \"%s\" is no name; take letters, digits, - and _",
                           l->pools.v[i]);
    }
    if (httpd_check_opts(&l->http, err) < 0)
        return -1;
    return httpd_check_opts(&l->admin_http, err) < 0 ? err_in(err, "admin_listen") : 0;
}

static void unwise(const void *self, struct buf *lines)
{
    const struct lmstfy *l = self;
    const struct httpd_secrets tokens = {!l->skip_token_check, "tokens",
                                         "skip_token_check = false"};
    const struct httpd_secrets passwords = {l->accounts.n > 0, "passwords", "accounts"};
    httpd_warn_of_strangers(&l->http, "", &tokens, lines);
    httpd_warn_of_strangers(&l->admin_http, "admin_", &passwords, lines);
}

static void release(struct lmstfy *l)
{
    httpd_stop(l->httpd);
    l->httpd = NULL;
    lmstfy_requests_free(l);
    timer_del(l->linger);
    l->linger = NULL;
    buf_free(&l->topic);
    buf_free(&l->topics);
    free(l->ids);
    l->ids = NULL;
}

/* --------------------------------------------------------------------------- stop */

enum { LINGER_MS = 50 }; /* for the last answers to leave */

static void on_admin_stopped(void *arg)
{
    struct lmstfy *l = arg;
    release(l);
    source_stopped(l->src);
}

static void on_linger(void *arg)
{
    struct lmstfy *l = arg;
    if (l->open > 0)
        return; /* one more came in meanwhile */
    httpd_stop(l->httpd);
    l->httpd = NULL;
    lmstfy_admin_stop(l, on_admin_stopped, l);
}

void lmstfy_all_answered(struct lmstfy *l)
{
    if (!timer_is_set(l->linger))
        timer_set(l->linger, LINGER_MS);
}

static void stop(struct source *src, void *self)
{
    struct lmstfy *l = self;
    (void)src;
    l->stopping = true;
    httpd_drain(l->httpd);
    if (l->open == 0)
        lmstfy_all_answered(l);
}

/* -------------------------------------------------------------------------- start */

static const struct httpd_route rows[] = {{"*", "/{*}", lmstfy_take, HTTPD_OPEN, NULL},
                                          {0}};

static int start(struct source *src, void *self, struct err *err)
{
    struct lmstfy *l = self;
    if (check(l, err) < 0)
        return -1;
    l->src = src;
    l->ids = mem_alloc(sizeof(*l->ids));
    l->linger = timer_new(on_linger, l);
    l->httpd = httpd_open(source_name(src), &l->http, err);
    if (l->httpd && lmstfy_admin_start(l, err) == 0) {
        httpd_serve(l->httpd, rows, l);
        httpd_set_dialect(l->httpd, &lmstfy_dialect, l);
        log_info(source_name(src), "listens on %s, for the admin API on %s",
                 l->http.listen, l->admin_http.listen);
        return 0;
    }
    release(l);
    return -1;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct lmstfy *l = self;
    (void)src;
    l->paused = paused;
}

/* ------------------------------------------------------------------------- options */

#define AT(field) offsetof(struct lmstfy, field)
#define LONGEST_MS (UINT32_MAX * INT64_C(1000))

static const struct opt opts[] = {
    /* A bulk of 64 jobs of 1 MiB, with what stands between them, fits. */
    HTTPD_ROWS(struct lmstfy, http, "127.0.0.1:7777", "65MiB"),
    HTTPD_ROWS_NAMED("admin_", struct lmstfy, admin_http, "127.0.0.1:7778", "1MiB"),
    {"pools", OPT_LIST, AT(pools), "default",
     .help = "Names of the pools that tokens may name; \"default\" is one of them."},
    {"accounts", OPT_PAIRS, AT(accounts), "",
     .help = "User = password of those who may use the admin API; none: everybody may.",
     .secret = true},
    {"skip_token_check", OPT_BOOL, AT(skip_token_check), "false",
     .help = "Take every request, with any token or without one."},
    {"access_log", OPT_BOOL, AT(access_log), "false",
     .help = "Log a line for each request."},
    {"delay", OPT_MS, AT(delay_ms), "0",
     .help = "How long a job waits where a request does not say.", .max = LONGEST_MS},
    {"ttl", OPT_MS, AT(ttl_ms), "1d",
     .help = "How long a job lives where a request does not say; 0: for ever.",
     .max = LONGEST_MS},
    {"tries", OPT_INT, AT(tries), "1",
     .help = "How often a job is handed out at most where a request does not say.",
     .min = 1, .max = UINT16_MAX},
    {"ttr", OPT_MS, AT(ttr_ms), "120s",
     .help = "How long a consumer has for a job where it does not say.",
     .max = LONGEST_MS},
    {"timeout", OPT_MS, AT(timeout_ms), "0",
     .help = "How long a consumer waits for a job where it does not say.",
     .max = LONGEST_MS},
    {0},
};

const struct source_ops source_lmstfy = {
    .name = "lmstfy",
    .help = "Serves the HTTP API of lmstfy to its clients.",
    .size = sizeof(struct lmstfy),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .pulls_by_topic = true,
    .check = check,
    .unwise = unwise,
    .start = start,
    .pause = pause_source,
    .stop = stop,
    .import = lmstfy_import,
};
