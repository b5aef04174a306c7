/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http.c - the http sink: each job becomes one POST or PUT to a callback URL.
 *
 * libcurl's multi interface on the loop: its sockets are watched, its timeout is one
 * timer. A delivery's outcome is the status of the answer. Redirects are not followed,
 * nothing is repeated here, and no URL, header or payload is ever logged.
 */
#include "bridge/plugin.h"
#include "bridge/text.h"
#include "sinks/http_message.h"

#include <stdio.h>
#include <stdlib.h>

#include <curl/curl.h>

enum {
    RETRY_AFTER_MAX_S = 24 * 60 * 60,
    HEADER_BYTES_MAX = 64 * 1024 /* of an answer */
};

struct http_sink {
    /* options */
    char *url;
    int method;
    int64_t timeout_ms, connect_timeout_ms, response_max, host_connections;
    struct opt_pairs headers;
    char *ca_file, *cert_file, *key_file, *proxy;
    bool verify;
    /* running */
    struct sink *sink;
    CURLM *multi;
    struct timer *timer;
    struct call *idle; /* calls to be used again, with their easy handles */
    struct log_limit bad_header;
};

/* One delivery under way. */
struct call {
    struct http_sink *s;
    struct delivery *d;
    CURL *easy;
    struct http_lines lines;
    struct curl_slist *chain; /* an array over lines, in order */
    size_t chain_room;
    int64_t header_bytes, body_bytes;
    char why[CURL_ERROR_SIZE];
    struct call *next_idle;
};

static const char *const methods[] = {"POST", "PUT"};

#define AT(field) offsetof(struct http_sink, field)
static const struct opt opts[] = {
    {"url", OPT_STR, AT(url), NULL, "Where to send jobs whose route gives no target.",
     .optional = true},
    {"method", OPT_CHOICE, AT(method), "POST", "Method of the request.",
     .choices = "POST|PUT"},
    {"timeout", OPT_MS, AT(timeout_ms), "10s",
     "From the start of a delivery to the end of the answer.", .min = 10, .max = 3600000},
    {"connect_timeout", OPT_MS, AT(connect_timeout_ms), "3s",
     "For finding the address, connecting and TLS.", .min = 10, .max = 600000},
    {"response_max", OPT_BYTES, AT(response_max), "64KiB",
     "Bytes of an answer's body that are read; its status counts all the same.",
     .max = 1 << 30},
    {"host_connections", OPT_INT, AT(host_connections), "64",
     "Connections to one host; deliveries beyond them wait, and their timeout runs.",
     .min = 1, .max = 10000},
    {"headers", OPT_PAIRS, AT(headers), "",
     "Headers of every request, such as Authorization; they win over a job's own.",
     .min = 0},
    {"ca_file", OPT_STR, AT(ca_file), NULL,
     "PEM file of the authorities to trust instead of the system's.", .optional = true},
    {"cert_file", OPT_STR, AT(cert_file), NULL, "PEM file of the client certificate.",
     .optional = true},
    {"key_file", OPT_STR, AT(key_file), NULL, "PEM file of its key.", .optional = true},
    {"proxy", OPT_STR, AT(proxy), NULL,
     "URL of a proxy; the environment's is never used.", .optional = true},
    {"verify", OPT_BOOL, AT(verify), "true",
     "Whether the receiver's certificate must be valid and its own.", .min = 0},
    {0}};

/* curl's list over the header lines; made only when their text has stopped moving. */
static struct curl_slist *make_headers(struct call *c)
{
    if (http_lines_make(&c->lines, c->d, &c->s->headers) > 0)
        log_limited(&c->s->bad_header, LOG_WARN, sink_name(c->s->sink),
                    "a job's header or key cannot stand in HTTP and is left out");
    size_t n = http_lines_count(&c->lines);
    if (n > c->chain_room) {
        c->chain = mem_realloc(c->chain, n * sizeof(*c->chain));
        c->chain_room = n;
    }
    for (size_t i = 0; i < n; i++) {
        c->chain[i].data = http_lines_at(&c->lines, i);
        c->chain[i].next = i + 1 < n ? &c->chain[i + 1] : NULL;
    }
    return c->chain;
}

/* -------------------------------------------------------------------- outcome */

/* Faults of the URL itself, which no repetition mends. */
static const char *hopeless(CURLcode code)
{
    switch (code) {
    case CURLE_URL_MALFORMAT:
        return "the URL is malformed";
    case CURLE_LOGIN_DENIED: /* CURLOPT_DISALLOW_USERNAME_IN_URL */
        return "a job's URL may hold no user name";
    default:
        return NULL;
    }
}

static void call_idle(struct call *c)
{
    c->d = NULL;
    c->next_idle = c->s->idle;
    c->s->idle = c;
}

static void report_status(struct delivery *d, long status, int64_t retry_after_s)
{
    char why[32];
    enum outcome outcome = http_status_outcome(status);
    snprintf(why, sizeof(why), "HTTP %ld", status);
    if (outcome == TRY_AGAIN && retry_after_s > 0)
        d->retry_after_ms =
            1000 *
            (retry_after_s < RETRY_AFTER_MAX_S ? retry_after_s : RETRY_AFTER_MAX_S);
    delivery_done(d, outcome, outcome == DELIVERED ? NULL : why);
}

static void finish(struct call *c, CURLcode code)
{
    struct delivery *d = c->d;
    char why[CURL_ERROR_SIZE];
    long status = 0;
    curl_off_t retry_after_s = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    snprintf(why, sizeof(why), "%s", c->why[0] ? c->why : curl_easy_strerror(code));
    call_idle(c); /* before the report, which may bring the next delivery */
    /* A write error is our own: we stopped reading a long answer, its status is known. */
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && status >= 200))
        report_status(d, status, retry_after_s);
    else if (hopeless(code))
        delivery_done(d, REJECTED, hopeless(code));
    else
        delivery_done(d, TRY_AGAIN, why);
}

/* ------------------------------------------------------------- curl on the loop */

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    (void)bytes;
    c->header_bytes += (int64_t)(size * n);
    return c->header_bytes > HEADER_BYTES_MAX ? 0 : size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    (void)bytes;
    c->body_bytes += (int64_t)(size * n);
    return c->body_bytes > c->s->response_max ? 0 : size * n;
}

/* Never within one of curl's own callbacks: handles are removed here. */
static void collect(struct http_sink *s)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(s->multi, &left)) != NULL) {
        struct call *c = NULL;
        CURLcode code = msg->data.result; /* msg is gone once its handle is removed */
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        curl_multi_remove_handle(s->multi, c->easy);
        finish(c, code);
    }
}

struct socket_watch {
    struct http_sink *s;
    curl_socket_t fd;
    struct watch *watch;
};

static void on_socket(void *arg, unsigned events)
{
    struct socket_watch *sw = arg;
    struct http_sink *s = sw->s; /* curl may give up the socket, and sw, within */
    int flags = (events & WATCH_READ ? CURL_CSELECT_IN : 0) |
                (events & WATCH_WRITE ? CURL_CSELECT_OUT : 0) |
                (events & WATCH_ERROR ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(s->multi, sw->fd, flags, &running);
    collect(s);
}

static void on_timer(void *arg)
{
    struct http_sink *s = arg;
    int running;
    curl_multi_socket_action(s->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(s);
}

static int on_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                          void *socket_arg)
{
    struct http_sink *s = arg;
    struct socket_watch *sw = socket_arg;
    unsigned events = (what & CURL_POLL_IN ? WATCH_READ : 0u) |
                      (what & CURL_POLL_OUT ? WATCH_WRITE : 0u);
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (sw) {
            watch_del(sw->watch);
            loop_defer_free(sw);
            curl_multi_assign(s->multi, fd, NULL);
        }
        return 0;
    }
    if (sw) {
        watch_set(sw->watch, events);
        return 0;
    }
    sw = mem_alloc(sizeof(*sw));
    sw->s = s;
    sw->fd = fd;
    sw->watch = watch_add(fd, events, on_socket, sw);
    curl_multi_assign(s->multi, fd, sw);
    return 0;
}

static int on_want_timer(CURLM *multi, long ms, void *arg)
{
    struct http_sink *s = arg;
    (void)multi;
    if (ms < 0)
        timer_rest(s->timer);
    else
        timer_set(s->timer, ms);
    return 0;
}

/* ------------------------------------------------------------------ deliveries */

/* What stays the same from call to call. */
static CURL *new_easy(struct http_sink *s, struct call *c)
{
    CURL *e = curl_easy_init();
    must(e != NULL);
    curl_easy_setopt(e, CURLOPT_PRIVATE, c);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->why);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT,
                     1L); /* wait for no resolver thread at the end */
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_PROXY, s->proxy ? s->proxy : "");
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)s->connect_timeout_ms);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, s->verify ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, s->verify ? 2L : 0L);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, methods[s->method]);
    if (s->ca_file)
        curl_easy_setopt(e, CURLOPT_CAINFO, s->ca_file);
    if (s->cert_file)
        curl_easy_setopt(e, CURLOPT_SSLCERT, s->cert_file);
    if (s->key_file)
        curl_easy_setopt(e, CURLOPT_SSLKEY, s->key_file);
    return e;
}

static struct call *new_call(struct http_sink *s)
{
    struct call *c = s->idle;
    if (c) {
        s->idle = c->next_idle;
    } else {
        c = mem_alloc(sizeof(*c));
        c->s = s;
        c->easy = new_easy(s, c);
    }
    c->header_bytes = c->body_bytes = 0;
    c->why[0] = 0;
    return c;
}

static void call_free(struct call *c)
{
    curl_easy_cleanup(c->easy);
    http_lines_free(&c->lines);
    free(c->chain);
    free(c);
}

static void set_request(struct call *c, struct slice url)
{
    struct delivery *d = c->d;
    struct slice body = d->job->payload;
    int64_t timeout_ms = c->s->timeout_ms;
    int64_t sink_ms = sink_timeout_ms(c->s->sink);
    if (sink_ms > 0 && sink_ms < timeout_ms)
        timeout_ms = sink_ms;
    if (d->timeout_ms > 0 && d->timeout_ms < timeout_ms)
        timeout_ms = d->timeout_ms;
    char *text = mem_strndup(url.p, url.n);
    curl_easy_setopt(c->easy, CURLOPT_URL, text);
    free(text);
    /* A message's URL may be allowed by its beginning; "https://good@evil/" must not
     * pass. */
    curl_easy_setopt(c->easy, CURLOPT_DISALLOW_USERNAME_IN_URL, d->target.n ? 1L : 0L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, body.n ? body.p : ""); /* borrowed */
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, make_headers(c));
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct http_sink *s = self;
    struct slice url = d->target.n ? d->target : slice_of(s->url);
    (void)sink;
    if (!http_is_url(url)) {
        delivery_done(d, REJECTED,
                      url.n ? "the target is no http:// or https:// URL"
                            : "no URL: set the sink's url or the route's topic");
        return;
    }
    struct call *c = new_call(s);
    c->d = d;
    set_request(c, url);
    CURLMcode rc = curl_multi_add_handle(s->multi, c->easy);
    if (rc != CURLM_OK) {
        call_idle(c);
        delivery_done(d, TRY_AGAIN, curl_multi_strerror(rc));
    }
}

/* --------------------------------------------------------------- start and stop */

static int check(const void *self, struct err *err)
{
    const struct http_sink *s = self;
    if (s->url && !http_is_url(slice_of(s->url)))
        return err_set(
            err, "url must begin with http:// or https:// and be shorter than %d bytes",
            HTTP_URL_MAX);
    if (s->proxy && strstr(s->proxy, "://") == NULL)
        return err_set(err, "proxy must be a URL such as http://proxy.example:3128");
    if ((s->cert_file == NULL) != (s->key_file == NULL))
        return err_set(err, "cert_file and key_file must be given together");
    for (size_t i = 0; i < s->headers.n; i++) {
        struct slice name = slice_of(s->headers.v[i].name);
        if (!text_is_token(name) || http_is_transport_header(name) ||
            !text_is_header_value(slice_of(s->headers.v[i].value)))
            return err_set(
                err,
                "headers: \"%s\" cannot be set: no header name, the transport's "
                "own, or a line break in its value",
                name.p);
    }
    return 0;
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct http_sink *s = self;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return err_set(err, "libcurl does not start");
    s->sink = sink;
    s->multi = curl_multi_init();
    must(s->multi != NULL);
    s->timer = timer_new(on_timer, s);
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, on_want_timer);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s);
    curl_multi_setopt(s->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(s->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)s->host_connections);
    if (!s->verify)
        log_warn(sink_name(sink), "verify = false: anyone may pose as the receiver");
    return 0;
}

static void stop(struct sink *sink, void *self)
{
    struct http_sink *s = self;
    while (s->idle) {
        struct call *next = s->idle->next_idle;
        call_free(s->idle);
        s->idle = next;
    }
    curl_multi_cleanup(
        s->multi); /* closes kept connections, and their watches with them */
    timer_del(s->timer);
    curl_global_cleanup();
    sink_stopped(sink);
}

const struct sink_ops sink_http = {
    .name = "http",
    .help = "Sends each job as an HTTP request to a callback URL.",
    .size = sizeof(struct http_sink),
    .opts = opts,
    .target = "",
    .max_in_flight = 64,
    .check = check,
    .start = start,
    .deliver = deliver,
    .stop = stop,
};
