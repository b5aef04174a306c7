/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_door.h"

#include "bridge/plugin.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 1024, BACKLOG = 16 };

struct door {
    struct sockaddr_in at;
    int fd;
    struct watch *watch;
    door_cb *accepted;
    void *arg;
};

static void set_nodelay(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    return a->sin_family == b->sin_family && a->sin_port == b->sin_port &&
           a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* Returns this process's socket that is connected from one address to another; -1: none.
 * A pair of addresses has one socket at each end. */
static int own_socket(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_in local = {0}, remote = {0};
        socklen_t n = sizeof(local), m = sizeof(remote);
        if (getsockname(fd, (struct sockaddr *)&local, &n) == 0 &&
            getpeername(fd, (struct sockaddr *)&remote, &m) == 0 &&
            same_address(&local, from) && same_address(&remote, to))
            return fd;
    }
    return -1;
}

static void reset(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
               sizeof(struct linger));
    close(fd);
}

static void on_connection(void *arg, unsigned events)
{
    struct door *d = arg;
    struct sockaddr_in peer = {0};
    socklen_t n = sizeof(peer);

    (void)events;
    int fd = accept4(d->fd, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    int other_end = own_socket(&peer, &d->at);
    if (other_end < 0) {
        reset(fd);
        return;
    }
    set_nodelay(fd);
    set_nodelay(other_end); /* paho never sets it, and would delay each PUBACK */
    door_cb *accepted = d->accepted;
    void *accepted_arg = d->arg;
    door_close(d);
    accepted(accepted_arg, fd);
}

struct door *door_open(door_cb *accepted, void *arg, struct err *err)
{
    struct door *d = mem_alloc(sizeof(*d));
    socklen_t n = sizeof(d->at);

    *d = (struct door){
        .at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
        .accepted = accepted,
        .arg = arg};
    d->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd < 0 || bind(d->fd, (struct sockaddr *)&d->at, n) != 0 ||
        listen(d->fd, BACKLOG) != 0 ||
        getsockname(d->fd, (struct sockaddr *)&d->at, &n) != 0) {
        err_set(err, "a port on 127.0.0.1: %s", strerror(errno));
        door_close(d);
        return NULL;
    }
    d->watch = watch_add(d->fd, WATCH_READ, on_connection, d);
    return d;
}

unsigned door_port(const struct door *d)
{
    return ntohs(d->at.sin_port);
}

void door_close(struct door *d)
{
    if (d == NULL)
        return;
    watch_del(d->watch);
    if (d->fd >= 0)
        close(d->fd);
    loop_defer_free(d);
}
