/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_model_server.c - serves the Redis model on a Unix socket, so that tests can
 * compare it with a real server.
 *
 * redis_model_server --unixsocket PATH: ignores the other arguments of redis-server.
 * --node 0|1 --port PORT --other-port PORT: a node of a cluster.
 * SYNCED, CRASH n and CONFIG SET maxmemory change its state. REPLICAS n: it has n
 * replicas, which receive everything at once. HALT n: the first n of them receive nothing
 * from now on. FAILOVER n: it has only the first n commands that wrote.
 */
#include "bridge/base/mem.h"
#include "tests/sim/redis_model.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 64, READ_BYTES = 1 << 20 };

static struct client {
    int fd;
    struct redis_conn *conn;
} clients[CLIENTS_MAX];
static struct redis_model *model;
static size_t halted; /* replicas */

static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    must(fd >= 0 && path && strlen(path) < sizeof(at.sun_path));
    strcpy(at.sun_path, path);
    must(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
         listen(fd, CLIENTS_MAX) == 0);
    return fd;
}

static void on_output(void *arg, struct slice bytes)
{
    const struct client *client = arg;
    while (bytes.n > 0) {
        ssize_t n = write(client->fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            return; /* the next read reports the end */
        bytes.p += n > 0 ? n : 0;
        bytes.n -= n > 0 ? (size_t)n : 0;
    }
}

static void accept_client(int listener)
{
    struct client *client = clients;
    while (client->conn) {
        client++;
        must(client < clients + CLIENTS_MAX);
    }
    client->fd = accept(listener, NULL, NULL);
    must(client->fd >= 0);
    client->conn = redis_model_connect(model, on_output, client);
}

static void leave(struct client *client)
{
    redis_model_disconnect(client->conn);
    close(client->fd);
    client->conn = NULL;
}

/* Returns whether bytes are a command of that name. arg: its argument, or 0. */
static bool is_command(struct slice bytes, const char *name, size_t *arg)
{
    char first[64];
    const char *at = strstr(bytes.p, name);
    snprintf(first, sizeof(first), "$%zu\r\n%s\r\n", strlen(name), name);
    if (at == NULL || strncmp(bytes.p + 4, first, strlen(first)) != 0)
        return false;
    at = strchr(at, '$');
    *arg = at ? strtoul(strchr(at, '\n') + 1, NULL, 10) : 0;
    return true;
}

/* Before a crash: so its command has no reply. */
static void leave_all(void)
{
    for (struct client *client = clients; client < clients + CLIENTS_MAX; client++)
        if (client->conn)
            leave(client);
}

static void add_replicas(size_t count)
{
    for (size_t i = 0; i < REDIS_REPLICAS_MAX; i++)
        redis_model_replicas(model)[i] =
            (struct redis_replica){i < count, redis_model_offset(model)};
    halted = 0;
}

static void replicate(void)
{
    for (size_t i = halted; i < REDIS_REPLICAS_MAX; i++)
        redis_model_replicas(model)[i].has = redis_model_offset(model);
    redis_model_replicated(model);
}

static void set_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    redis_model_set_time(model, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

/* Commands that change the state of the model. */
static bool is_control(struct client *client, struct slice got)
{
    size_t arg;
    if (is_command(got, "CRASH", &arg)) {
        leave_all();
        redis_model_crash(model, arg);
        return true;
    }
    if (is_command(got, "FAILOVER", &arg)) {
        leave_all();
        redis_model_fail_over(model, arg, false);
        return true;
    }
    if (is_command(got, "SYNCED", &arg))
        redis_model_sync(model);
    else if (is_command(got, "REPLICAS", &arg))
        add_replicas(arg);
    else if (is_command(got, "HALT", &arg))
        halted = arg;
    else
        return false;
    on_output(client, SLICE_LIT("+OK\r\n"));
    return true;
}

static void serve(struct client *client)
{
    static char bytes[READ_BYTES];
    ssize_t n = read(client->fd, bytes, sizeof(bytes) - 1);
    if (n <= 0) {
        leave(client);
        return;
    }
    bytes[n] = '\0';
    set_time();
    const struct slice got = {bytes, (size_t)n};
    if (is_control(client, got))
        return;
    redis_model_feed(client->conn, got);
    replicate();
}

/* Returns the argument behind the last one of that name, or NULL. */
static const char *option(int argc, char **argv, const char *name)
{
    while (argc-- > 1)
        if (strcmp(argv[argc - 1], name) == 0)
            return argv[argc];
    return NULL;
}

/* Two nodes, each with half of the slots. */
static void make_node(const char *self, const char *port, const char *other_port)
{
    struct redis_view *view = redis_model_view(model);
    view->self = (unsigned)atoi(self);
    view->port[view->self] = (unsigned)atoi(port);
    view->port[1 - view->self] = (unsigned)atoi(other_port);
    for (unsigned slot = 0; slot < REDIS_MODEL_SLOTS; slot++)
        view->owner[slot] = slot >= REDIS_MODEL_SLOTS / 2;
}

int main(int argc, char **argv)
{
    int listener = listen_at(option(argc, argv, "--unixsocket"));
    model = redis_model_new();
    if (option(argc, argv, "--node"))
        make_node(option(argc, argv, "--node"), option(argc, argv, "--port"),
                  option(argc, argv, "--other-port"));
    for (;;) {
        struct pollfd fds[CLIENTS_MAX + 1] = {{.fd = listener, .events = POLLIN}};
        for (int i = 0; i < CLIENTS_MAX; i++)
            fds[i + 1] = (struct pollfd){.fd = clients[i].conn ? clients[i].fd : -1,
                                         .events = POLLIN};
        set_time();
        bool waits = redis_model_end_waits(model) < INT64_MAX;
        must(poll(fds, CLIENTS_MAX + 1, waits ? 1 : -1) >= 0 || errno == EINTR);
        for (int i = 0; i < CLIENTS_MAX; i++)
            if (fds[i + 1].revents && clients[i].conn && clients[i].fd == fds[i + 1].fd)
                serve(&clients[i]);
        if (fds[0].revents)
            accept_client(listener);
    }
}
