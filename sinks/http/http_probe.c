/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_probe.c - for `tarry check --connect`: connects to a callback's host, through TLS
 * where that is spoken there, and sends no request.
 */
#include "sinks/http/http_guard.h"
#include "sinks/http/http_sink.h"
#include "sinks/http/http_url.h"

static void set_options(CURL *e, const struct http_opts *o, const char *url, char *why)
{
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, o->proxy ? o->proxy : "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, "");
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)PROBE_WAIT_MS);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, o->verify ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, o->verify ? 2L : 0L);
    if (o->ca_file)
        curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
    curl_easy_setopt(e, CURLOPT_SSLCERT, o->cert_file);
    curl_easy_setopt(e, CURLOPT_SSLKEY, o->key_file);
}

static int dial(const struct http_opts *o, const struct http_guard *guard,
                enum http_word word, const char *url, struct buf *said, struct err *err)
{
    char why[CURL_ERROR_SIZE] = "";
    char *ip = NULL;
    int bad = 0;
    CURL *e = curl_easy_init();
    must(e != NULL);
    set_options(e, o, url, why);
    CURLcode rc = curl_easy_perform(e);
    curl_easy_getinfo(e, CURLINFO_PRIMARY_IP, &ip);
    if (rc != CURLE_OK)
        bad = err_set(err, "%s", *why ? why : curl_easy_strerror(rc));
    else if (!o->proxy && ip && !http_guard_ip(guard, word, ip))
        bad = err_set(
            err, "its address %s is one that deny or allow of this sink forbids", ip);
    else
        buf_addf(said, "%s answers", ip ? ip : "it");
    curl_easy_cleanup(e);
    return bad;
}

/* As much of the target as names its host; n 0: that is left to messages. */
static struct slice host_of(const struct http_opts *o, const struct probe_target *target)
{
    struct slice url = target->text.n ? target->text : slice_of(o->url ? o->url : "");
    struct slice origin = url.n ? http_url_origin(url) : url;
    bool ends =
        target->text.n == 0 || target->whole ||
        memchr(origin.p + origin.n, '/', (size_t)(url.p + url.n - origin.p) - origin.n);
    return http_is_url(url) && ends ? origin : (struct slice){NULL, 0};
}

int http_probe(const void *self, const struct probe_target *target, struct buf *said,
               struct err *err)
{
    const struct http_sink *s = self;
    struct slice host = host_of(&s->o, target);
    enum http_word word = target->text.n ? HTTP_NAMED : HTTP_OWN;
    struct buf url = {0};
    if (host.n == 0) {
        buf_add_str(said, "its host is left to the messages: nothing to dial");
        return 0;
    }
    struct http_guard *guard = http_guard_new(&s->o, err);
    if (guard == NULL)
        return -1;
    buf_add_slice(&url, host);
    buf_add_str(&url, "/");
    const char *why = http_guard_url(guard, word, buf_str(&url));
    int bad = why ? err_set(err, "%s", why)
                  : dial(&s->o, guard, word, buf_str(&url), said, err);
    http_guard_free(guard);
    buf_free(&url);
    return bad;
}
