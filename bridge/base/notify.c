/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notify.c - datagrams to NOTIFY_SOCKET, without libsystemd and its many dependencies.
 *
 * If the socket is full, the newest notification of each kind waits.
 */
#include "bridge/base/notify.h"
#include "bridge/base/loop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum kind { STATE, STATUS, EXTEND, ALIVE, KINDS };
enum { LINE_SIZE = 264, STATUS_SIZE = 256 };

static struct {
    int fd; /* -1: no manager */
    struct sockaddr_un addr;
    socklen_t addr_len;
    char owed[KINDS][LINE_SIZE]; /* not sent yet; "": nothing */
    char status[STATUS_SIZE];    /* the last one */
    int64_t watchdog_ms;         /* watchdog timeout; 0: no watchdog */
    int64_t alive_ms;            /* monotonic time of the last ping */
} manager = {.fd = -1};

/* --- the manager's socket --- */

/* A leading "@" means the NUL of an abstract socket name. */
static int open_socket(const char *name, struct err *err)
{
    size_t n = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || n < 2)
        return err_set(err, "NOTIFY_SOCKET is neither a path nor an @name: %.100s", name);
    if (n >= sizeof(manager.addr.sun_path))
        return err_set(err, "NOTIFY_SOCKET is longer than %zu bytes",
                       sizeof(manager.addr.sun_path) - 1);
    manager.addr.sun_family = AF_UNIX;
    memcpy(manager.addr.sun_path, name, n);
    if (name[0] == '@')
        manager.addr.sun_path[0] = '\0';
    manager.addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (manager.fd < 0)
        return err_set(err, "cannot create a socket for NOTIFY_SOCKET: %s",
                       strerror(errno));
    return 0;
}

int notify_open(struct err *err)
{
    const char *name = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC"),
               *pid = getenv("WATCHDOG_PID");
    int result = name && *name ? open_socket(name, err) : 0;
    /* WATCHDOG_PID may name another process, from which this one was started. */
    if (usec && (pid == NULL || strtoll(pid, NULL, 10) == getpid()))
        manager.watchdog_ms = strtoll(usec, NULL, 10) / 1000;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return result;
}

void notify_close(void)
{
    if (manager.fd >= 0)
        close(manager.fd);
    memset(&manager, 0, sizeof(manager));
    manager.fd = -1;
}

/* --- messages --- */

/* Sends all pending notifications in one datagram. A missing manager is ignored. */
static void send_owed(void)
{
    char text[KINDS * LINE_SIZE] = "";
    for (enum kind kind = 0; kind < KINDS; kind++)
        strcat(text, manager.owed[kind]);
    if (manager.fd < 0 || text[0] == '\0')
        return;
    ssize_t sent = sendto(manager.fd, text, strlen(text), MSG_NOSIGNAL,
                          (const struct sockaddr *)&manager.addr, manager.addr_len);
    if (sent >= 0 || (errno != EAGAIN && errno != ENOBUFS))
        memset(manager.owed, 0, sizeof(manager.owed));
}

__attribute__((format(printf, 2, 3))) static void tell(enum kind kind, const char *fmt,
                                                       ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(manager.owed[kind], LINE_SIZE, fmt, args);
    va_end(args);
    send_owed();
}

void notify_ready(void)
{
    tell(STATE, "READY=1\n");
}

void notify_reloading(void)
{
    tell(STATE, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)loop_mono_us());
}

void notify_stopping(void)
{
    tell(STATE, "STOPPING=1\n");
}

void notify_status(const char *text)
{
    char line[STATUS_SIZE];
    size_t n = 0;
    for (; text[n] && n < sizeof(line) - 1; n++) /* the manager accepts only valid
                                                  * UTF-8 */
        line[n] = text[n] < ' ' || text[n] > '~' ? '?' : text[n];
    line[n] = '\0';
    if (strcmp(line, manager.status) == 0)
        return;
    memcpy(manager.status, line, n + 1);
    tell(STATUS, "STATUS=%s\n", line);
}

void notify_extend(int64_t wait_ms)
{
    tell(EXTEND, "EXTEND_TIMEOUT_USEC=%lld\n", (long long)wait_ms * 1000);
}

/* Pings twice per watchdog timeout, one call early. */
void notify_watchdog(void)
{
    int64_t now_ms = loop_mono_ms();
    if (manager.watchdog_ms > 0 &&
        now_ms - manager.alive_ms >= manager.watchdog_ms / 2 - NOTIFY_WATCHDOG_MS) {
        manager.alive_ms = now_ms;
        tell(ALIVE, "WATCHDOG=1\n");
    }
    send_owed();
}
