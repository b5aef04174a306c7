/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http.c - the http sink: each job becomes one POST or PUT to a callback URL.
 *
 * The status or body of the answer decides the outcome, see http_opts.c. The sink itself
 * never retries, and never logs a URL, header or payload.
 */
#include "sinks/http/http_sink.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------------- curl */

enum { IDLE_CONNECTIONS = 64 }; /* kept beyond max_in_flight */

CURL *http_easy_new(const struct http_opts *o, char *why)
{
    CURL *e = curl_easy_init();
    must(e != NULL);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, o->proxy ? o->proxy : "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, ""); /* otherwise the environment sets it */
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, o->verify ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, o->verify ? 2L : 0L);
    if (o->ca_file)
        curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
    return e;
}

static void start_curl(struct http_sink *s)
{
    s->curl = curl_loop_new(http_call_end, http_call_is_connected);
    CURLM *m = curl_loop_multi(s->curl);
    curl_multi_setopt(m, CURLMOPT_MAX_HOST_CONNECTIONS, (long)s->o.host_connections);
    /* curl's default, four times the running transfers, would close them in every
     * pause. */
    curl_multi_setopt(m, CURLMOPT_MAXCONNECTS,
                      (long)sink_max_in_flight(s->sink) + IDLE_CONNECTIONS);
}

/* ------------------------------------------------------------------ start and stop */

static struct slice origin(const void *self, struct slice target)
{
    const struct http_sink *s = self;
    return http_url_origin(target.n ? target : slice_of(s->o.url));
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct http_sink *s = self;
    s->sink = sink;
    if (http_opts_parse(s, err) < 0)
        return -1;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        http_opts_release(s);
        return err_set(err, "cannot initialise libcurl");
    }
    start_curl(s);
    if (!s->o.verify)
        log_warn(sink_name(sink),
                 "verify = false: tarry does not check the receiver's certificate, so "
                 "another host can impersonate the receiver");
    return 0;
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    (void)sink;
    http_call_begin(self, d);
}

static void stop(struct sink *sink, void *self)
{
    struct http_sink *s = self;
    http_calls_free(s);
    curl_loop_free(s->curl);
    curl_global_cleanup();
    http_opts_release(s);
    sink_stopped(sink);
}

/* ------------------------------------------------------------ tarry check --connect
 *
 * Connects to a callback's host, with TLS for https URLs, and sends no request. */

static int dial(const struct http_opts *o, const struct http_guard *guard,
                enum http_url_source from, const char *url, struct buf *said,
                struct err *err)
{
    char why[CURL_ERROR_SIZE] = "";
    char *ip = NULL;
    int bad = 0;
    CURL *e = http_easy_new(o, why);
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)PROBE_WAIT_MS);
    curl_easy_setopt(e, CURLOPT_SSLCERT, o->cert_file);
    curl_easy_setopt(e, CURLOPT_SSLKEY, o->key_file);
    CURLcode rc = curl_easy_perform(e);
    curl_easy_getinfo(e, CURLINFO_PRIMARY_IP, &ip);
    if (rc != CURLE_OK)
        bad = err_set(err, "%s", *why ? why : curl_easy_strerror(rc));
    else if (!o->proxy && ip && !http_guard_ip(guard, from, ip))
        bad = err_set(
            err, "the options deny and allow of this sink forbid its address %s", ip);
    else
        buf_addf(said, "%s answers", ip ? ip : "it");
    curl_easy_cleanup(e);
    return bad;
}

/* Returns the part of the target that names its host; n 0: each message names its own. */
static struct slice host_of(const struct http_opts *o, const struct probe_target *target)
{
    struct slice url = target->text.n ? target->text : slice_of(o->url ? o->url : "");
    struct slice origin = url.n ? http_url_origin(url) : url;
    bool ends =
        target->text.n == 0 || target->whole ||
        memchr(origin.p + origin.n, '/', (size_t)(url.p + url.n - origin.p) - origin.n);
    return http_is_url(url) && ends ? origin : (struct slice){NULL, 0};
}

static int probe(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err)
{
    const struct http_sink *s = self;
    struct slice host = host_of(&s->o, target);
    enum http_url_source from = target->text.n ? HTTP_URL_ROUTE : HTTP_URL_CONFIG;
    struct buf url = {0};
    if (host.n == 0) {
        buf_add_str(said, "not tested: each message names its own host");
        return 0;
    }
    struct http_guard *guard = http_guard_new(&s->o, err);
    if (guard == NULL)
        return -1;
    buf_add_slice(&url, host);
    buf_add_str(&url, "/");
    const char *why = http_guard_url(guard, from, buf_str(&url));
    int bad = why ? err_set(err, "%s", why)
                  : dial(&s->o, guard, from, buf_str(&url), said, err);
    http_guard_free(guard);
    buf_free(&url);
    return bad;
}

static unsigned connections(const void *self)
{
    return curl_loop_connections(((const struct http_sink *)self)->curl);
}

static int check_target(const void *self, const struct probe_target *target,
                        struct err *err)
{
    (void)self;
    if (!target->whole)
        return 0;
    if (!http_is_url(target->text))
        return err_set(err, "the target must be a URL that begins with http:// or "
                            "https://");
    return http_url_check_port(target->text, err);
}

const struct sink_ops sink_http = {
    .name = "http",
    .help = "Sends each job as an HTTP request to a callback URL.",
    .size = sizeof(struct http_sink),
    .opts = http_opt_rows,
    .target = "",
    .max_in_flight = 64,
    .check = http_opts_check,
    .origin = origin,
    .start = start,
    .deliver = deliver,
    .stop = stop,
    .probe = probe,
    .connections = connections,
    .check_target = check_target,
};
