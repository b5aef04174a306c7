/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bare_curl.c - the limit of the http sink: libcurl's multi interface on epoll, in one
 * thread, without tarry. Its requests are like those of the sink.
 *
 *   bare_curl PORT COUNT CONNECTIONS
 *
 * The receiver measures the time (receiver.c). Exits with 1 if a request failed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <curl/curl.h>

enum { BODY_BYTES = 100, EVENTS_MAX = 256 };

static const char *const header_lines[] = {
    "Content-Type: application/octet-stream",
    "delay-id: 00000000-0000-0000-0000-000000000000",
    "delay-due: 1700000000000",
    "delay-emitted: 1700000000000",
    "delay-attempt: 1",
    "delay-source: http",
    "delay-hops: 1",
    "User-Agent: tarry/1.0.0",
    "webhook-id: 00000000-0000-0000-0000-000000000000",
    "Accept:",
    "Expect:",
};

static struct {
    CURLM *multi;
    int epoll_fd;
    long timeout_ms; /* -1: none */
    long left;       /* requests to start */
    long failed;
} g = {.timeout_ms = -1};

static int on_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                          void *socket_arg)
{
    struct epoll_event event = {.data.fd = fd,
                                .events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                                          (what & CURL_POLL_OUT ? EPOLLOUT : 0u)};
    (void)easy, (void)arg;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(g.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        curl_multi_assign(g.multi, fd, NULL);
        return 0;
    }
    epoll_ctl(g.epoll_fd, socket_arg ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    curl_multi_assign(g.multi, fd, &g);
    return 0;
}

static int on_want_timer(CURLM *multi, long ms, void *arg)
{
    (void)multi, (void)arg;
    g.timeout_ms = ms;
    return 0;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    (void)bytes, (void)arg;
    return size * n;
}

static void begin(CURL *easy)
{
    if (g.left == 0)
        return;
    g.left--;
    curl_multi_add_handle(g.multi, easy);
}

static bool collect(void)
{
    CURLMsg *msg;
    int in_queue;
    while ((msg = curl_multi_info_read(g.multi, &in_queue)) != NULL) {
        long status = 0;
        CURL *easy = msg->easy_handle;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        g.failed += msg->data.result != CURLE_OK || status != 200;
        curl_multi_remove_handle(g.multi, easy);
        begin(easy);
    }
    return g.failed == 0;
}

static CURL *new_easy(const char *url, const char *body, struct curl_slist *headers)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)BODY_BYTES);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 30000L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    return easy;
}

static void run(void)
{
    struct epoll_event events[EVENTS_MAX];
    int running = 1;
    curl_multi_socket_action(g.multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (running > 0 && collect()) {
        int n = epoll_wait(g.epoll_fd, events, EVENTS_MAX, (int)g.timeout_ms);
        for (int i = 0; i < n; i++) {
            int flags = (events[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                        (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                        (events[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
            curl_multi_socket_action(g.multi, events[i].data.fd, flags, &running);
            collect();
        }
        if (n == 0 || g.timeout_ms == 0)
            curl_multi_socket_action(g.multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

int main(int argc, char **argv)
{
    static char body[BODY_BYTES];
    char url[64];
    struct curl_slist *headers = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: bare_curl PORT COUNT CONNECTIONS\n");
        return 2;
    }
    memset(body, 'x', sizeof(body));
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/callback", atoi(argv[1]));
    g.left = atol(argv[2]);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (size_t i = 0; i < sizeof(header_lines) / sizeof(header_lines[0]); i++)
        headers = curl_slist_append(headers, header_lines[i]);
    g.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    g.multi = curl_multi_init();
    curl_multi_setopt(g.multi, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    curl_multi_setopt(g.multi, CURLMOPT_TIMERFUNCTION, on_want_timer);
    curl_multi_setopt(g.multi, CURLMOPT_MAXCONNECTS, 2 * atol(argv[3]));
    for (int i = atoi(argv[3]); i > 0; i--)
        begin(new_easy(url, body, headers));
    run();
    return g.failed > 0 || g.left > 0;
}
