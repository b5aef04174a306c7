/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receive.c - the callback server. Its file contains what it has answered, so it may be
 * killed at any time.
 */
#include "tests/faults/million/million.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IN_BYTES = 65536, EVENTS = 64, RECORDS = 512 };

struct conn {
    int fd;
    size_t n;
    char in[IN_BYTES];
};

static const char *header(const char *head, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strchr(head, '\n'); at && at < end; at = strchr(at + 1, '\n'))
        if (strncasecmp(at + 1, name, n) == 0)
            return at + 1 + n;
    return NULL;
}

/* Handle one request at the beginning of at. Returns its length; 0: it is incomplete. */
static size_t take_one(char *at, size_t n, struct record *out)
{
    char *end = memmem(at, n, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    end[2] = '\0';
    const char *length = header(at, end, "content-length:");
    size_t body_n = length ? strtoul(length, NULL, 10) : 0;
    size_t all = (size_t)(end + 4 - at) + body_n;
    if (all <= n)
        *out = record_of(end + 4, body_n, clock_us(), header(at, end, "delay-due:"),
                         header(at, end, "delay-attempt:"));
    end[2] = '\r';
    return all <= n ? all : 0;
}

/* Returns false if the other end has closed. */
static bool on_readable(struct conn *c, int records)
{
    static const char yes[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct record got[RECORDS];
    size_t count = 0, used = 0, one;
    ssize_t n = recv(c->fd, c->in + c->n, sizeof(c->in) - c->n, MSG_DONTWAIT);
    if (n <= 0)
        return false;
    c->n += (size_t)n;
    while (count < RECORDS &&
           (one = take_one(c->in + used, c->n - used, &got[count])) > 0) {
        used += one;
        count++;
    }
    c->n -= used;
    memmove(c->in, c->in + used, c->n);
    records_add(records, got, count);
    for (; count > 0; count--)
        if (send(c->fd, yes, sizeof(yes) - 1, MSG_NOSIGNAL) < 0)
            return false;
    return true;
}

static int listen_at(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 1024) < 0)
        die("listen");
    return fd;
}

static void add(int poll_fd, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll");
}

static void take_connection(int poll_fd, int listener)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL)
        die("memory");
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (c->fd < 0)
        free(c);
    else
        add(poll_fd, c->fd, c);
}

int receive_main(int argc, char **argv)
{
    (void)argc;
    struct epoll_event events[EVENTS];
    int records = records_open(argv[3]), listener = listen_at(atoi(argv[2]));
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    add(poll_fd, listener, NULL);
    for (;;) {
        int n = epoll_wait(poll_fd, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c == NULL) {
                take_connection(poll_fd, listener);
            } else if (!on_readable(c, records)) {
                close(c->fd);
                free(c);
            }
        }
    }
}
