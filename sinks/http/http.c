/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http.c - the http sink: each job becomes one POST or PUT to a callback URL.
 *
 * The answer's status or body is the outcome, see http_opts.h. A failed delivery is not
 * repeated here, and no URL, header or payload is ever logged.
 */
#include "sinks/http/http_sink.h"
#include "sinks/http/http_url.h"

static struct slice origin(const void *self, struct slice target)
{
    const struct http_sink *s = self;
    return http_url_origin(target.n ? target : slice_of(s->o.url));
}

static void release(struct http_sink *s)
{
    http_guard_free(s->guard);
    http_signer_free(s->signer);
    s->guard = NULL;
    s->signer = NULL;
}

/* What of the options is kept in another form. */
static int read_opts(struct http_sink *s, struct err *err)
{
    s->guard = http_guard_new(&s->o, err);
    if (s->guard == NULL)
        return -1;
    if (s->o.signing_keys.n > 0 &&
        (s->signer = http_signer_new(&s->o.signing_keys, err)) == NULL)
        return -1;
    return http_rules_read(&s->rules, s->o.codes, err);
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct http_sink *s = self;
    s->sink = sink;
    if (read_opts(s, err) < 0) {
        release(s);
        return -1;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        release(s);
        return err_set(err, "libcurl does not start");
    }
    http_multi_start(s);
    if (!s->o.verify)
        log_warn(sink_name(sink), "verify = false: anyone may pose as the receiver");
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
    http_multi_stop(s);
    curl_global_cleanup();
    release(s);
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
    .origin = origin,
    .start = start,
    .deliver = deliver,
    .stop = stop,
    .probe = http_probe,
};
