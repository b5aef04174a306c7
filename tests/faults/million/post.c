/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.c - sends jobs that are all due within one second, in batches over one connection.
 * For runs without faults: it fails if the daemon does not accept a job.
 */
#include "tests/faults/million/million.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 1000, LINE_MAX = 2 * BODY_MAX + 128, ANSWER_MAX = BATCH * 128 };

static char lines[BATCH * LINE_MAX], answer[ANSWER_MAX + 1];

static char *put_base64(char *to, const unsigned char *p, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; n > 0; n = n > 3 ? n - 3 : 0, p += 3) {
        unsigned v = (unsigned)p[0] << 16 | (n > 1 ? (unsigned)p[1] << 8 : 0) |
                     (n > 2 ? (unsigned)p[2] : 0);
        *to++ = digits[v >> 18];
        *to++ = digits[v >> 12 & 63];
        *to++ = n > 1 ? digits[v >> 6 & 63] : '=';
        *to++ = n > 2 ? digits[v & 63] : '=';
    }
    return to;
}

static char *put_line(char *to, uint32_t run, uint64_t seq, int64_t due_ms)
{
    unsigned char body[BODY_MAX];
    size_t n = body_make(run, seq, due_ms, body);
    to += sprintf(to, "{\"id\":\"p%llu\",\"deliver-at\":\"%lld\",\"payload_base64\":\"",
                  (unsigned long long)seq, (long long)due_ms);
    to = put_base64(to, body, n);
    memcpy(to, "\"}\n", 3);
    return to + 3;
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("connect");
    return fd;
}

static void send_all(int fd, const char *p, size_t n)
{
    for (ssize_t sent; n > 0; p += sent, n -= (size_t)sent)
        if ((sent = send(fd, p, n, MSG_NOSIGNAL)) <= 0)
            die("send");
}

/* Return the body of one answer. */
static const char *read_answer(int fd)
{
    size_t n = 0, need = 0;
    const char *body = NULL;
    while (body == NULL || n < need) {
        ssize_t got = recv(fd, answer + n, ANSWER_MAX - n, 0);
        if (got <= 0)
            die("the answer");
        n += (size_t)got;
        answer[n] = '\0';
        const char *end = strstr(answer, "\r\n\r\n"), *length;
        if (body == NULL && end &&
            (length = strstr(answer, "Content-Length: ")) != NULL) {
            body = end + 4;
            need = (size_t)(body - answer) + strtoul(length + 16, NULL, 10);
        }
    }
    return body;
}

/* Each line of the answer is about the job in the same line of the request. */
static void note(const char *body, struct entry *ledger, uint64_t n)
{
    int64_t now_ms = clock_us() / 1000;
    for (uint64_t i = 0; i < n; i++) {
        if (strncmp(body, "{\"id\":", 6) != 0) {
            fprintf(stderr, "million: not taken: %.200s\n", body);
            exit(1);
        }
        ledger[i].acked_ms = now_ms;
        body = strchr(body, '\n');
        body = body ? body + 1 : "";
    }
}

int post_main(int argc, char **argv)
{
    (void)argc;
    uint64_t count = strtoull(argv[5], NULL, 10);
    int64_t due_ms = strtoll(argv[6], NULL, 10);
    uint32_t run = (uint32_t)strtoul(argv[7], NULL, 10);
    struct entry *ledger = ledger_open(argv[4], count);
    int fd = connect_to(atoi(argv[2]));
    for (uint64_t seq = 0; seq < count;) {
        uint64_t first = seq;
        char head[256], *to = lines;
        for (; seq < count && seq < first + BATCH; seq++) {
            ledger[seq].due_ms = due_ms + (int64_t)(seq % 1000);
            to = put_line(to, run, seq, ledger[seq].due_ms);
        }
        int n = snprintf(head, sizeof(head),
                         "POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: "
                         "application/x-ndjson\r\nContent-Length: %zu\r\n\r\n",
                         argv[3], (size_t)(to - lines));
        send_all(fd, head, (size_t)n);
        send_all(fd, lines, (size_t)(to - lines));
        note(read_answer(fd), ledger + first, seq - first);
    }
    close(fd);
    return 0;
}
