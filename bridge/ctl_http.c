/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_http.c - one question at a time to the daemon, over TCP or a Unix socket.
 */
#include "bridge/ctl_parts.h"
#include "bridge/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include <curl/curl.h>

enum { CONNECT_S = 5, ANSWER_S = 60, ANSWER_MAX = 64 * 1024 * 1024 };

struct ctl_http {
    CURL *curl;
    const char *url; /* as it was given, for errors */
    struct buf base; /* what stands before the path */
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

struct ctl_http *ctl_http_new(const char *url)
{
    bool local = begins(url, "unix:/");
    if (!local && !begins(url, "http://") && !begins(url, "https://")) {
        fprintf(stderr,
                "tarry: \"%.200s\" is no URL of a daemon; write http://HOST:PORT, "
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
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h->curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT, (long)ANSWER_S);
    return h;
}

void ctl_http_free(struct ctl_http *h)
{
    if (h == NULL)
        return;
    curl_easy_cleanup(h->curl);
    buf_free(&h->base);
    buf_free(&h->answer);
    free(h);
}

/* What an answer of that status means for the exit code. */
static int exit_of(long status)
{
    static const struct {
        long status;
        int code;
    } rows[] = {{400, EX_USAGE}, {404, CTL_GONE}, {409, CTL_GONE}, {410, CTL_GONE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return status < 300 ? EX_OK : EX_UNAVAILABLE;
}

static void complain(struct ctl_http *h, const json_t *answer, long status)
{
    struct buf text = {0};
    if (json_is_string(json_object_get(answer, "message"))) {
        ctl_member_add(&text, answer, "message");
        fprintf(stderr, "tarry: %s\n", buf_str(&text));
    } else {
        fprintf(stderr,
                "tarry: what answers at %s is no tarry, or another version: HTTP %ld\n",
                h->url, status);
    }
    buf_free(&text);
}

json_t *ctl_http_ask(struct ctl_http *h, const char *method, const char *path, int *code)
{
    struct buf url = {0};
    long status = 0;
    buf_clear(&h->answer);
    buf_addf(&url, "%s%s", buf_str(&h->base), path);
    curl_easy_setopt(h->curl, CURLOPT_URL, buf_str(&url));
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, method);
    CURLcode rc = curl_easy_perform(h->curl);
    buf_free(&url);
    if (rc != CURLE_OK) {
        fprintf(stderr,
                "tarry: no daemon answers at %s: %s; is it running? --url or TARRY_URL "
                "says where\n",
                h->url, curl_easy_strerror(rc));
        *code = EX_UNAVAILABLE;
        return NULL;
    }
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    json_t *answer = json_loadb(buf_str(&h->answer), h->answer.n, JSON_ALLOW_NUL, NULL);
    *code = exit_of(status);
    if (*code == EX_OK && json_is_object(answer))
        return answer;
    if (!json_is_object(answer))
        *code = EX_UNAVAILABLE;
    complain(h, answer, status);
    json_decref(answer);
    return NULL;
}
