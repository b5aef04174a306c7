/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_http.c - an HTTP client for the daemon, over TCP or a Unix socket, one request at a
 * time.
 */
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include <curl/curl.h>

enum {
    CONNECT_S = 5,
    ANSWER_MS = 60000,
    ANSWER_MAX = 64 * 1024 * 1024,
    TOKEN_MAX = 4096
};

struct ctl_http {
    CURL *curl;
    const char *url;  /* as configured, for error messages */
    struct buf base;  /* URL before the path */
    struct buf token; /* the complete header; empty: none */
    struct buf answer;
};

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    struct ctl_http *h = arg;
    if (h->answer.n + size * n > ANSWER_MAX)
        return 0;
    buf_add(&h->answer, bytes, size * n);
    return size * n;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* --- token --- */

static int set_token(struct ctl_http *h, struct slice token)
{
    while (token.n > 0 && (token.p[token.n - 1] == '\n' || token.p[token.n - 1] == '\r'))
        token.n--;
    for (size_t i = 0; i < token.n; i++)
        if (token.p[i] <= ' ' || token.p[i] > '~') {
            fprintf(stderr, "tarry: a token must consist of visible ASCII characters "
                            "without blanks\n");
            return -1;
        }
    if (token.n > 0)
        buf_addf(&h->token, "Authorization: Bearer %.*s", SLICE_ARG(token));
    return 0;
}

static int refuse_token_file(const char *file, const char *why)
{
    fprintf(stderr, "tarry: --token-file %.200s: %s\n", file, why);
    return -1;
}

/* The file may be a pipe: --token-file <(pass show tarry). */
static int read_token(struct ctl_http *h, const char *file)
{
    char text[TOKEN_MAX + 1];
    FILE *in = fopen(file, "re");
    if (in == NULL)
        return refuse_token_file(file, strerror(errno));
    size_t n = fread(text, 1, sizeof(text), in);
    const char *why = ferror(in)      ? strerror(errno)
                      : n > TOKEN_MAX ? "too long for a token; is it the right file?"
                                      : NULL;
    fclose(in);
    int bad = why ? refuse_token_file(file, why) : set_token(h, (struct slice){text, n});
    if (bad == 0 && h->token.n == 0)
        bad = refuse_token_file(file, "the file is empty");
    explicit_bzero(text, sizeof(text));
    return bad;
}

static int find_token(struct ctl_http *h, const char *file)
{
    const char *token = getenv("TARRY_TOKEN");
    if (file)
        return read_token(h, file);
    return token ? set_token(h, slice_of(token)) : 0;
}

/* --- connection --- */

static void set_options(struct ctl_http *h, const struct cli_args *o)
{
    const struct {
        CURLoption option;
        const char *file;
    } files[] = {{CURLOPT_CAINFO, o->ca_file},
                 {CURLOPT_SSLCERT, o->cert_file},
                 {CURLOPT_SSLKEY, o->key_file}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i].file)
            curl_easy_setopt(h->curl, files[i].option, files[i].file);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h->curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
}

struct ctl_http *ctl_http_new(const struct cli_args *o)
{
    const char *env = getenv("TARRY_URL");
    const char *url = o->url ? o->url : env && *env ? env : CTL_URL_DEFAULT;
    bool local = begins(url, "unix:/");
    if (!local && !begins(url, "http://") && !begins(url, "https://")) {
        fprintf(stderr,
                "tarry: \"%.200s\" is not the URL of a daemon; write http://HOST:PORT, "
                "https://HOST:PORT or unix:/PATH\n",
                url);
        return NULL;
    }
    struct ctl_http *h = mem_alloc(sizeof(*h));
    h->url = url;
    h->curl = curl_easy_init();
    must(h->curl != NULL);
    buf_add_str(&h->base, local ? "http://localhost" : url);
    while (h->base.n > 0 && h->base.p[h->base.n - 1] == '/')
        h->base.n--;
    if (local)
        curl_easy_setopt(h->curl, CURLOPT_UNIX_SOCKET_PATH, url + strlen("unix:"));
    set_options(h, o);
    if (find_token(h, o->token_file) == 0)
        return h;
    ctl_http_free(h);
    return NULL;
}

void ctl_http_free(struct ctl_http *h)
{
    if (h == NULL)
        return;
    curl_easy_cleanup(h->curl);
    buf_free(&h->base);
    text_wipe(&h->token);
    buf_free(&h->answer);
    free(h);
}

/* --- a path --- */

/* Adds the flags that are parameters of the query. */
static void add_flags(struct buf *out, const struct cli_args *o)
{
    for (const struct cli_flag *f = cli_flags; f->name; f++) {
        const char *field = (const char *)o + f->offset;
        if (f->query == NULL || !(f->sets & o->command->sets))
            continue;
        if (f->type == OPT_STR)
            ctl_query_add(out, f->query, *(const char *const *)(const void *)field);
        else if (*(const bool *)field)
            ctl_query_add(out, f->query, "true");
    }
}

void ctl_path_add(struct buf *out, const struct cli_args *o)
{
    unsigned place = 0;
    for (const char *p = o->command->path; *p;) {
        const char *hole = strstr(p, "{}");
        buf_add(out, p, hole ? (size_t)(hole - p) : strlen(p));
        p = hole ? hole + 2 : p + strlen(p);
        if (hole)
            text_add_percent(out, slice_of(o->arg[place++]), "");
    }
    add_flags(out, o);
}

void ctl_query_add(struct buf *out, const char *key, const char *value)
{
    if (value == NULL)
        return;
    bool first = out->n == 0 || memchr(out->p, '?', out->n) == NULL;
    buf_addf(out, "%s%s=", first ? "?" : "&", key);
    text_add_percent(out, slice_of(value), "");
}

/* --- request --- */

/* Returns the exit code for a status. */
static int exit_of(long status)
{
    static const struct {
        long status;
        int code;
    } rows[] = {{400, EX_USAGE}, {401, EX_NOPERM}, {403, EX_NOPERM}, {404, CLI_GONE},
                {409, CLI_GONE}, {410, CLI_GONE},  {422, EX_CONFIG}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return status < 300 ? EX_OK : EX_UNAVAILABLE;
}

static void print_error(struct ctl_http *h, const json_t *answer, long status)
{
    const json_t *message = json_object_get(answer, "message"), *line;
    const json_t *lines = json_object_get(answer, "errors");
    struct buf text = {0};
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line)
    {
        buf_clear(&text);
        ctl_text_add(&text, slice_of(json_string_value(line)));
        fprintf(stderr, "%s\n", buf_str(&text));
    }
    buf_clear(&text);
    ctl_text_add(&text, slice_of(json_string_value(message)));
    if (text.n > 0)
        fprintf(stderr, "tarry: %s%s\n", buf_str(&text),
                status == 401 ? "; pass a token with --token-file or TARRY_TOKEN" : "");
    else if (json_array_size(lines) == 0)
        fprintf(
            stderr,
            "tarry: the server at %s is not tarry, or a different version: HTTP %ld\n",
            h->url, status);
    buf_free(&text);
}

/* Suppresses the headers that curl adds by default: they would become headers of a job.
 */
static struct curl_slist *headers_of(struct ctl_http *h, const struct ctl_request *ask)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    bool typed = false;
    for (size_t i = 0; ask->headers && i < ask->headers->n; i++) {
        typed |= strncasecmp(ask->headers->v[i], "content-type:", 13) == 0;
        list = curl_slist_append(list, ask->headers->v[i]);
    }
    if (!typed)
        list = curl_slist_append(list, "Content-Type:");
    if (h->token.n > 0)
        list = curl_slist_append(list, buf_str(&h->token));
    must(list != NULL);
    return list;
}

/* Returns the HTTP status; -1: no response, after printing an error. */
static long perform(struct ctl_http *h, const struct ctl_request *ask)
{
    struct curl_slist *headers = headers_of(h, ask);
    struct buf url = {0};
    long status = -1;
    buf_clear(&h->answer);
    buf_addf(&url, "%s%s", buf_str(&h->base), ask->path);
    curl_easy_setopt(h->curl, CURLOPT_URL, buf_str(&url));
    curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, ask->body.p);
    curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->body.n);
    if (ask->body.p == NULL)
        curl_easy_setopt(h->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, ask->method);
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)(ANSWER_MS + ask->patience_ms));
    CURLcode rc = curl_easy_perform(h->curl);
    if (rc == CURLE_OK)
        curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    else if (rc == CURLE_WRITE_ERROR) /* on_bytes() has reached its limit */
        fprintf(stderr, "tarry: the answer of %s exceeds %d MiB; limit it with --max\n",
                h->url, ANSWER_MAX / (1024 * 1024));
    else
        fprintf(stderr,
                "tarry: no daemon responds at %s: %s; is it running? Set its URL with "
                "--url or TARRY_URL\n",
                h->url, curl_easy_strerror(rc));
    curl_slist_free_all(headers);
    buf_free(&url);
    return status;
}

json_t *ctl_http_request(struct ctl_http *h, const struct ctl_request *ask, int *code)
{
    long status = perform(h, ask);
    if (status < 0) {
        *code = EX_UNAVAILABLE;
        return NULL;
    }
    json_t *answer = json_loadb(buf_str(&h->answer), h->answer.n, JSON_ALLOW_NUL, NULL);
    *code = exit_of(status);
    if (*code == EX_OK && json_is_object(answer))
        return answer;
    if (!json_is_object(answer))
        *code = EX_UNAVAILABLE;
    print_error(h, answer, status);
    json_decref(answer);
    return NULL;
}

int ctl_http_text(struct ctl_http *h, const char *path, long *status, struct slice *text,
                  int *code)
{
    *status = perform(h, &(struct ctl_request){.method = "GET", .path = path});
    *text = buf_slice(&h->answer);
    *code = EX_UNAVAILABLE;
    return *status < 0 ? -1 : 0;
}

json_t *ctl_http_get(const struct cli_args *o, struct buf *path, int *code)
{
    const struct ctl_request ask = {.method = o->command->method,
                                    .path = buf_str(path),
                                    .patience_ms = o->command->patience_ms};
    json_t *answer = ctl_http_request(o->http, &ask, code);
    buf_free(path);
    return answer;
}
