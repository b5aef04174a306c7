/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_client.h"

#include "bridge/base/buf.h"
#include "bridge/base/json.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

enum {
    TOKEN_MAX_BYTES = 64 * 1024,
    CONNECT_MS = 5000,
    ANSWER_MS = 15000,
    /* A token file, or a token without expiry, is read again after this time at the
     * latest: the file is expected to be renewed in time. */
    LIFE_GUESSED_MS = 300000,
    LIFE_LEAST_MS = 2000, /* a token with less time left counts as expired */
    PLACE_BYTES = 200
};

/* application/x-www-form-urlencoded */
static char *form_of(const struct pairs *more)
{
    struct buf out = {0};

    buf_add_str(&out, "grant_type=client_credentials");
    for (size_t i = 0; i < more->n; i++) {
        buf_add_str(&out, "&");
        text_add_percent(&out, slice_of(more->v[i].name), ".");
        buf_add_str(&out, "=");
        text_add_percent(&out, slice_of(more->v[i].value), ".");
    }
    char *text = mem_strdup(buf_str(&out));
    buf_free(&out);
    return text;
}

/* RFC 6749, 2.3.1: client id and secret are form-encoded before Basic authorization. */
static char *encoded(const char *s)
{
    struct buf out = {0};

    if (s == NULL)
        return NULL;
    text_add_percent(&out, slice_of(s), ".");
    char *text = mem_strdup(buf_str(&out));
    text_wipe(&out);
    return text;
}

void kafka_token_request_init(struct kafka_token_request *req,
                              const struct kafka_link *link)
{
    *req = (struct kafka_token_request){.file = mem_strdup(link->token_file),
                                        .url = mem_strdup(link->token_url),
                                        .client = encoded(link->token_client),
                                        .secret = encoded(link->token_secret),
                                        .ca_file = mem_strdup(link->token_ca_file),
                                        .form = form_of(&link->token_form)};
}

void kafka_token_request_free(struct kafka_token_request *req)
{
    free(req->file);
    free(req->url);
    free(req->client);
    text_forget(req->secret);
    free(req->ca_file);
    text_forget(req->form);
    *req = (struct kafka_token_request){0};
}

void kafka_token_free(struct kafka_token *token)
{
    text_forget(token->value);
    *token = (struct kafka_token){0};
}

/* ------------------------------------------------------------------ expiry */

/* Decodes the second part of a JWT; -1: not a JWT. */
static int claims_of(const char *token, struct buf *out)
{
    const char *from = strchr(token, '.'), *end = from ? strchr(from + 1, '.') : NULL;

    if (end == NULL)
        return -1;
    char *part = mem_strndup(from + 1, (size_t)(end - from - 1));
    for (char *p = part; *p; p++)
        *p = *p == '-' ? '+' : (*p == '_' ? '/' : *p);
    int rc = text_base64_decode(slice_of(part), out);
    text_forget(part);
    return rc;
}

/* Converts a number of seconds to ms, up to the year 5138. More text ("}") may follow
 * it. */
static int64_t ms_of_seconds(const char *text)
{
    const double s = strtod(text, NULL);

    return s > 0 ? (int64_t)((s < 1e11 ? s : 1e11) * 1000) : 0;
}

/* Returns the token's claim "exp" in ms since 1970; 0: none. */
static int64_t expiry_in_token_ms(const char *token)
{
    struct claims {
        struct slice exp;
    } claims = {{NULL, 0}};
    static const struct json_field fields[] = {
        {"exp", JSON_RAW, offsetof(struct claims, exp), 0, 0}, {0}};
    struct buf text = {0}, room = {0};
    int64_t end_ms = 0;

    if (claims_of(token, &text) == 0 &&
        json_read(buf_slice(&text), fields, &claims, &room) == 0 && claims.exp.p &&
        isdigit((unsigned char)*claims.exp.p))
        end_ms = ms_of_seconds(claims.exp.p);
    buf_free(&text);
    buf_free(&room);
    return end_ms;
}

/* ------------------------------------------------------------------ from a file */

static int read_token(const char *path, struct buf *out, struct err *err)
{
    if (buf_add_file(out, path, TOKEN_MAX_BYTES, err) < 0)
        return -1;
    while (out->n > 0 && isspace((unsigned char)out->p[out->n - 1]))
        out->n--;
    return out->n > 0 ? 0 : err_set(err, "the file is empty");
}

static int from_file(const char *path, struct kafka_token *token, struct err *err)
{
    struct buf text = {0};
    int rc = read_token(path, &text, err);

    if (rc == 0) {
        const int64_t look_ms = loop_wall_ms() + LIFE_GUESSED_MS;
        token->value = mem_strdup(buf_str(&text));
        token->expires_ms = expiry_in_token_ms(token->value);
        if (token->expires_ms == 0 || token->expires_ms > look_ms)
            token->expires_ms = look_ms;
    }
    text_wipe(&text);
    return rc;
}

/* ---------------------------------------------------------------- from a server */

struct answer {
    struct buf body;
    bool too_long;
};

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;

    if (a->body.n + size * n > TOKEN_MAX_BYTES) {
        a->too_long = true;
        return 0;
    }
    buf_add(&a->body, bytes, size * n);
    return size * n;
}

/* Parses {"access_token":"...","expires_in":300} or {"error":"invalid_client"}.
 */
static int read_answer(struct slice body, long status, struct kafka_token *token,
                       struct err *err)
{
    struct said {
        struct slice token, expires_in, error;
    } said = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    static const struct json_field fields[] = {
        {"access_token", JSON_TEXT, offsetof(struct said, token), 0, 0},
        {"expires_in", JSON_RAW, offsetof(struct said, expires_in), 0, 0},
        {"error", JSON_TEXT, offsetof(struct said, error), 0, 0},
        {0}};
    struct buf room = {0};
    int rc = 0;

    if (json_read(body, fields, &said, &room) < 0)
        rc = err_set(err, "the answer, HTTP %ld, is not a JSON object", status);
    else if (said.error.n > 0)
        rc = err_set(err,
                     "the server answered \"%.*s\" (HTTP %ld); check token_client, "
                     "token_secret and token_form",
                     said.error.n < 64 ? (int)said.error.n : 64, said.error.p, status);
    else if (status != 200 || said.token.n == 0)
        rc = err_set(err, "the answer, HTTP %ld, contains no access_token", status);
    if (rc == 0) {
        token->value = mem_strndup(said.token.p, said.token.n);
        const char *seconds = said.expires_in.p ? said.expires_in.p : "0";
        const int64_t life_ms = ms_of_seconds(seconds + (*seconds == '"'));
        token->expires_ms =
            life_ms > 0 ? loop_wall_ms() + life_ms : expiry_in_token_ms(token->value);
        if (token->expires_ms == 0)
            token->expires_ms = loop_wall_ms() + LIFE_GUESSED_MS;
    }
    text_wipe(&room);
    return rc;
}

static CURL *request(const struct kafka_token_request *req, struct answer *answer,
                     char *why)
{
    CURL *e = curl_easy_init();

    must(e != NULL);
    curl_easy_setopt(e, CURLOPT_URL, req->url);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PROXY, ""); /* otherwise the environment sets it */
    curl_easy_setopt(e, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    curl_easy_setopt(e, CURLOPT_USERNAME, req->client);
    curl_easy_setopt(e, CURLOPT_PASSWORD, req->secret);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, req->form);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS);
    if (req->ca_file)
        curl_easy_setopt(e, CURLOPT_CAINFO, req->ca_file);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, answer);
    return e;
}

static int from_server(const struct kafka_token_request *req, struct kafka_token *token,
                       struct err *err)
{
    struct answer answer = {{0}, false};
    char why[CURL_ERROR_SIZE] = "";
    CURL *e = request(req, &answer, why);
    long status = 0;
    int rc;

    CURLcode code = curl_easy_perform(e);
    curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
    if (answer.too_long)
        rc = err_set(err, "the answer is longer than %d bytes", TOKEN_MAX_BYTES);
    else if (code != CURLE_OK)
        rc = err_set(err, "%s", why[0] ? why : curl_easy_strerror(code));
    else
        rc = read_answer(buf_slice(&answer.body), status, token, err);
    curl_easy_cleanup(e);
    text_wipe(&answer.body);
    return rc;
}

/* -------------------------------------------------------------------- from file or
 * server */

int kafka_token_get(const struct kafka_token_request *req, struct kafka_token *token,
                    struct err *err)
{
    char place[PLACE_BYTES];
    int rc = req->file ? from_file(req->file, token, err) : from_server(req, token, err);

    if (rc == 0 && token->expires_ms < loop_wall_ms() + LIFE_LEAST_MS) {
        kafka_token_free(token);
        rc = err_set(err, "the token has expired or expires soon; %s",
                     req->file ? "check that the file is renewed in time"
                               : "check the clocks of both hosts");
    }
    if (rc == 0)
        return 0;
    snprintf(place, sizeof(place),
             req->file ? "token_file %.180s" : "token server %.180s",
             req->file ? req->file : req->url);
    return err_in(err, place);
}

static int set_token(rd_kafka_t *rk, const struct kafka_token *token, struct err *err)
{
    char why[256];

    /* The name appears only in librdkafka's log. */
    if (rd_kafka_oauthbearer_set_token(rk, token->value, token->expires_ms, "tarry", NULL,
                                       0, why, sizeof(why)) == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    return err_set(err, "librdkafka rejects the token: %s", why);
}

int kafka_token_log_in(rd_kafka_t *rk, const struct kafka_link *link, struct err *err)
{
    struct kafka_token_request req;
    struct kafka_token token = {0};

    if (link->sasl != KAFKA_SASL_TOKEN)
        return 0;
    kafka_token_request_init(&req, link);
    int rc = kafka_token_get(&req, &token, err);
    if (rc == 0)
        rc = set_token(rk, &token, err);
    kafka_token_free(&token);
    kafka_token_request_free(&req);
    return rc;
}

/* ------------------------------------------------------------ in a thread of its own */

/* A request for a token, shared by the login and its thread. Either may be the last to
 * use it. */
struct fetch {
    pthread_mutex_t lock;
    struct kafka_login *login; /* loop thread only */
    bool abandoned;            /* guarded by lock: the login no longer waits */
    struct kafka_token_request req;
    struct kafka_token token; /* value NULL: failed, see err */
    struct err err;
};

struct kafka_login {
    rd_kafka_t *rk;
    const struct kafka_link *link;
    struct fetch *fetch; /* running; NULL: none */
};

struct kafka_login *kafka_login_new(const struct kafka_link *link, rd_kafka_t *rk)
{
    if (link->sasl != KAFKA_SASL_TOKEN)
        return NULL;
    struct kafka_login *login = mem_alloc(sizeof(*login));
    login->rk = rk;
    login->link = link;
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); /* before its first thread */
    return login;
}

static void fetch_free(struct fetch *f)
{
    kafka_token_request_free(&f->req);
    kafka_token_free(&f->token);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void on_fetched(void *arg)
{
    struct fetch *f = arg;

    pthread_mutex_lock(&f->lock); /* the thread may still hold it */
    const bool abandoned = f->abandoned;
    pthread_mutex_unlock(&f->lock);
    if (!abandoned) {
        rd_kafka_t *rk = f->login->rk;
        f->login->fetch = NULL;
        if (f->token.value == NULL || set_token(rk, &f->token, &f->err) < 0)
            rd_kafka_oauthbearer_set_token_failure(rk, f->err.text);
    }
    fetch_free(f);
}

static void *fetch_main(void *arg)
{
    struct fetch *f = arg;

    if (kafka_token_get(&f->req, &f->token, &f->err) < 0)
        kafka_token_free(&f->token);
    pthread_mutex_lock(&f->lock);
    const bool abandoned = f->abandoned;
    if (!abandoned)
        loop_post(on_fetched, f); /* under lock: once abandoned, the loop may no longer
                                   * exist */
    pthread_mutex_unlock(&f->lock);
    if (abandoned)
        fetch_free(f);
    return NULL;
}

void kafka_login_refresh(struct kafka_login *login)
{
    pthread_t thread;

    if (login == NULL || login->fetch)
        return;
    struct fetch *f = mem_alloc(sizeof(*f));
    pthread_mutex_init(&f->lock, NULL);
    kafka_token_request_init(&f->req, login->link);
    f->login = login;
    const int rc = pthread_create(&thread, NULL, fetch_main, f);
    if (rc == 0) {
        login->fetch = f;
        pthread_detach(thread);
        return;
    }
    err_set(&f->err, "cannot start a thread to get a token: %s", strerror(rc));
    rd_kafka_oauthbearer_set_token_failure(login->rk, f->err.text);
    fetch_free(f);
}

void kafka_login_free(struct kafka_login *login)
{
    if (login == NULL)
        return;
    if (login->fetch) {
        pthread_mutex_lock(&login->fetch->lock);
        login->fetch->abandoned = true;
        pthread_mutex_unlock(&login->fetch->lock);
    }
    free(login);
}
