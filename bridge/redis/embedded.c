/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * embedded.c - starts, restarts and stops the private redis-server. Loop thread.
 *
 * Two servers would corrupt one append-only file. So the child inherits a descriptor with
 * a lock on a file in the directory. The lock is free only when the last server of the
 * directory and all its children have exited. All settings are passed in argv, so no
 * configuration file remains.
 */
#include "bridge/redis/embedded.h"
#include "bridge/base/buf.h"
#include "bridge/base/log.h"
#include "bridge/base/retry.h"
#include "bridge/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    LOCK_WAIT_MS = 5000, /* for the server of a daemon that was killed a moment ago to
                          * exit */
    LOCK_TRY_MS = 50,
    STEADY_MS = 10000, /* a run of this length resets the failures */
    TERM_WAIT_MS = 10000
};

static const char who[] = "redis-server";
static const struct retry_policy restart = {
    .first_ms = 200, .factor = 2.0, .max_ms = 10000};

struct embedded {
    char *program, *dir, *url;
    struct child *child;
    int64_t started_ms;
    unsigned failures;   /* consecutive */
    struct timer *timer; /* restarts the server; while stopping, kills it */
    bool stopping;
    loop_cb *stopped;
    void *stopped_arg;
};

static void release(struct embedded *e)
{
    timer_del(e->timer);
    free(e->program);
    free(e->dir);
    free(e->url);
    loop_defer_free(e);
}

/* ----------------------------------------------------------------------- directory */

static char *url_of(const char *dir)
{
    struct buf url = {0};
    buf_add_str(&url, "unix://");
    text_add_percent(&url, slice_of(dir), "/.~");
    buf_add_str(&url, "/redis.sock");
    char *text = mem_strdup(buf_str(&url));
    buf_free(&url);
    return text;
}

char *embedded_running(const char *dir)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct buf file = {0};
    char path[PATH_MAX];
    if (realpath(dir, path) == NULL)
        return NULL;
    buf_addf(&file, "%s/redis.sock", path);
    if (file.n < sizeof(addr.sun_path))
        memcpy(addr.sun_path, file.p, file.n);
    buf_free(&file);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool runs = fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    if (fd >= 0)
        close(fd);
    return runs ? url_of(path) : NULL;
}

static int open_dir(struct embedded *e, const char *dir, struct err *err)
{
    const size_t path_max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    char path[PATH_MAX];
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(err, "redis.dir %s: %s", dir, strerror(errno));
    if (realpath(dir, path) == NULL || stat(path, &st) != 0)
        return err_set(err, "redis.dir %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(err, "redis.dir %s: not a directory", dir);
    if (strlen(path) + strlen("/redis.sock") > path_max)
        return err_set(err,
                       "redis.dir %s: the path is too long for a Unix socket in it; use "
                       "at most %zu bytes",
                       path, path_max - strlen("/redis.sock"));
    e->dir = mem_strdup(path);
    e->url = url_of(path);
    return 0;
}

/* Returns the descriptor that holds the lock; waits if another server holds it. -1:
 * error. */
static int lock_dir(const struct embedded *e, int64_t wait_ms, struct err *err)
{
    struct buf path = {0};
    int64_t end_ms = loop_mono_ms() + wait_ms;
    buf_addf(&path, "%s/redis.lock", e->dir);
    int fd = open(buf_str(&path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code = fd < 0 ? errno : 0;
    while (fd >= 0) {
        code = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (code != EWOULDBLOCK || loop_mono_ms() >= end_ms)
            break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_TRY_MS * 1000000L}, NULL);
    }
    if (code == EWOULDBLOCK)
        err_set(err,
                "redis.dir %s: another redis-server is running there; stop the other "
                "tarry, or use another directory",
                e->dir);
    else if (code)
        err_set(err, "%s: %s", buf_str(&path), strerror(code));
    buf_free(&path);
    if (code == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* --------------------------------------------------------------------------- child */

static void on_exited(void *arg, int status);

static int run(struct embedded *e, int lock_fd, struct err *err)
{
    const char *const argv[] = {
        /* clang-format off */
        e->program,
        "--port", "0",
        "--unixsocket", "redis.sock",
        "--unixsocketperm", "700",
        "--dir", ".",
        "--databases", "1",
        "--appendonly", "yes",
        "--appendfsync", "everysec",
        "--save", "",
        "--maxmemory-policy", "noeviction",
        "--daemonize", "no",
        "--loglevel", "warning",
        NULL
        /* clang-format on */
    };
    const struct child_spec spec = {.argv = argv, .dir = e->dir, .pass_fd = lock_fd};
    e->child = child_start(&spec, on_exited, e, err);
    e->started_ms = loop_mono_ms();
    return e->child ? 0 : -1;
}

static void start_later(struct embedded *e, const char *why)
{
    e->failures++;
    int64_t wait_ms = retry_delay_ms(&restart, e->failures, 0.5);
    log_error(who, "%s; restarting it in %lld ms", why, (long long)wait_ms);
    timer_set(e->timer, wait_ms);
}

/* Finish a stop. */
static void end(struct embedded *e)
{
    e->stopped(e->stopped_arg);
    release(e);
}

static void on_exited(void *arg, int status)
{
    struct embedded *e = arg;
    struct err why;
    e->child = NULL;
    if (e->stopping) {
        log_info(who, "stopped");
        end(e);
        return;
    }
    if (loop_mono_ms() - e->started_ms >= STEADY_MS)
        e->failures = 0;
    err_set(&why, "redis-server exited with %s %d", status > 128 ? "signal" : "exit code",
            status > 128 ? status - 128 : status);
    start_later(e, why.text);
}

static void on_timer(void *arg)
{
    struct embedded *e = arg;
    struct err err;
    if (e->stopping && e->child) {
        log_warn(who, "redis-server did not exit within %d ms; killing it", TERM_WAIT_MS);
        child_kill(e->child, SIGKILL);
        return;
    }
    if (e->stopping) {
        end(e);
        return;
    }
    int lock_fd = lock_dir(e, 0, &err);
    if (lock_fd < 0 || run(e, lock_fd, &err) != 0)
        start_later(e, err.text);
    if (lock_fd >= 0)
        close(lock_fd); /* now only the child holds it */
}

struct embedded *embedded_start(const char *program, const char *dir, struct err *err)
{
    struct embedded *e = mem_alloc(sizeof(*e));
    int lock_fd = -1;
    e->program = mem_strdup(program);
    e->timer = timer_new(on_timer, e);
    if (open_dir(e, dir, err) != 0)
        goto fail;
    lock_fd = lock_dir(e, LOCK_WAIT_MS, err);
    if (lock_fd < 0 || run(e, lock_fd, err) != 0)
        goto fail;
    close(lock_fd);
    log_info(who, "redis-server started in %s, pid %d", e->dir, child_pid(e->child));
    return e;
fail:
    if (lock_fd >= 0)
        close(lock_fd);
    release(e);
    return NULL;
}

const char *embedded_url(const struct embedded *e)
{
    return e->url;
}

void embedded_stop(struct embedded *e, loop_cb *cb, void *arg)
{
    must(!e->stopping);
    e->stopping = true;
    e->stopped = cb;
    e->stopped_arg = arg;
    if (e->child)
        child_kill(e->child, SIGTERM);
    timer_set(e->timer, e->child ? TERM_WAIT_MS : 0);
}
