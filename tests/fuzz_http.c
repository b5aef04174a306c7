/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_http.c - libFuzzer: any bytes on a connection to one of the HTTP APIs of a
 * complete daemon with its own Redis, which runs on another thread. The daemon must
 * survive, and its answer must be HTTP and no "500".
 *
 * One byte selects the listener. The first bit of another byte means that the input is
 * one request, whose Content-Length is filled in.
 */
#include "bridge/daemon/daemon.h"
#include "tests/fuzz.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bridge/base/buf.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

enum {
    LISTENERS = 6,
    ANSWER_MS = 20, /* for the first byte of an answer */
    MORE_MS = 2,    /* for more of it */
    END_MS = 10000, /* after our side has closed: far above the listeners' deadline */
    START_MS = 20000
};

static char dir[] = "/tmp/tarry-fuzz-http-XXXXXX", file[64];

static const char conf[] =
    "redis: { url = \"embedded\"; dir = \"%1$s/redis\"; };\n"
    "http: { listen = \"unix:%1$s/0\"; body_max = \"64KiB\"; deadline = \"500ms\"; };\n"
    "admin: { listen = \"http\"; };\n"
    "daemon: { log = \"error\"; };\n"
    "sources: {\n"
    "  later: { type = \"later\"; listen = \"unix:%1$s/1\"; deadline = \"500ms\"; };\n"
    "  lmstfy: { type = \"lmstfy\"; listen = \"unix:%1$s/2\"; deadline = \"500ms\";\n"
    "            admin_listen = \"unix:%1$s/3\"; admin_deadline = \"500ms\";\n"
    "            skip_token_check = true; };\n"
    "  delayqueue: { type = \"delayqueue\"; listen = \"unix:%1$s/4\";\n"
    "                deadline = \"500ms\"; };\n"
    "  camellia: { type = \"camellia\"; listen = \"unix:%1$s/5\"; deadline = \"500ms\"; "
    "};\n"
    "};\n"
    "sinks: { q: { type = \"queue\"; }; g: { type = \"queue\"; global_ids = true; };\n"
    "         hook: { type = \"http\"; url = \"http://127.0.0.1:1/\"; }; };\n"
    "routes: { jobs: { from = \"http\"; to = \"hook\"; match = \"jobs\"; };\n"
    "          queues: { from = [ \"http\", \"lmstfy\", \"camellia\" ]; to = \"q\"; };\n"
    "          tasks: { from = \"later\"; to = \"g\"; topic = \"tasks\"; };\n"
    "          ids: { from = \"delayqueue\"; to = \"g\"; }; };\n";

/* ------------------------------------------------------------------------ client */

/* -1: no listener. */
static int call(unsigned listener)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%u", dir, listener);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* libFuzzer sometimes sets an alarm of its own. */
static bool is_ready_for(int fd, short events, int ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, ms);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* Append what arrives, until nothing has arrived for more_ms, or the other side has
 * closed. */
static bool read_answer(int fd, int first_ms, int more_ms, struct buf *answer)
{
    for (int ms = first_ms; is_ready_for(fd, POLLIN, ms); ms = more_ms) {
        ssize_t n = recv(fd, buf_room(answer, 16384), 16384, MSG_DONTWAIT);
        if (n <= 0)
            return true;
        buf_grew(answer, (size_t)n);
    }
    return false;
}

static void send_all(int fd, struct slice bytes)
{
    while (bytes.n > 0 && is_ready_for(fd, POLLOUT, END_MS)) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return; /* it has read enough */
        bytes = (struct slice){bytes.p + n, bytes.n - (size_t)n};
    }
}

static void talk(unsigned listener, struct slice bytes, struct buf *answer)
{
    int fd = call(listener);

    must(fd >= 0); /* the daemon is alive */
    send_all(fd, bytes);
    if (!read_answer(fd, ANSWER_MS, MORE_MS, answer)) {
        shutdown(fd, SHUT_WR);
        must(read_answer(fd, END_MS, END_MS, answer)); /* it closes, too */
    }
    close(fd);
}

/* ------------------------------------------------------------------------ daemon */

static void *run(void *arg)
{
    (void)arg;
    fprintf(stderr, "the daemon has ended: %d\n", daemon_run(file));
    abort();
}

static void clean(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0)
        perror(command);
}

static bool is_ready(void)
{
    struct buf answer = {0};
    int fd = call(0);

    if (fd >= 0) {
        send_all(fd, SLICE_LIT("GET /readyz HTTP/1.0\r\n\r\n"));
        read_answer(fd, END_MS, END_MS, &answer);
        close(fd);
    }
    bool ready = strstr(buf_str(&answer), " 200 ") != NULL;
    buf_free(&answer);
    return ready;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    pthread_t thread;

    (void)argc;
    (void)argv;
    must(mkdtemp(dir) != NULL && atexit(clean) == 0);
    snprintf(file, sizeof(file), "%s/f.conf", dir);
    FILE *f = fopen(file, "w");
    must(f != NULL && fprintf(f, conf, dir) > 0 && fclose(f) == 0);
    must(pthread_create(&thread, NULL, run, NULL) == 0);
    for (int ms = 0; !is_ready(); ms += 50) {
        must(ms < START_MS);
        usleep(50000);
    }
    return 0;
}

/* ---------------------------------------------------------------------- one input */

static void check_answer(struct slice answer)
{
    static const char version[] = "HTTP/1.";

    if (answer.n == 0) /* it was no request */
        return;
    must(answer.n > 12 && memcmp(answer.p, version, strlen(version)) == 0);
    must(answer.p[9] >= '1' && answer.p[9] <= '5' && memcmp(answer.p + 9, "500", 3) != 0);
}

static void add_length(struct slice request, struct buf *out)
{
    const char *end = request.n ? memmem(request.p, request.n, "\r\n\r\n", 4) : NULL;
    size_t head = end ? (size_t)(end - request.p) : request.n;
    size_t body = end ? request.n - head - 4 : 0;

    buf_add(out, request.p, head);
    buf_addf(out, "\r\nContent-Length: %zu\r\n\r\n", body);
    if (end)
        buf_add(out, end + 4, body);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice rest = {(const char *)bytes, n};
    struct buf request = {0}, answer = {0};
    unsigned listener = fuzz_byte(&rest) % LISTENERS, flags = fuzz_byte(&rest);

    if (flags & 1)
        add_length(rest, &request);
    else
        buf_add_slice(&request, rest);
    talk(listener, buf_slice(&request), &answer);
    check_answer(buf_slice(&answer));
    buf_free(&request);
    buf_free(&answer);
    return 0;
}
