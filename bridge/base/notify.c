/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notify.c - datagrams to NOTIFY_SOCKET, without libsystemd and its many dependencies.
 *
 * Notifications are coalesced: one flag per kind. If the socket is full, at most one
 * notification per kind waits, and only its newest value is sent.
 */
#include "bridge/base/notify.h"
#include "bridge/base/buf.h"
#include "bridge/base/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum word { READY, RELOADING, STOPPING, ALIVE, STATUS, EXTEND, WORDS };
enum { STATUS_SIZE = 256 };

static struct {
    bool there;
    int fd;
    struct sockaddr_un addr;
    socklen_t addr_len;
    bool owed[WORDS];
    char status[STATUS_SIZE];
    int64_t extend_ms;
    int64_t watchdog_ms; /* watchdog timeout; 0: no watchdog */
    int64_t alive_ms;    /* monotonic time of the last ping */
} manager;

/* --- the manager's socket --- */

/* A leading "@" means the NUL of an abstract socket name. */
static int read_address(const char *name, struct err *err)
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
    return 0;
}

/* WATCHDOG_PID may name another process, from which this one was started. */
static int64_t watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (usec == NULL || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    return strtoll(usec, NULL, 10) / 1000;
}

static void forget_environment(void)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

int notify_open(struct err *err)
{
    const char *name = getenv("NOTIFY_SOCKET");
    memset(&manager, 0, sizeof(manager));
    int result = 0;
    if (name && *name) {
        manager.watchdog_ms = watchdog_ms();
        result = read_address(name, err);
    }
    if (name && *name && result == 0) {
        manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        manager.there = manager.fd >= 0;
        if (!manager.there)
            result = err_set(err, "cannot create a socket for NOTIFY_SOCKET: %s",
                             strerror(errno));
    }
    forget_environment();
    return result;
}

void notify_close(void)
{
    if (manager.there)
        close(manager.fd);
    manager.there = false;
}

/* --- messages --- */

static void add_word(struct buf *out, enum word word)
{
    static const char *const texts[WORDS] = {
        [READY] = "READY=1",       [RELOADING] = "RELOADING=1\nMONOTONIC_USEC=",
        [STOPPING] = "STOPPING=1", [ALIVE] = "WATCHDOG=1",
        [STATUS] = "STATUS=",      [EXTEND] = "EXTEND_TIMEOUT_USEC="};
    buf_add_str(out, texts[word]);
    if (word == RELOADING)
        buf_addf(out, "%lld", (long long)loop_mono_us());
    else if (word == STATUS)
        buf_add_str(out, manager.status);
    else if (word == EXTEND)
        buf_addf(out, "%lld", (long long)manager.extend_ms * 1000);
    buf_add_str(out, "\n");
}

/* Sends all pending notifications; if the socket is full, they stay pending. A missing
 * manager is ignored. */
static void tell(void)
{
    struct buf out = {0};
    for (enum word word = 0; word < WORDS; word++)
        if (manager.owed[word])
            add_word(&out, word);
    if (out.n == 0)
        return;
    ssize_t sent = sendto(manager.fd, out.p, out.n, MSG_NOSIGNAL,
                          (const struct sockaddr *)&manager.addr, manager.addr_len);
    bool later = sent < 0 && (errno == EAGAIN || errno == ENOBUFS);
    buf_free(&out);
    if (!later)
        memset(manager.owed, 0, sizeof(manager.owed));
}

static void owe(enum word word)
{
    if (!manager.there)
        return;
    manager.owed[word] = true;
    tell();
}

void notify_ready(void)
{
    manager.owed[RELOADING] = false;
    owe(READY);
}

void notify_reloading(void)
{
    manager.owed[READY] = false;
    owe(RELOADING);
}

void notify_stopping(void)
{
    owe(STOPPING);
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
    owe(STATUS);
}

void notify_extend(int64_t wait_ms)
{
    manager.extend_ms = wait_ms;
    owe(EXTEND);
}

/* Pings twice per watchdog timeout, one call early. */
void notify_watchdog(void)
{
    int64_t now_ms = loop_mono_ms();
    if (!manager.there)
        return;
    if (manager.watchdog_ms > 0 &&
        now_ms - manager.alive_ms >= manager.watchdog_ms / 2 - NOTIFY_WATCHDOG_MS) {
        manager.alive_ms = now_ms;
        manager.owed[ALIVE] = true;
    }
    tell();
}
