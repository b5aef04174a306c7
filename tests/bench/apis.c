/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/apis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting setting = {.token = "none"};

enum { CAMELLIA_BATCH = 10, BULK = 100 };

/* The content of a job: its number, padded with blanks to a common size. */
#define CONTENT "%-100lld"

/* Copy the text after key up to the next quote, and move *at behind it. */
static bool text_after(const char **at, const char *key, char *out)
{
    const char *p = strstr(*at, key);
    if (p == NULL)
        return false;
    p += strlen(key);
    size_t n = strcspn(p, "\"");
    if (n >= ID_MAX)
        return false;
    memcpy(out, p, n);
    out[n] = 0;
    *at = p + n;
    return true;
}

static bool code_is(const char *body, const char *code)
{
    return strncmp(body, code, strlen(code)) == 0;
}

/* The ids of this run end with "-NUMBER". */
static bool add_own(struct jobs *jobs, const char **at, const char *key)
{
    if (jobs->n == BATCH_MAX || !text_after(at, key, jobs->id[jobs->n]))
        return false;
    const char *dash = strrchr(jobs->id[jobs->n], '-');
    jobs->number[jobs->n++] = dash ? atoll(dash + 1) : -1;
    return true;
}

/* -------------------------------------------------------------------------- lmstfy */

#define LMSTFY_HEAD " HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Token: %s\r\n"

static void lmstfy_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    conn_send(c,
              "PUT /api/bench/q%d?delay=%lld&ttl=0&tries=3" LMSTFY_HEAD
              "Content-Length: 100\r\n\r\n" CONTENT,
              setting.run, (long long)delay_ms / 1000, setting.token, (long long)n);
}

static bool lmstfy_published(int status, const char *body)
{
    (void)body;
    return status == 201;
}

static void lmstfy_poll(struct conn *c, int wait_s)
{
    conn_send(c, "GET /api/bench/q%d?ttr=60&timeout=%d" LMSTFY_HEAD "\r\n", setting.run,
              wait_s, setting.token);
}

/* Decode as much of the base64 as the digits at the start of a content need. */
static int64_t number_of_base64(const char *p)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[32];
    size_t n = 0;
    unsigned bits = 0;
    for (size_t i = 0; n < sizeof(text) - 1 && p[i] && p[i] != '"'; i++) {
        const char *digit = strchr(digits, p[i]);
        bits = bits << 6 | (digit ? (unsigned)(digit - digits) : 0);
        if (i % 4 > 0)
            text[n++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    text[n] = 0;
    return atoll(text);
}

static bool lmstfy_read(int status, const char *body, struct jobs *jobs)
{
    const char *at = strstr(body, "\"data\":\"");
    jobs->n = 0;
    if (status == 404)
        return true;
    if (status != 200 || at == NULL)
        return false;
    at += strlen("\"data\":\"");
    jobs->number[0] = number_of_base64(at);
    jobs->n = text_after(&at, "\"job_id\":\"", jobs->id[0]);
    return jobs->n == 1;
}

static void lmstfy_finish(struct conn *c, const char *id)
{
    conn_send(c, "DELETE /api/bench/q%d/job/%s" LMSTFY_HEAD "\r\n", setting.run, id,
              setting.token);
}

static bool lmstfy_finished(int status, const char *body)
{
    (void)body;
    return status == 204;
}

/* ------------------------------------------------------------------------ camellia */

static void camellia_post(struct conn *c, const char *call, const char *form)
{
    conn_send(c,
              "POST /camellia/delayQueue/%s HTTP/1.1\r\n"
              "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
              "Content-Length: %zu\r\nHost: 127.0.0.1\r\nConnection: Keep-Alive\r\n"
              "Accept-Encoding: gzip\r\nUser-Agent: okhttp/3.14.9\r\n\r\n%s",
              call, strlen(form), form);
}

static void camellia_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    char form[400], content[128];
    snprintf(content, sizeof(content), CONTENT, (long long)n);
    for (char *p = content; *p; p++)
        *p = *p == ' ' ? '+' : *p;
    snprintf(
        form, sizeof(form),
        "topic=bench%d&msg=%s&msgId=%d-%lld&delayMillis=%lld&ttlMillis=-1&maxRetry=-1",
        setting.run, content, setting.run, (long long)n, (long long)delay_ms);
    camellia_post(c, "sendMsg", form);
}

static bool camellia_ok(int status, const char *body)
{
    return status == 200 && code_is(body, "{\"code\":200,");
}

static void camellia_poll(struct conn *c, int wait_s)
{
    char form[200];
    snprintf(
        form, sizeof(form),
        "topic=bench%d&ackTimeoutMillis=60000&batch=%d&longPollingTimeoutMillis=%d000",
        setting.run, CAMELLIA_BATCH, wait_s);
    camellia_post(c, wait_s ? "longPollingMsg" : "pullMsg", form);
}

static bool camellia_read(int status, const char *body, struct jobs *jobs)
{
    jobs->n = 0;
    if (!camellia_ok(status, body))
        return false;
    while (add_own(jobs, &body, "\"msgId\":\""))
        ;
    return true;
}

static void camellia_finish(struct conn *c, const char *id)
{
    char form[200];
    snprintf(form, sizeof(form), "topic=bench%d&msgId=%s&ack=true", setting.run, id);
    camellia_post(c, "ackMsg", form);
}

/* --------------------------------------------------------------------- delay-queue */

static void delayqueue_post(struct conn *c, const char *path, const char *json)
{
    conn_send(c,
              "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
              "Content-Length: %zu\r\n\r\n%s",
              path, strlen(json), json);
}

static void delayqueue_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    char json[400];
    snprintf(json, sizeof(json),
             "{\"topic\":\"bench%d\",\"id\":\"%d-%lld\",\"delay\":%lld,\"ttr\":60,"
             "\"body\":\"" CONTENT "\"}",
             setting.run, setting.run, (long long)n, (long long)delay_ms / 1000,
             (long long)n);
    delayqueue_post(c, "/push", json);
}

static bool delayqueue_ok(int status, const char *body)
{
    return status == 200 && code_is(body, "{\"code\":0,");
}

static void delayqueue_poll(struct conn *c, int wait_s)
{
    char json[100];
    (void)wait_s; /* the configuration contains it */
    snprintf(json, sizeof(json), "{\"topic\":\"bench%d\"}", setting.run);
    delayqueue_post(c, "/pop", json);
}

static bool delayqueue_read(int status, const char *body, struct jobs *jobs)
{
    jobs->n = 0;
    if (!delayqueue_ok(status, body))
        return false;
    add_own(jobs, &body, "\"id\":\"");
    return true;
}

static void delayqueue_finish(struct conn *c, const char *id)
{
    char json[ID_MAX + 16];
    snprintf(json, sizeof(json), "{\"id\":\"%s\"}", id);
    delayqueue_post(c, "/finish", json);
}

/* --------------------------------------------------------------------------- Later */

static void later_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    char json[400];
    snprintf(json, sizeof(json),
             "{\"topic\":\"bench\",\"delay\":%lld,\"retry\":3,\"callback\":"
             "\"http://127.0.0.1:%d/callback\",\"content\":\"" CONTENT "\"}",
             (long long)delay_ms / 1000, setting.sink_port, (long long)n);
    delayqueue_post(c, "/create", json);
}

static bool later_published(int status, const char *body)
{
    return status == 200 && code_is(body, "{\"id\":");
}

static bool later_read(int status, const char *body, struct jobs *jobs)
{
    const char *at = strstr(body, "\"content\":\"");
    (void)status;
    jobs->n = at != NULL;
    jobs->number[0] = at ? atoll(at + strlen("\"content\":\"")) : -1;
    return at != NULL;
}

/* ------------------------------------------------------------------------- native */

/* Publish to a route, due far ahead: the daemon delivers nothing during the
 * measurement. */
static void route_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    conn_send(c,
              "POST /v1/routes/bench/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
              "Deliver-After: %lldms\r\nContent-Length: 100\r\n\r\n" CONTENT,
              (long long)delay_ms, (long long)n);
}

static bool native_published(int status, const char *body)
{
    (void)body;
    return status == 201;
}

static void bulk_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    char lines[BULK * 180];
    size_t used = 0;
    for (int i = 0; i < BULK; i++)
        used += (size_t)snprintf(lines + used, sizeof(lines) - used,
                                 "{\"deliver-after\":\"%lldms\",\"payload\":\"" CONTENT
                                 "\"}\n",
                                 (long long)delay_ms, (long long)n + i);
    conn_send(c,
              "POST /v1/queues/bench%d/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
              "Content-Type: application/x-ndjson\r\nContent-Length: %zu\r\n\r\n%s",
              setting.run, used, lines);
}

/* Each line contains the due time of its job. */
static bool bulk_published(int status, const char *body)
{
    int n = 0;
    for (const char *p = body; (p = strstr(p, "\"due\":")); p++)
        n++;
    return status == 200 && n == BULK;
}

static void queue_publish(struct conn *c, int64_t n, int64_t delay_ms)
{
    conn_send(c,
              "POST /v1/queues/bench%d/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
              "Deliver-After: %lldms\r\nContent-Length: 100\r\n\r\n" CONTENT,
              setting.run, (long long)delay_ms, (long long)n);
}

static void queue_poll(struct conn *c, int wait_s)
{
    conn_send(c,
              "POST /v1/queues/bench%d/pull?max=%d&lease=60s&wait=%ds HTTP/1.1\r\n"
              "Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
              setting.run, BATCH_MAX, wait_s);
}

static bool queue_read(int status, const char *body, struct jobs *jobs)
{
    jobs->n = 0;
    if (status == 204)
        return true;
    if (status != 200)
        return false;
    while (jobs->n < BATCH_MAX && text_after(&body, "{\"id\":\"", jobs->id[jobs->n]) &&
           text_after(&body, "\"token\":\"", jobs->token[jobs->n])) {
        body = strstr(body, "\"payload\":\"");
        if (body == NULL)
            return false;
        jobs->number[jobs->n++] = atoll(body + strlen("\"payload\":\""));
    }
    return jobs->n > 0;
}

static void queue_finish(struct conn *c, const char *id)
{
    conn_send(c, "DELETE /v1/queues/bench%d/jobs/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
              setting.run, id);
}

static bool queue_finished(int status, const char *body)
{
    (void)body;
    return status == 200;
}

static void queue_finish_all(struct conn *c, const struct jobs *jobs)
{
    char json[BATCH_MAX * 2 * ID_MAX];
    size_t used = 0;
    for (int i = 0; i < jobs->n; i++)
        used += (size_t)snprintf(json + used, sizeof(json) - used,
                                 "%s{\"id\":\"%s\",\"token\":\"%s\"}",
                                 i ? "," : "{\"jobs\":[", jobs->id[i], jobs->token[i]);
    used += (size_t)snprintf(json + used, sizeof(json) - used, "]}");
    conn_send(c,
              "POST /v1/queues/bench%d/ack HTTP/1.1\r\nHost: 127.0.0.1\r\n"
              "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
              setting.run, used, json);
}

enum { FAR_MS = 3600000 };

static const struct api apis[] = {
    {"route", false, FAR_MS, 1, route_publish, native_published, NULL, NULL, NULL, NULL,
     NULL},
    {"bulk", false, FAR_MS, BULK, bulk_publish, bulk_published, queue_poll, queue_read,
     queue_finish, queue_finished, queue_finish_all},
    {"queue", false, 0, 1, queue_publish, native_published, queue_poll, queue_read,
     queue_finish, queue_finished, queue_finish_all},
    {"lmstfy", true, 0, 1, lmstfy_publish, lmstfy_published, lmstfy_poll, lmstfy_read,
     lmstfy_finish, lmstfy_finished, NULL},
    {"camellia", false, 0, 1, camellia_publish, camellia_ok, camellia_poll, camellia_read,
     camellia_finish, camellia_ok, NULL},
    {"delayqueue", true, 1000, 1, delayqueue_publish, delayqueue_ok, delayqueue_poll,
     delayqueue_read, delayqueue_finish, delayqueue_ok, NULL},
    {"later", true, 0, 1, later_publish, later_published, NULL, later_read, NULL, NULL,
     NULL},
};

const struct api *api_find(const char *name)
{
    for (size_t i = 0; i < sizeof(apis) / sizeof(apis[0]); i++) {
        if (strncmp(name, apis[i].name, strlen(apis[i].name)) == 0)
            return &apis[i];
    }
    return NULL;
}
