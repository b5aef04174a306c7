/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy.c - the lmstfy source: options, start and stop.
 *
 * Serves lmstfy's job API and admin API. Jobs have the topics NAMESPACE/QUEUE and
 * POOL/NAMESPACE/QUEUE. Their route usually leads to a sink of type "queue", from which
 * consumers pull them.
 */
#include "sources/lmstfy/lmstfy.h"

bool lmstfy_has_pool(const struct lmstfy *l, struct slice pool)
{
    for (size_t i = 0; i < l->pools.n; i++) {
        if (slice_is(pool, l->pools.v[i]))
            return true;
    }
    return false;
}

static int check(const void *self, struct err *err)
{
    const struct lmstfy *l = self;
    if (!lmstfy_has_pool(l, SLICE_LIT("default")))
        return err_set(err, "pools: must contain \"default\"");
    for (size_t i = 0; i < l->pools.n; i++) {
        if (!lmstfy_name_is_valid(slice_of(l->pools.v[i])))
            return err_set(
                err, "pools: \"%s\" is not a valid name; use letters, digits, - and _",
                l->pools.v[i]);
    }
    if (http_api_check(self, err) < 0)
        return -1;
    return httpd_check_opts(&l->admin_http, err) < 0 ? err_in(err, "admin_listen") : 0;
}

static void warn(const void *self, struct buf *lines)
{
    const struct lmstfy *l = self;
    const struct httpd_secrets tokens = {!l->skip_token_check, "tokens",
                                         "skip_token_check = false"};
    const struct httpd_secrets passwords = {l->accounts.n > 0, "passwords", "accounts"};
    httpd_warn_insecure(&l->api.opts, "", &tokens, lines);
    httpd_warn_insecure(&l->admin_http, "admin_", &passwords, lines);
}

/* Changes of tokens and limits are notified; this covers lost notifications. */
enum { COPIES_CLEAR_MS = 10 * 1000 };

static const struct httpd_route rows[] = {{"*", "/{*}", lmstfy_serve, HTTPD_OPEN, NULL},
                                          {0}};
static const struct httpd_route admin_rows[] = {
    {"*", "/{*}", lmstfy_serve_admin, HTTPD_OPEN, NULL}, {0}};

static int start(struct source *src, void *self, struct err *err)
{
    struct lmstfy *l = self;
    struct buf name = {0};
    if (check(l, err) < 0 || http_api_start(src, l, rows, &lmstfy_dialect, err) < 0)
        return -1;
    buf_addf(&name, "%s.admin", source_name(src));
    l->admin_httpd = httpd_open(buf_str(&name), &l->admin_http, err);
    buf_free(&name);
    if (l->admin_httpd == NULL) {
        httpd_stop(l->api.httpd);
        return err_in(err, "admin_listen");
    }
    l->tokens = (struct lmstfy_copies){.kv = LMSTFY_TOKENS_KV};
    l->limits = (struct lmstfy_copies){.kv = LMSTFY_LIMITS_KV, .absent = true};
    l->copies_clear = timer_every(COPIES_CLEAR_MS, lmstfy_copies_clear, l);
    kv_watch(src, lmstfy_copies_clear, l);
    lmstfy_metrics_start(l);
    httpd_serve(l->admin_httpd, admin_rows, l);
    httpd_set_dialect(l->admin_httpd, &lmstfy_admin_dialect, l);
    log_info(source_name(src), "listens on %s for the admin API", l->admin_http.listen);
    return 0;
}

static void on_admin_closed(void *arg)
{
    struct lmstfy *l = arg;
    kv_watch(l->api.src, NULL, NULL);
    timer_del(l->copies_clear);
    lmstfy_copies_clear(l);
    lmstfy_metrics_stop(l);
    buf_free(&l->topic);
    buf_free(&l->key);
    source_stopped(l->api.src);
}

static void on_closed(void *self)
{
    struct lmstfy *l = self;
    httpd_close(l->admin_httpd, on_admin_closed, l);
}

static void stop(struct source *src, void *self)
{
    (void)src;
    http_api_close(self, on_closed);
}

#define AT(field) offsetof(struct lmstfy, field)
#define LONGEST_MS (UINT32_MAX * INT64_C(1000))

static const struct opt opts[] = {
    /* Fits a bulk of 64 jobs of 1 MiB with their separators. */
    HTTPD_ROWS(struct lmstfy, api.opts, "127.0.0.1:7777", "65MiB"),
    HTTPD_ROWS_NAMED("admin_", struct lmstfy, admin_http, "127.0.0.1:7778", "1MiB"),
    {"pools", OPT_LIST, AT(pools), "default",
     .help = "Names of the pools that tokens may contain. \"default\" is required."},
    {"accounts", OPT_PAIRS, AT(accounts), "",
     .help = "Accounts of the admin API, as user = password. Empty: no authentication.",
     .secret = true},
    {"skip_token_check", OPT_BOOL, AT(skip_token_check), "false",
     .help = "Whether to accept every request, with any token or without a token."},
    {"access_log", OPT_BOOL, AT(access_log), "false",
     .help = "Whether to log a line for each request."},
    {"delay", OPT_MS, AT(delay_ms), "0", .help = "Default delay of a job.",
     .max = LONGEST_MS},
    {"ttl", OPT_MS, AT(ttl_ms), "1d",
     .help = "Default time until a job expires; 0: never.", .max = LONGEST_MS},
    {"tries", OPT_INT, AT(tries), "1",
     .help = "Default of the maximum number of deliveries of a job.", .min = 1,
     .max = UINT16_MAX},
    {"ttr", OPT_MS, AT(ttr_ms), "120s",
     .help = "Default time in which a consumer must acknowledge a job.",
     .max = LONGEST_MS},
    {"timeout", OPT_MS, AT(timeout_ms), "0",
     .help = "Default time that a consumer waits for a job.", .max = LONGEST_MS},
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
    .warn = warn,
    .start = start,
    .pause = http_api_pause,
    .stop = stop,
    .import = lmstfy_import,
};
