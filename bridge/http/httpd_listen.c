/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/httpd_internal.h"
#include "bridge/base/mem.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, UNIX_MODE = 0660 };

/* A listener may have thousands of connections. The soft limit is often 1024 to protect
 * programs that use select(), which tarry does not. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Returns whether no process listens on the socket file, which a killed daemon left
 * behind. */
static bool is_stale(const struct sockaddr_un *addr)
{
    struct stat st;
    if (lstat(addr->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = new_socket(AF_UNIX);
    bool stale = fd >= 0 &&
                 connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return stale;
}

static int listen_unix(const char *path, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (path[0] != '/' || strlen(path) >= sizeof(addr.sun_path))
        return err_set(err,
                       "listen: \"unix:%s\": an absolute path of less than %zu bytes "
                       "must follow unix:",
                       path, sizeof(addr.sun_path));
    strcpy(addr.sun_path, path);
    if (is_stale(&addr))
        unlink(path);
    int fd = new_socket(AF_UNIX);
    if (fd < 0)
        return err_set(err, "listen: unix:%s: %s", path, strerror(errno));
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
        chmod(path, UNIX_MODE) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    err_set(err, "listen: unix:%s: %s", path, strerror(errno));
    close(fd);
    return -1;
}

/* Returns a listening socket, or -1 with errno. */
static int listen_at(const struct addrinfo *ai)
{
    const int on = 1, off = 0;
    int fd = new_socket(ai->ai_family);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int listen_tcp(const char *text, char *copy, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    char *host, *port;
    if (httpd_cut_address(text, copy, &host, &port, err) < 0)
        return -1;
    hints.ai_family = host[0] ? AF_UNSPEC : AF_INET6;
    for (;; hints.ai_family = AF_INET) {
        int rc = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
        if (rc != 0)
            return err_set(err, "listen: %s: %s", text, gai_strerror(rc));
        int fd = listen_at(list);
        int why = errno;
        freeaddrinfo(list);
        if (fd >= 0)
            return fd;
        /* Again with IPv4 if this is a kernel without IPv6. */
        if (hints.ai_family != AF_INET6 || why != EAFNOSUPPORT)
            return err_set(err, "listen: %s: %s", text, strerror(why));
    }
}

int httpd_listen(const char *listen, struct err *err)
{
    raise_descriptor_limit();
    if (strncmp(listen, "unix:", 5) == 0)
        return listen_unix(listen + 5, err);
    char *copy = mem_strdup(listen);
    int fd = listen_tcp(listen, copy, err);
    free(copy);
    return fd;
}

void httpd_listen_name(int fd, unsigned *port, bool *loopback)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.any.sa_family = AF_UNSPEC};
    const struct in6_addr *a = &at.v6.sin6_addr;
    getsockname(fd, &at.any, &(socklen_t){sizeof(at)});
    *port = 0;
    *loopback = false;
    if (at.any.sa_family == AF_INET) {
        *port = ntohs(at.v4.sin_port);
        *loopback = ntohl(at.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    } else if (at.any.sa_family == AF_INET6) {
        *port = ntohs(at.v6.sin6_port);
        *loopback = IN6_IS_ADDR_LOOPBACK(a) ||
                    (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == IN_LOOPBACKNET);
    }
}

void httpd_unlisten(int fd)
{
    struct sockaddr_un addr = {0};
    socklen_t n = sizeof(addr) - 1;
    if (getsockname(fd, (struct sockaddr *)&addr, &n) == 0 &&
        addr.sun_family == AF_UNIX && addr.sun_path[0] == '/')
        unlink(addr.sun_path);
    close(fd);
}
