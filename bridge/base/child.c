/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * child.c - the children of loop.h. Loop thread.
 *
 * Uses fork(), because uv_spawn() cannot set PR_SET_PDEATHSIG. Between fork and exec only
 * async-signal-safe calls are allowed, because other threads may hold locks.
 */
#include "bridge/base/loop.h"
#include "bridge/base/loop_internal.h"
#include "bridge/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void unlink_child(struct child *c)
{
    struct child **at = &children.first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

/* One SIGCHLD may report several children. Ignores children that others started. */
static void on_sigchld(void *arg, int signo)
{
    (void)arg;
    (void)signo;
    struct child *ended = NULL, *next;
    for (struct child *c = children.first; c; c = next) {
        int status;
        next = c->next;
        if (waitpid(c->pid, &status, WNOHANG) != c->pid)
            continue;
        unlink_child(c);
        c->next = ended;
        c->pid = 0;
        c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        ended = c;
    }
    for (struct child *c = ended; c; c = next) {
        next = c->next;
        if (c->cb)
            c->cb(c->arg, c->status);
        loop_defer_free(c);
    }
}

/* Returns our environment with added in front, so that getenv() finds the added
 * values. */
static const char **whole_env(const char *const *added)
{
    size_t n = 0, old = 0;
    while (added && added[n])
        n++;
    while (environ[old])
        old++;
    const char **env = mem_alloc((n + old + 1) * sizeof(*env));
    for (size_t i = 0; i < n; i++)
        env[i] = added[i];
    size_t at = n;
    for (size_t i = 0; i < old; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool replaced = false;
        for (size_t j = 0; j < n && !replaced; j++)
            replaced = strncmp(environ[i], added[j], name) == 0;
        if (!replaced)
            env[at++] = environ[i];
    }
    return env;
}

static void close_on_exec_from(int first)
{
#ifdef CLOSE_RANGE_CLOEXEC
    if (close_range((unsigned)first, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return;
#endif
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < max && fd < 65536; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Sets descriptors 0 to 3. Moves report above them. -1: see errno. */
static int set_descriptors(const struct child_spec *spec, int *report)
{
    int pass = spec->pass_fd >= 0 ? fcntl(spec->pass_fd, F_DUPFD, 10) : -1;
    *report = fcntl(*report, F_DUPFD_CLOEXEC, 10);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (*report < 0 || null < 0 || (spec->pass_fd >= 0 && pass < 0))
        return -1;
    if (spec->quiet && dup2(null, 2) < 0)
        return -1;
    if (dup2(null, 0) < 0 || dup2(2, 1) < 0)
        return -1;
    if (pass >= 0 && dup2(pass, 3) < 0)
        return -1;
    close_on_exec_from(pass >= 0 ? 4 : 3);
    return 0;
}

/* Runs in the child with all signals blocked; never returns. */
_Noreturn static void become(const struct child_spec *spec, const char **env, int report,
                             pid_t parent)
{
    for (int signo = 1; signo < NSIG; signo++)
        if (signo != SIGKILL && signo != SIGSTOP)
            signal(signo, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127); /* the parent died before prctl() */
    setsid(); /* Ctrl-C must reach only the daemon, which stops its children in order */
    if (set_descriptors(spec, &report) == 0 && (!spec->dir || chdir(spec->dir) == 0)) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvpe(spec->argv[0], (char *const *)spec->argv, (char *const *)env);
    }
    int code = errno;
    ssize_t written = write(report, &code, sizeof(code));
    _exit(written == sizeof(code) ? 127 : 126);
}

/* Returns the errno of a child that failed before exec, or 0 if the program runs. */
static int failure_of(int fd)
{
    int code = 0;
    ssize_t n;
    do
        n = read(fd, &code, sizeof(code));
    while (n < 0 && errno == EINTR);
    return n == sizeof(code) ? code : 0;
}

struct child *child_start(const struct child_spec *spec, child_cb *cb, void *arg,
                          struct err *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        err_set(err, "cannot start %s: pipe: %s", spec->argv[0], strerror(errno));
        return NULL;
    }
    if (!children.listening)
        loop_on_signal(SIGCHLD, on_sigchld, NULL);
    children.listening = true;

    const char **env = whole_env(spec->env);
    pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    /* No signal handler may run in the child: it would write to the parent's pipes. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int code = errno;
    if (pid == 0)
        become(spec, env, report[1], parent);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(env);
    close(report[1]);
    if (pid > 0) {
        code = failure_of(report[0]);
        if (code)
            waitpid(pid, NULL, 0);
    }
    close(report[0]);
    if (pid < 0 || code) {
        err_set(err, "cannot start %s: %s", spec->argv[0], strerror(code));
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
