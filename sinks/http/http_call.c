/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_call.c - makes a delivery: its requests, the answer, the outcome.
 *
 * A redirect causes a further request with the same checks as the first. The guard checks
 * every address before anything is sent to it: before a connection is opened, and again
 * before a kept connection is reused, since it may have been opened for a URL with more
 * permissions.
 */
#include "sinks/http/http_sink.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    HEADER_BYTES_MAX = 64 * 1024,          /* per answer */
    ANSWERS_BYTES_MAX = 256 * 1024 * 1024, /* of all unfinished answers together */
    BUFFER_KEPT = 64 * 1024                /* an idle call keeps no larger buffer */
};

struct http_call {
    struct http_sink *s;
    struct delivery *d;
    CURL *easy;
    struct http_lines lines;
    struct curl_slist *chain; /* array of nodes that point to lines, in order */
    size_t chain_room;
    struct buf url;                  /* of the current request, in curl's form */
    enum http_url_source url_source; /* origin of that URL */
    struct http_hop hop;
    int64_t redirects;   /* followed so far */
    int64_t deadline_ms; /* monotonic; includes all redirects */
    struct buf answer; /* body of the answer: whole for accept = "code100", else the start
                        * of one that is not 2xx */
    int64_t header_bytes, body_bytes;
    unsigned sent;       /* number of times curl has sent this request */
    bool denied, opened; /* denied: the guard rejected an address; opened: it allowed an
                          * address */
    bool connected;      /* the last connection opened is set up, or a kept one is used */
    bool within;         /* the request went to a private address */
    const char *stopped; /* reason for our own abort; NULL: none */
    char why[CURL_ERROR_SIZE];
    struct http_call *next_idle;
};

/* Makes curl's list of header lines. Call after the last line: the text moves as it
 * grows. */
static struct curl_slist *make_headers(struct http_call *c)
{
    if (http_lines_make(&c->lines, c->d, &c->s->o, &c->hop) > 0)
        log_limited(&c->s->bad_header, LOG_WARN, sink_name(c->s->sink),
                    "dropped a header or the key of a job: it is invalid in HTTP");
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

static void set_method(struct http_call *c)
{
    static const char *const methods[] = {[HTTP_POST] = "POST", [HTTP_PUT] = "PUT"};
    curl_easy_setopt(c->easy, c->hop.without_body ? CURLOPT_HTTPGET : CURLOPT_POST, 1L);
    curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST,
                     c->hop.without_body ? NULL : methods[c->s->o.method]);
}

static struct slice first_url(const struct http_call *c)
{
    return c->d->target.n ? c->d->target : slice_of(c->s->o.url);
}

/* Returns who named the current URL. After a redirect it is no longer our configuration,
 * and a public receiver must not redirect to private networks. */
static enum http_url_source url_source_of(const struct http_call *c)
{
    if (c->d->target_asked)
        return HTTP_URL_MESSAGE;
    if (c->hop.other_origin)
        return c->within ? HTTP_URL_ROUTE : HTTP_URL_REDIRECT;
    return c->d->target.n == 0 ? HTTP_URL_CONFIG : HTTP_URL_ROUTE;
}

static void forget_answer(struct http_call *c)
{
    c->s->answers_bytes -= (int64_t)c->answer.n;
    buf_clear(&c->answer);
    if (c->answer.cap > BUFFER_KEPT)
        buf_free(&c->answer);
    c->header_bytes = c->body_bytes = 0;
    c->sent = 0;
    c->denied = c->opened = c->connected = false;
    c->stopped = NULL;
    c->why[0] = 0;
}

/* Sets the URL of the next request. Returns NULL, or the reason to reject it. */
static const char *set_url(struct http_call *c, struct slice url, struct buf *referer)
{
    struct buf next = {0};
    if (!http_is_url(url))
        return url.n ? "the target is not an http:// or https:// URL, or it is too long"
                     : "the job has no URL: set the option url of the sink or topic of "
                       "the route";
    if (http_url_add(&next, url) < 0)
        return "the URL is malformed";
    if (c->redirects > 0)
        http_url_add_referer(referer, buf_slice(&c->url), buf_slice(&next));
    buf_free(&c->url);
    c->url = next;
    return NULL;
}

static void set_hop(struct http_call *c)
{
    const struct http_sink *s = c->s;
    c->hop.other_origin = !http_url_same_origin(first_url(c), buf_slice(&c->url));
    c->url_source = url_source_of(c);
    c->hop.unlisted_host = c->url_source == HTTP_URL_MESSAGE &&
                           !http_guard_lists_host(s->guard, buf_str(&c->url));
    c->hop.signer = c->hop.other_origin || c->hop.unlisted_host ? NULL : s->signer;
    c->hop.now_s = loop_wall_ms() / 1000;
}

/* Sets the rest of the request. The URL must be set. */
static void set_request(struct http_call *c)
{
    int64_t left_ms = c->deadline_ms - loop_mono_ms();
    const struct http_opts *o = &c->s->o;
    struct slice body = c->d->job->payload;
    /* No client certificate for a host named only by a message: it could act in our name
     * wherever the certificate is accepted. */
    bool certified = !c->hop.unlisted_host;
    /* A prefix in allow could otherwise match "https://good@evil/". */
    bool user = o->userinfo || c->url_source == HTTP_URL_CONFIG;
    if (o->cert_file) {
        curl_easy_setopt(c->easy, CURLOPT_SSLCERT, certified ? o->cert_file : NULL);
        curl_easy_setopt(c->easy, CURLOPT_SSLKEY, certified ? o->key_file : NULL);
    }
    curl_easy_setopt(c->easy, CURLOPT_URL, buf_str(&c->url));
    curl_easy_setopt(c->easy, CURLOPT_DISALLOW_USERNAME_IN_URL, user ? 0L : 1L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)(left_ms > 0 ? left_ms : 1));
    if (!c->hop.without_body) {
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS,
                         body.n ? body.p : ""); /* borrowed */
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    }
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, make_headers(c));
}

/* -------------------------------------------------------------------- outcome */

static void call_idle(struct http_call *c)
{
    if (c->hop.without_body) {
        c->hop.without_body = false;
        set_method(c);
    }
    forget_answer(c);
    c->d = NULL;
    c->next_idle = c->s->idle;
    c->s->idle = c;
}

static void report(struct http_call *c, enum outcome outcome, const char *why)
{
    struct delivery *d = c->d;
    char text[CURL_ERROR_SIZE], body[DELIVERY_ANSWER_MAX], type[128];
    snprintf(text, sizeof(text), "%s", why ? why : "");
    if (outcome != DELIVERED && c->answer.n > 0) {
        char *said = NULL;
        curl_easy_getinfo(c->easy, CURLINFO_CONTENT_TYPE, &said);
        snprintf(type, sizeof(type), "%s", said ? said : "");
        d->answer_type = slice_of(type);
        d->answer.p = body;
        d->answer.n = c->answer.n < sizeof(body) ? c->answer.n : sizeof(body);
        memcpy(body, c->answer.p, d->answer.n);
    }
    call_idle(c); /* before the report, which may start the next delivery */
    delivery_done(d, outcome, outcome == DELIVERED ? NULL : text);
}

/* With accept = "code100" no answer is final: only the number of tries decides. */
static void reject(struct http_call *c, const char *why)
{
    report(c, c->s->o.accept == HTTP_BY_CODE100 ? TRY_AGAIN : REJECTED, why);
}

/* Returns the wait that the receiver requests, limited by the operator's maximum. */
static int64_t asked_wait_ms(const struct http_call *c)
{
    curl_off_t s = 0; /* seconds; a date counts from now and may be negative */
    int64_t most_ms = c->s->o.retry_after_max_ms;
    curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &s);
    if (s <= 0)
        return 0;
    return s < most_ms / 1000 ? 1000 * (int64_t)s : most_ms;
}

static void report_status(struct http_call *c, long status)
{
    static const enum outcome outcomes[HTTP_VERDICTS] = {
        [HTTP_DELIVERED] = DELIVERED,
        [HTTP_RETRY] = TRY_AGAIN,
        [HTTP_REJECT] = REJECTED,
        [HTTP_STOP] = TRY_AGAIN,
    };
    char why[32];
    enum http_verdict verdict = http_rules_verdict(&c->s->rules, status);
    snprintf(why, sizeof(why), "HTTP %ld", status);
    c->d->stops_target = verdict == HTTP_STOP;
    if (verdict == HTTP_RETRY)
        c->d->retry_after_ms = asked_wait_ms(c);
    report(c, outcomes[verdict], why);
}

static void report_code100(struct http_call *c, long status)
{
    char why[80];
    snprintf(why, sizeof(why),
             "HTTP %ld: the body is not a JSON object with \"code\": 100", status);
    report(c, http_is_code100(buf_slice(&c->answer)) ? DELIVERED : TRY_AGAIN, why);
}

/* Sends the request to url: the first one, or the target of a redirect. */
static void begin(struct http_call *c, struct slice url)
{
    struct buf referer = {0};
    CURLMcode rc = CURLM_OK;
    const char *trouble = set_url(c, url, &referer);
    if (trouble == NULL) {
        set_hop(c);
        trouble = http_guard_url(c->s->guard, c->url_source, buf_str(&c->url));
    }
    if (trouble == NULL) {
        c->hop.referer = buf_slice(&referer);
        set_request(c);
        c->hop.referer = (struct slice){0};
        rc = curl_multi_add_handle(curl_loop_multi(c->s->curl), c->easy);
    }
    buf_free(&referer);
    if (trouble)
        reject(c, trouble);
    else if (rc != CURLM_OK)
        report(c, TRY_AGAIN, curl_multi_strerror(rc));
}

/* Follows a redirect. false: the answer is not a redirect. */
static bool follow(struct http_call *c, long status)
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
    if (how == HTTP_AS_GET && !c->hop.without_body) {
        c->hop.without_body = true;
        set_method(c);
    }
    forget_answer(c);
    struct buf url = {0}; /* copy, since curl owns to and frees it with the next option */
    buf_add_str(&url, to);
    begin(c, buf_slice(&url));
    buf_free(&url);
    return true;
}

/* ------------------------------------------------------------- curl's callbacks */

/* Behind a proxy, only the address of the proxy is visible, which the operator has
 * chosen. */
static bool sees_address(const struct http_call *c)
{
    return c->s->o.proxy == NULL;
}

/* Called for a new look-up, for example after a kept connection broke. The socket of the
 * look-up is not one of ours. */
static int on_look_up(void *resolver, void *reserved, void *arg)
{
    struct http_call *c = arg;
    (void)resolver, (void)reserved;
    c->connected = false;
    return 0;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct http_call *c = arg;
    (void)purpose;
    if (sees_address(c) && !http_guard_address(c->s->guard, c->url_source, &to->addr)) {
        c->denied = true;
        return CURL_SOCKET_BAD; /* curl tries the name's next address */
    }
    c->opened = true;
    c->connected = false;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Called before curl sends a request, on a new or a kept connection.
 *
 * If a kept connection ends without an answer, curl resends the request, several times.
 * Allow this once, since the server may have just closed that connection. */
static int on_send(void *arg, char *ip, char *our_ip, int port, int our_port)
{
    struct http_call *c = arg;
    (void)our_ip, (void)port, (void)our_port;
    if (sees_address(c) && !http_guard_ip(c->s->guard, c->url_source, ip)) {
        c->denied = true;
        c->opened = false;
        return CURL_PREREQFUNC_ABORT;
    }
    c->within = !sees_address(c) || !http_guard_ip(c->s->guard, HTTP_URL_MESSAGE, ip);
    c->connected = true;
    if (c->sent++ > 1)
        c->stopped = "the connection was closed before an answer arrived";
    return c->stopped ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

bool http_call_is_connected(const void *transfer)
{
    const struct http_call *c = transfer;
    return c->connected;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_call *c = arg;
    (void)bytes;
    c->header_bytes += (int64_t)(size * n);
    if (c->header_bytes > HEADER_BYTES_MAX)
        c->stopped = "the headers of the answer are longer than 64 KiB";
    return c->stopped ? 0 : size * n;
}

static void keep_answer(struct http_call *c, const char *bytes, size_t n)
{
    c->s->answers_bytes += (int64_t)n;
    buf_add(&c->answer, bytes, n);
}

/* The start of an answer that is not 2xx, for a dead letter. */
static void keep_start(struct http_call *c, const char *bytes, size_t n)
{
    size_t room = DELIVERY_ANSWER_MAX - c->answer.n;
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2)
        keep_answer(c, bytes, n < room ? n : room);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_call *c = arg;
    struct http_sink *s = c->s;
    c->body_bytes += (int64_t)(size * n);
    if (c->body_bytes > s->o.response_max_bytes) {
        c->stopped = "the answer is longer than response_max";
    } else if (s->o.accept == HTTP_BY_CODE100) {
        keep_answer(c, bytes, size * n);
        if (s->answers_bytes > ANSWERS_BYTES_MAX)
            c->stopped = "too many large answers at the same time";
    } else if (c->answer.n < DELIVERY_ANSWER_MAX) {
        keep_start(c, bytes, size * n);
    }
    return c->stopped ? 0 : size * n;
}

/* ------------------------------------------------------------------ deliveries */

/* Makes a handle with the options that all calls share. */
static CURL *new_easy(const struct http_opts *o, struct http_call *c)
{
    CURL *e = http_easy_new(o, c->why);
    curl_loop_prepare(c->s->curl, e);
    curl_easy_setopt(e, CURLOPT_PRIVATE, c);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_timeout_ms);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(e, CURLOPT_RESOLVER_START_FUNCTION, on_look_up);
    curl_easy_setopt(e, CURLOPT_RESOLVER_START_DATA, c);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, c);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, c);
    if (o->accept == HTTP_BY_CODE100) /* otherwise the body is only counted, by
                                       * on_body() */
        curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "gzip");
    return e;
}

static int64_t timeout_ms(const struct http_sink *s, const struct delivery *d)
{
    int64_t ms = s->o.timeout_ms, sink_ms = sink_timeout_ms(s->sink);
    if (sink_ms > 0 && sink_ms < ms)
        ms = sink_ms;
    return d->timeout_ms > 0 && d->timeout_ms < ms ? d->timeout_ms : ms;
}

static struct http_call *new_call(struct http_sink *s, struct delivery *d)
{
    struct http_call *c = s->idle;
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

static void call_free(struct http_call *c)
{
    curl_easy_cleanup(c->easy);
    http_lines_free(&c->lines);
    buf_free(&c->url);
    buf_free(&c->answer);
    free(c->chain);
    free(c);
}

void http_call_begin(struct http_sink *s, struct delivery *d)
{
    struct http_call *c = new_call(s, d);
    begin(c, first_url(c));
}

void http_call_end(void *transfer, CURLcode code)
{
    struct http_call *c = transfer;
    bool by_body = c->s->o.accept == HTTP_BY_CODE100;
    const char *invalid = http_permanent_error(code);
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    c->d->status = (int)status;
    if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY) {
        /* libcurl 8.14 (Debian 13) loses the memory of a host's name when a handle looks
         * up again after a look-up that failed
         * (https://github.com/curl/curl/issues/17602). */
        curl_easy_cleanup(c->easy);
        c->easy = new_easy(&c->s->o, c);
        set_method(c);
    }
    if (code == CURLE_OK && follow(c, status))
        return;
    if (code == CURLE_OK && by_body)
        report_code100(c, status);
    else if (code == CURLE_OK || (c->stopped && !by_body && status >= 200))
        report_status(c, status); /* also for an answer that is too long */
    else if (c->denied && !c->opened)
        reject(c,
               "the URL's address is in a private network, or in a network of the sink's "
               "option deny; to permit the address, add it to the option allow");
    else if (invalid)
        reject(c, invalid);
    else if (c->stopped)
        report(c, TRY_AGAIN, c->stopped);
    else
        report(c, TRY_AGAIN, c->why[0] ? c->why : curl_easy_strerror(code));
}

void http_calls_free(struct http_sink *s)
{
    while (s->idle) {
        struct http_call *next = s->idle->next_idle;
        call_free(s->idle);
        s->idle = next;
    }
}
