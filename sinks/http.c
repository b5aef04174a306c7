/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http.c - the http sink: each job becomes one POST or PUT to a callback URL.
 *
 * libcurl's multi interface on the loop: its sockets are watched, its timeout is one
 * timer. The answer's status or body is the outcome, see http_opts.h. A redirect is a
 * further request from here, through the same checks as the first. A failed delivery is
 * not repeated here, and no URL, header or payload is ever logged.
 */
#include "bridge/plugin.h"
#include "sinks/http_message.h"
#include "sinks/http_opts.h"
#include "sinks/http_url.h"

#include <stdio.h>
#include <stdlib.h>

#include <curl/curl.h>

enum {
    RETRY_AFTER_MAX_S = 24 * 60 * 60,
    HEADER_BYTES_MAX = 64 * 1024,          /* of an answer */
    ANSWERS_BYTES_MAX = 256 * 1024 * 1024, /* held of all answers under way */
    BUFFER_KEPT = 64 * 1024,               /* a call at rest keeps no larger one */
    IDLE_CONNECTIONS = 64                  /* kept beyond max_in_flight */
};

struct http_sink {
    struct http_opts o; /* first: its rows say so */
    struct sink *sink;
    CURLM *multi;
    struct timer *timer;
    struct call *idle; /* calls to be used again, with their easy handles */
    int64_t answers_bytes;
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
    struct buf url; /* of the request under way, as curl has it */
    struct http_hop hop;
    int64_t redirects;   /* followed so far */
    int64_t deadline_ms; /* monotonic; all redirects included */
    struct buf answer;   /* by code100: its body */
    int64_t header_bytes, body_bytes;
    unsigned sent;       /* how often curl has sent this request */
    const char *stopped; /* why we went no further; NULL: we did not stop */
    char why[CURL_ERROR_SIZE];
    struct call *next_idle;
};

/* curl's list over the header lines; made only when their text has stopped moving. */
static struct curl_slist *make_headers(struct call *c)
{
    if (http_lines_make(&c->lines, c->d, &c->s->o, &c->hop) > 0)
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

/* -------------------------------------------------------------------- a request */

static void set_method(struct call *c)
{
    static const char *const methods[] = {[HTTP_POST] = "POST", [HTTP_PUT] = "PUT"};
    curl_easy_setopt(c->easy, c->hop.bodyless ? CURLOPT_HTTPGET : CURLOPT_POST, 1L);
    curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST,
                     c->hop.bodyless ? NULL : methods[c->s->o.method]);
}

static struct slice first_url(const struct call *c)
{
    return c->d->target.n ? c->d->target : slice_of(c->s->o.url);
}

/* A message's URL may be allowed by its beginning; "https://good@evil/" must not pass. */
static bool user_is_fine(const struct call *c)
{
    return c->s->o.userinfo || (c->d->target.n == 0 && !c->hop.foreign);
}

static void forget_answer(struct call *c)
{
    c->s->answers_bytes -= (int64_t)c->answer.n;
    buf_clear(&c->answer);
    if (c->answer.cap > BUFFER_KEPT)
        buf_free(&c->answer);
    c->header_bytes = c->body_bytes = 0;
    c->sent = 0;
    c->stopped = NULL;
    c->why[0] = 0;
}

/* Sets up the request for url, the first or where a redirect leads. Gives why it can't
 * be sent, or NULL. */
static const char *set_request(struct call *c, struct slice url)
{
    struct buf next = {0}, referer = {0};
    struct slice body = c->d->job->payload;
    int64_t left_ms = c->deadline_ms - loop_mono_ms();
    if (!http_is_url(url))
        return url.n ? "the target is no http:// or https:// URL, or too long"
                     : "no URL: set the sink's url or the route's topic";
    if (http_url_add(&next, url) < 0)
        return "the URL is malformed";
    if (c->redirects > 0)
        http_url_add_referer(&referer, buf_slice(&c->url), buf_slice(&next));
    c->hop.foreign = !http_url_same_origin(first_url(c), buf_slice(&next));
    buf_free(&c->url);
    c->url = next;
    c->hop.referer = buf_slice(&referer);
    curl_easy_setopt(c->easy, CURLOPT_URL, buf_str(&c->url));
    curl_easy_setopt(c->easy, CURLOPT_DISALLOW_USERNAME_IN_URL,
                     user_is_fine(c) ? 0L : 1L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)(left_ms > 0 ? left_ms : 1));
    if (!c->hop.bodyless) {
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, body.n ? body.p : ""); /* lent */
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    }
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, make_headers(c));
    c->hop.referer = (struct slice){0};
    buf_free(&referer);
    return NULL;
}

/* -------------------------------------------------------------------- outcome */

/* Faults of the URL itself, which no repetition mends. */
static const char *hopeless(CURLcode code)
{
    if (code == CURLE_LOGIN_DENIED) /* CURLOPT_DISALLOW_USERNAME_IN_URL */
        return "a job's URL may hold no user name";
    return code == CURLE_URL_MALFORMAT ? "the URL is malformed" : NULL;
}

static void call_idle(struct call *c)
{
    if (c->hop.bodyless) {
        c->hop.bodyless = false;
        set_method(c);
    }
    forget_answer(c);
    c->d = NULL;
    c->next_idle = c->s->idle;
    c->s->idle = c;
}

static void report(struct call *c, enum outcome outcome, const char *why)
{
    struct delivery *d = c->d;
    char text[CURL_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s", why ? why : "");
    call_idle(c); /* before the report, which may bring the next delivery */
    delivery_done(d, outcome, outcome == DELIVERED ? NULL : text);
}

/* By code100 nothing is final: the number of tries alone decides. */
static void reject(struct call *c, const char *why)
{
    report(c, c->s->o.accept == HTTP_BY_CODE100 ? TRY_AGAIN : REJECTED, why);
}

static void report_status(struct call *c, long status)
{
    char why[32];
    curl_off_t retry_after_s = 0;
    enum outcome outcome = http_status_outcome(status);
    curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    snprintf(why, sizeof(why), "HTTP %ld", status);
    if (retry_after_s > RETRY_AFTER_MAX_S)
        retry_after_s = RETRY_AFTER_MAX_S;
    if (outcome == TRY_AGAIN && retry_after_s > 0)
        c->d->retry_after_ms = 1000 * retry_after_s;
    report(c, outcome, why);
}

static void report_code100(struct call *c, long status)
{
    char why[80];
    snprintf(why, sizeof(why), "HTTP %ld, a body that does not say \"code\": 100",
             status);
    report(c, http_is_code100(buf_slice(&c->answer)) ? DELIVERED : TRY_AGAIN, why);
}

static void begin(struct call *c, struct slice url)
{
    const char *trouble = set_request(c, url);
    CURLMcode rc = trouble ? CURLM_OK : curl_multi_add_handle(c->s->multi, c->easy);
    if (trouble)
        reject(c, trouble);
    else if (rc != CURLM_OK)
        report(c, TRY_AGAIN, curl_multi_strerror(rc));
}

/* Goes on where the answer says. false: it says nothing of the kind. */
static bool follow(struct call *c, long status)
{
    enum http_redirect how = http_status_redirect(status);
    char *to = NULL;
    curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
    if (c->s->o.redirects == 0 || how == HTTP_NO_REDIRECT || to == NULL)
        return false;
    if (c->redirects == c->s->o.redirects) {
        reject(c, "too many redirects");
        return true;
    }
    c->redirects++;
    if (how == HTTP_AS_GET && !c->hop.bodyless) {
        c->hop.bodyless = true;
        set_method(c);
    }
    forget_answer(c);
    struct buf url = {0}; /* to is curl's, and goes with the next setting */
    buf_add_str(&url, to);
    begin(c, buf_slice(&url));
    buf_free(&url);
    return true;
}

static void finish(struct call *c, CURLcode code)
{
    bool by_body = c->s->o.accept == HTTP_BY_CODE100;
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && follow(c, status))
        return;
    if (code == CURLE_OK && by_body)
        report_code100(c, status);
    else if (code == CURLE_OK || (c->stopped && !by_body && status >= 200))
        report_status(c, status); /* of a long answer, too */
    else if (hopeless(code))
        reject(c, hopeless(code));
    else if (c->stopped)
        report(c, TRY_AGAIN, c->stopped);
    else
        report(c, TRY_AGAIN, c->why[0] ? c->why : curl_easy_strerror(code));
}

/* ------------------------------------------------------------- curl on the loop */

/* curl sends again, and often, what ended without an answer on a kept connection. Once is
 * right: that connection may have been at its end. */
static int on_send(void *arg, char *ip, char *our_ip, int port, int our_port)
{
    struct call *c = arg;
    (void)ip, (void)our_ip, (void)port, (void)our_port;
    if (c->sent++ > 1)
        c->stopped = "the connection ends without an answer";
    return c->stopped ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    (void)bytes;
    c->header_bytes += (int64_t)(size * n);
    if (c->header_bytes > HEADER_BYTES_MAX)
        c->stopped = "the headers of the answer are longer than 64 KiB";
    return c->stopped ? 0 : size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    struct http_sink *s = c->s;
    c->body_bytes += (int64_t)(size * n);
    if (c->body_bytes > s->o.response_max_bytes) {
        c->stopped = "the answer is longer than response_max";
    } else if (s->o.accept == HTTP_BY_CODE100) {
        s->answers_bytes += (int64_t)(size * n);
        buf_add(&c->answer, bytes, size * n);
        if (s->answers_bytes > ANSWERS_BYTES_MAX)
            c->stopped = "too many large answers at a time";
    }
    return c->stopped ? 0 : size * n;
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
static CURL *new_easy(const struct http_opts *o, struct call *c)
{
    CURL *e = curl_easy_init();
    must(e != NULL);
    curl_easy_setopt(e, CURLOPT_PRIVATE, c);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->why);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L); /* await no resolver thread */
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, o->proxy ? o->proxy : "");
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_timeout_ms);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, o->verify ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, o->verify ? 2L : 0L);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, c);
    if (o->accept == HTTP_BY_CODE100) /* else the body is not read: on_body() counts */
        curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "gzip");
    if (o->ca_file)
        curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
    curl_easy_setopt(e, CURLOPT_SSLCERT, o->cert_file);
    curl_easy_setopt(e, CURLOPT_SSLKEY, o->key_file);
    return e;
}

static int64_t timeout_ms(const struct http_sink *s, const struct delivery *d)
{
    int64_t ms = s->o.timeout_ms, sink_ms = sink_timeout_ms(s->sink);
    if (sink_ms > 0 && sink_ms < ms)
        ms = sink_ms;
    return d->timeout_ms > 0 && d->timeout_ms < ms ? d->timeout_ms : ms;
}

static struct call *new_call(struct http_sink *s, struct delivery *d)
{
    struct call *c = s->idle;
    if (c) {
        s->idle = c->next_idle;
    } else {
        c = mem_alloc(sizeof(*c));
        c->s = s;
        c->easy = new_easy(&s->o, c);
        set_method(c);
    }
    c->d = d;
    c->hop = (struct http_hop){0};
    c->redirects = 0;
    c->deadline_ms = loop_mono_ms() + timeout_ms(s, d);
    return c;
}

static void call_free(struct call *c)
{
    curl_easy_cleanup(c->easy);
    http_lines_free(&c->lines);
    buf_free(&c->url);
    buf_free(&c->answer);
    free(c->chain);
    free(c);
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct call *c = new_call(self, d);
    (void)sink;
    begin(c, first_url(c));
}

/* --------------------------------------------------------------- start and stop */

static int start(struct sink *sink, void *self, struct err *err)
{
    struct http_sink *s = self;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return err_set(err, "libcurl does not start");
    s->sink = sink;
    CURLM *m = s->multi = curl_multi_init();
    must(m != NULL);
    s->timer = timer_new(on_timer, s);
    curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    curl_multi_setopt(m, CURLMOPT_SOCKETDATA, s);
    curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_want_timer);
    curl_multi_setopt(m, CURLMOPT_TIMERDATA, s);
    curl_multi_setopt(m, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(m, CURLMOPT_MAX_HOST_CONNECTIONS, (long)s->o.host_connections);
    /* curl's own rule, four times what is under way, closes them whenever load pauses. */
    curl_multi_setopt(m, CURLMOPT_MAXCONNECTS,
                      (long)sink_max_in_flight(sink) + IDLE_CONNECTIONS);
    if (!s->o.verify)
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
    curl_multi_cleanup(s->multi); /* kept connections and their watches go with it */
    timer_del(s->timer);
    curl_global_cleanup();
    sink_stopped(sink);
}

const struct sink_ops sink_http = {
    .name = "http",
    .help = "Sends each job as an HTTP request to a callback URL.",
    .size = sizeof(struct http_sink),
    .opts = http_opt_rows,
    .target = "",
    .max_in_flight = 64,
    .check = http_opts_check,
    .start = start,
    .deliver = deliver,
    .stop = stop,
};
