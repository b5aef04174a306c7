/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/trace/exporter.h"
#include "bridge/base/buf.h"
#include "bridge/base/curl_loop.h"
#include "bridge/base/json.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "bridge/base/text.h"
#include "bridge/base/version.h"
#include "bridge/conf/conf.h"
#include "bridge/metrics/stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/queue.h>

enum {
    BATCH_BYTES = 512 * 1024, /* a batch of this size is full */
    COLLECT_MS = 1000,        /* age at which a batch is sent */
    BACKOFF_FIRST_MS = 1000,  /* between two attempts; doubles, */
    BACKOFF_MAX_MS = 30000,   /* up to this */
    STOP_MS = 2000,           /* for all batches that wait at the stop */
    ANSWER_BYTES_MAX = 16 * 1024
};

struct batch {
    TAILQ_ENTRY(batch) link;
    struct buf body; /* the request, without the end brackets until it is sent */
    unsigned count;
    bool closed;     /* the brackets are there */
    int64_t born_ms; /* monotonic */
};

struct exporter {
    TAILQ_HEAD(batch_list, batch)
    batches; /* the first is being sent, or the next to be sent */
    unsigned batch_count;
    struct curl_loop *curl;
    CURL *easy;
    struct curl_slist *headers;
    struct buf answer;
    char why[CURL_ERROR_SIZE];
    char *resource; /* begin of each body */
    bool sending;
    unsigned failures; /* consecutive */
    int64_t again_ms;  /* monotonic: no request before; after a failure */
    struct timer *timer;
    struct log_limit complain;
    uint64_t exported, rejected, dropped; /* spans */
};

/* ------------------------------------------------------------------------ batches */

static struct batch *batch_new(struct exporter *e)
{
    struct batch *b = mem_alloc(sizeof(*b));
    buf_add_str(&b->body, e->resource);
    b->born_ms = loop_mono_ms();
    TAILQ_INSERT_TAIL(&e->batches, b, link);
    e->batch_count++;
    return b;
}

static void batch_free(struct exporter *e, struct batch *b)
{
    TAILQ_REMOVE(&e->batches, b, link);
    e->batch_count--;
    buf_free(&b->body);
    free(b);
}

static bool is_full(const struct batch *b)
{
    return b->closed || b->count >= EXPORTER_BATCH_SPANS || b->body.n >= BATCH_BYTES;
}

/* Sets the timer to the next time at which the first batch should be sent. */
static void schedule(struct exporter *e)
{
    const struct batch *b = TAILQ_FIRST(&e->batches);
    int64_t now_ms = loop_mono_ms();
    if (b == NULL || e->sending)
        return;
    int64_t at_ms = is_full(b) ? now_ms : b->born_ms + COLLECT_MS;
    at_ms = at_ms > e->again_ms ? at_ms : e->again_ms;
    timer_set(e->timer, at_ms > now_ms ? at_ms - now_ms : 0);
}

struct buf *exporter_room(struct exporter *e)
{
    struct batch *b = TAILQ_LAST(&e->batches, batch_list);
    if (b == NULL || is_full(b)) {
        if (e->batch_count == EXPORTER_BATCHES) {
            e->dropped++;
            return NULL;
        }
        b = batch_new(e);
        schedule(e);
    }
    if (b->count > 0)
        buf_add_str(&b->body, ",");
    return &b->body;
}

void exporter_added(struct exporter *e)
{
    struct batch *b = TAILQ_LAST(&e->batches, batch_list);
    b->count++;
    if (is_full(b))
        schedule(e);
}

/* ------------------------------------------------------------------------ requests */

static size_t on_answer(char *bytes, size_t size, size_t n, void *arg)
{
    struct exporter *e = arg;
    if (e->answer.n + size * n <= ANSWER_BYTES_MAX)
        buf_add(&e->answer, bytes, size * n);
    return size * n;
}

/* Returns the number of rejectedSpans in a successful answer, a number or a text. */
static uint64_t rejected_by(struct slice answer)
{
    struct partial {
        struct slice all, rejected;
    } found = {.all = {NULL, 0}};
    static const struct json_field outer[] = {
        {"partialSuccess", JSON_RAW, offsetof(struct partial, all), 0, 0}, {0}};
    static const struct json_field inner[] = {
        {"rejectedSpans", JSON_RAW, offsetof(struct partial, rejected), 0, 0}, {0}};
    struct buf room = {0};
    int64_t n = 0;
    if (json_read(answer, outer, &found, &room) == 0 && found.all.p != NULL &&
        json_read(found.all, inner, &found, &room) == 0 && found.rejected.n > 0) {
        bool quoted = found.rejected.p[0] == '"' && found.rejected.n > 2;
        found.rejected.p += quoted;
        found.rejected.n -= quoted ? 2 : 0;
        n = text_whole_number(found.rejected);
    }
    buf_free(&room);
    return n > 0 ? (uint64_t)n : 0;
}

/* Returns whether a later attempt may succeed: as the specification of OTLP/HTTP says,
 * and if there was no answer (0). */
static bool may_repeat(long status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 ||
           status == 504;
}

/* Counts the spans of a batch by the answer. Returns false if it must be sent again. */
static bool is_settled(struct exporter *e, const struct batch *b, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status >= 200 && status < 300) {
        uint64_t rejected = rejected_by(buf_slice(&e->answer));
        rejected = rejected > b->count ? b->count : rejected;
        e->rejected += rejected;
        e->exported += b->count - rejected;
        return true;
    }
    if (code == CURLE_OK)
        log_limited(&e->complain, LOG_WARN, "otlp",
                    "the collector answered HTTP %ld to a batch of spans", status);
    else
        log_limited(&e->complain, LOG_WARN, "otlp", "the collector is not available: %s",
                    *e->why ? e->why : curl_easy_strerror(code));
    if (code != CURLE_OK || may_repeat(status))
        return false;
    e->rejected += b->count;
    return true;
}

static void end(void *transfer, CURLcode code)
{
    struct exporter *e = transfer;
    struct batch *b = TAILQ_FIRST(&e->batches);
    e->sending = false;
    e->again_ms = 0;
    if (is_settled(e, b, code)) {
        e->failures = 0;
        batch_free(e, b);
    } else {
        e->failures++;
        e->again_ms = loop_mono_ms() +
                      retry_connect_ms(BACKOFF_FIRST_MS, BACKOFF_MAX_MS, e->failures);
    }
    schedule(e);
}

/* Prepares the request for the first batch. */
static void set_body(struct exporter *e, CURL *easy, struct batch *b)
{
    if (!b->closed)
        buf_add_str(&b->body, "]}]}]}");
    b->closed = true;
    buf_clear(&e->answer);
    e->why[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, b->body.p);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)b->body.n);
}

static void on_timer(void *arg)
{
    struct exporter *e = arg;
    struct batch *b = TAILQ_FIRST(&e->batches);
    if (b == NULL || e->sending)
        return;
    set_body(e, e->easy, b);
    e->sending = true;
    CURLMcode rc = curl_multi_add_handle(curl_loop_multi(e->curl), e->easy);
    must(rc == CURLM_OK);
}

/* ---------------------------------------------------------------------------- life */

static void add_headers(struct exporter *e, const struct pairs *more)
{
    struct buf line = {0};
    e->headers = curl_slist_append(NULL, "Expect:");
    e->headers = curl_slist_append(e->headers, "Content-Type: application/json");
    for (size_t i = 0; i < more->n; i++) {
        buf_clear(&line);
        buf_addf(&line, "%s: %s", more->v[i].name, more->v[i].value);
        e->headers = curl_slist_append(e->headers, buf_str(&line));
    }
    text_wipe(&line);
}

static void open_easy(struct exporter *e, const struct conf_otlp *conf)
{
    CURL *c = e->easy = curl_easy_init();
    must(c != NULL);
    add_headers(e, &conf->headers);
    curl_loop_prepare(e->curl, c);
    curl_easy_setopt(c, CURLOPT_PRIVATE, e);
    curl_easy_setopt(c, CURLOPT_URL, conf->url);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, e->headers);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_PROXY, ""); /* otherwise the environment sets it */
    curl_easy_setopt(c, CURLOPT_POST, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)conf->timeout_ms);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, e->why);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, e);
    if (conf->ca_file)
        curl_easy_setopt(c, CURLOPT_CAINFO, conf->ca_file);
}

/* An open request is cancelled; its batch will be sent again. */
static void close_easy(struct exporter *e)
{
    if (e->sending)
        curl_multi_remove_handle(curl_loop_multi(e->curl), e->easy);
    e->sending = false;
    curl_easy_cleanup(e->easy);
    curl_slist_free_all(e->headers);
}

static char *make_resource(const struct conf_otlp *conf, const char *instance)
{
    struct buf out = {0};
    buf_add_str(&out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                      "{\"key\":\"service.name\",\"value\":{\"stringValue\":");
    text_add_json(&out, slice_of(conf->service));
    buf_addf(&out,
             "}},{\"key\":\"service.version\",\"value\":{\"stringValue\":\"%s\"}},"
             "{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"%s\"}}]},"
             "\"scopeSpans\":[{\"scope\":{\"name\":\"tarry\"},\"spans\":[",
             TARRY_VERSION, instance);
    char *text = mem_strdup(buf_str(&out));
    buf_free(&out);
    return text;
}

struct exporter *exporter_new(const struct conf_otlp *conf, const char *instance)
{
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    struct exporter *e = mem_alloc(sizeof(*e));
    TAILQ_INIT(&e->batches);
    e->resource = make_resource(conf, instance);
    e->timer = timer_new(on_timer, e);
    e->curl = curl_loop_new(end, NULL);
    open_easy(e, conf);
    return e;
}

void exporter_apply(struct exporter *e, const struct conf_otlp *conf)
{
    close_easy(e);
    open_easy(e, conf);
    e->again_ms = 0;
    e->failures = 0;
    schedule(e);
}

/* Sends all batches one after the other, until the time is over or a request fails. */
static void send_all(struct exporter *e)
{
    int64_t until_ms = loop_mono_ms() + STOP_MS;
    struct batch *b;
    while ((b = TAILQ_FIRST(&e->batches))) {
        int64_t left_ms = until_ms - loop_mono_ms();
        if (left_ms <= 0)
            return;
        set_body(e, e->easy, b);
        curl_easy_setopt(e->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
        if (!is_settled(e, b, curl_easy_perform(e->easy)))
            return;
        batch_free(e, b);
    }
}

void exporter_free(struct exporter *e, bool flush)
{
    struct batch *b, *next;
    uint64_t lost = 0;
    if (e->sending)
        curl_multi_remove_handle(curl_loop_multi(e->curl), e->easy);
    e->sending = false;
    if (flush && e->failures == 0)
        send_all(e);
    for (b = TAILQ_FIRST(&e->batches); b; b = next) {
        next = TAILQ_NEXT(b, link);
        lost += b->count;
        batch_free(e, b);
    }
    if (lost > 0)
        log_warn("otlp", "%" PRIu64 " spans were not sent to the collector", lost);
    close_easy(e);
    curl_loop_free(e->curl);
    timer_del(e->timer);
    buf_free(&e->answer);
    free(e->resource);
    loop_defer_free(e);
    curl_global_cleanup();
}

/* ------------------------------------------------------------------------- metrics */

void exporter_print(const struct exporter *e, struct buf *out)
{
    static const char name[] = "tarry_trace_spans_total";
    int64_t waiting = 0;
    const struct batch *b;
    TAILQ_FOREACH (b, &e->batches, link)
        waiting += b->count;
    metric_head(
        out, name, "counter",
        "Spans: accepted by the collector, rejected by it, or dropped because too "
        "many waited.");
    metric_count(out, name, LABELS({"result", "exported"}), e->exported);
    metric_count(out, name, LABELS({"result", "rejected"}), e->rejected);
    metric_count(out, name, LABELS({"result", "dropped"}), e->dropped);
    metric_head(out, "tarry_trace_spans_waiting", "gauge",
                "Spans that wait for the collector.");
    metric_number(out, "tarry_trace_spans_waiting", NO_LABELS, waiting);
}
