/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * child.c - the children of loop.h, started by g_spawn. Loop thread.
 *
 * uv_spawn() cannot set PR_SET_PDEATHSIG. Between fork and exec only async-signal-safe
 * calls are allowed, because other threads may hold locks.
 */
#include "bridge/base/loop.h"
#include "bridge/base/loop_internal.h"
#include "bridge/base/mem.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib.h>

struct child {
    struct child *next;
    pid_t pid;    /* 0: reaped; the system may reuse the number */
    int status;   /* exit status, valid once reaped */
    child_cb *cb; /* NULL: child_forget() was called */
    void *arg;
};

static struct {
    struct child *first;
    bool listening;
} children;

/* Reaps a child that has exited and removes it from the list. NULL: no child has. */
static struct child *take_exited(void)
{
    int status;
    for (struct child **at = &children.first; *at; at = &(*at)->next) {
        struct child *c = *at;
        const pid_t pid = waitpid(c->pid, &status, WNOHANG);
        if (pid == 0)
            continue;
        *at = c->next;
        c->pid = 0;
        if (pid < 0)
            c->status = CHILD_STATUS_UNKNOWN;
        else
            c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return c;
    }
    return NULL;
}

/* One SIGCHLD may report several children. Ignores children that others started. */
static void on_sigchld(void *arg, int signo)
{
    (void)arg, (void)signo;
    for (struct child *c; (c = take_exited()) != NULL; loop_defer_free(c))
        if (c->cb)
            c->cb(c->arg, c->status);
}

/* Returns our environment with the variables of added. Free it with g_strfreev(). */
static char **whole_env(const char *const *added)
{
    char **env = g_get_environ();
    for (; added && *added; added++) {
        char *name = mem_strndup(*added, strcspn(*added, "="));
        env = g_environ_setenv(env, name, *added + strlen(name) + 1, TRUE);
        free(name);
    }
    return env;
}

/* Runs in the child between fork and exec, with all signals blocked. */
static void prepare(void *parent)
{
    sigset_t none;
    for (int signo = 1; signo < NSIG; signo++)
        if (signo != SIGKILL && signo != SIGSTOP)
            signal(signo, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != *(const pid_t *)parent)
        _exit(127); /* the parent died before prctl() */
    setsid(); /* Ctrl-C must reach only the daemon, which stops its children in order */
    dup2(2, 1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

struct child *child_start(const struct child_spec *spec, child_cb *cb, void *arg,
                          struct err *err)
{
    enum { FD_OF_CHILD = 3 };
    const GSpawnFlags flags = G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD |
                              (spec->quiet ? G_SPAWN_STDERR_TO_DEV_NULL : 0);
    pid_t parent = getpid(), pid = 0;
    GError *why = NULL;
    sigset_t all, before;

    if (!children.listening)
        loop_on_signal(SIGCHLD, on_sigchld, NULL);
    children.listening = true;
    char **env = whole_env(spec->env);
    sigfillset(&all);
    /* No signal handler may run in the child: it would write to the parent's pipes. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = g_spawn_async_with_pipes_and_fds(
        spec->dir, spec->argv, (const char *const *)env, flags, prepare, &parent, -1, -1,
        -1, &spec->pass_fd, (const int[]){FD_OF_CHILD}, spec->pass_fd >= 0, &pid, NULL,
        NULL, NULL, &why);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    g_strfreev(env);
    if (!started) {
        err_set(err, "%s", why->message);
        g_error_free(why);
        return NULL;
    }
    struct child *c = mem_alloc(sizeof(*c));
    *c = (struct child){.next = children.first, .pid = pid, .cb = cb, .arg = arg};
    children.first = c;
    return c;
}

int child_pid(const struct child *c)
{
    return c->pid;
}

void child_kill(struct child *c, int signo)
{
    if (c->pid > 0)
        kill(c->pid, signo);
}

void child_forget(struct child *c)
{
    if (c)
        c->cb = NULL;
}

void children_fini(void)
{
    while (children.first) {
        struct child *c = children.first;
        children.first = c->next;
        kill(c->pid, SIGTERM);
        free(c);
    }
    children.listening = false;
}
