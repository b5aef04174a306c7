/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fake_redis.h"
#include "bridge/base/buf.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"
#include "bridge/store/calls.h"
#include "tests/fuzz.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

struct fake fake;

/* ------------------------------------------------- no other server is contacted */

/* Rejects connections to any other address while the fake Redis runs. */
int connect(int fd, const struct sockaddr *addr, socklen_t n)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

    if (fake.port == 0 ||
        (addr->sa_family == AF_INET && in->sin_addr.s_addr == htonl(INADDR_LOOPBACK) &&
         in->sin_port == htons((uint16_t)fake.port)))
        return (int)syscall(SYS_connect, fd, addr, n);
    errno = ECONNREFUSED;
    return -1;
}

/* Resolves no names while the fake Redis runs. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    static int (*real)(const char *, const char *, const struct addrinfo *,
                       struct addrinfo **);
    struct addrinfo numeric = hints ? *hints : (struct addrinfo){0};

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (fake.port != 0)
        numeric.ai_flags |= AI_NUMERICHOST;
    return real(name, service, hints || fake.port ? &numeric : NULL, list);
}

/* ------------------------------------------------------------------- replies */

/* The replies of a healthy server. The SHA of a script is its number, as SCRIPT LOAD
 * returns it. */
static const char *const of_script[SCRIPTS] = {
    [SCRIPT_ENQUEUE] = "*3\n:-1\n$ssssssss\n:-1\n",
    [SCRIPT_CLAIM] = "*4\n:1\n:-1\n:1\n:0\n",
    [SCRIPT_ACK] = "$aaaaaaaa\n",
    [SCRIPT_RETRY] = "*6\n:-1\n$rrrrrrrr\n:0\n:0\n:0\n:-1\n",
    [SCRIPT_CANCEL] = "$nnnnnnnn\n",
    [SCRIPT_FINISH] = "$nnnnnnnn\n",
    [SCRIPT_RELEASE] = "*6\n:-1\n$rrrrrrrr\n:0\n:0\n:0\n:-1\n",
};

static bool is(const struct fake_command *c, const char *first, const char *second)
{
    return slice_is_nocase(c->word[0], first) &&
           (second == NULL || (c->n > 1 && slice_is_nocase(c->word[1], second)));
}

/* Returns the script with this source code; SCRIPTS: not one of tarry. */
static unsigned script_of(struct slice code)
{
    unsigned script = 0;

    while (script < SCRIPTS && !slice_is(code, script_texts[script]))
        script++;
    return script;
}

/* Appends the reply of a healthy server, as lines. */
static void healthy_reply(const struct fake_command *c, struct buf *text)
{
    if (is(c, "SCRIPT", "LOAD"))
        buf_addf(text, "$%040u\n", c->n > 2 ? script_of(c->word[2]) : SCRIPTS);
    else if (c->script < SCRIPTS)
        buf_add_str(text, of_script[c->script] ? of_script[c->script] : "!\n");
    else if (is(c, "PING", NULL))
        buf_add_str(text, "+PONG\n");
    else if (is(c, "ROLE", NULL))
        buf_add_str(text, "*3\n$master\n:0\n*0\n");
    else if (is(c, "TIME", NULL))
        buf_add_str(text, "*2\n$1769860800\n$5\n");
    else if (is(c, "WAIT", NULL))
        buf_add_str(text, ":1\n");
    else if (is(c, "INFO", NULL))
        buf_add_str(text, "$redis_version:7.0.15\n");
    else if (is(c, "CONFIG", NULL))
        buf_add_str(text, "*0\n");
    else if (is(c, "SUBSCRIBE", NULL))
        buf_add_str(text, "*3\n$subscribe\n$x\n:1\n");
    else if (is(c, "CLUSTER", "INFO"))
        buf_add_str(text, "$cluster_state:ok\n");
    else if (is(c, "CLUSTER", "SLOTS"))
        buf_addf(text, "*1\n*3\n:0\n:16383\n*2\n$127.0.0.1\n:%u\n", fake.port);
    else if (is(c, "SENTINEL", "MASTER"))
        buf_add_str(text, "*2\n$config-epoch\n$1\n");
    else if (is(c, "SENTINEL", NULL))
        buf_addf(text, "*2\n$127.0.0.1\n$%u\n", fake.port);
    else
        buf_add_str(text, "+OK\n");
}

/* Remove one value from lines and append it in the Redis protocol. A missing line is
 * nil. */
static void put_value(struct slice *lines, struct buf *out, unsigned depth)
{
    struct slice line = fuzz_take(lines, '\n');
    struct slice text = {line.n ? line.p + 1 : "", line.n ? line.n - 1 : 0};
    char *number = fuzz_text(text);
    unsigned long count = strtoul(number, NULL, 10);

    free(number);
    switch (line.n ? line.p[0] : '!') {
    case '$':
        buf_addf(out, "$%zu\r\n%.*s\r\n", text.n, SLICE_ARG(text));
        break;
    case '*':
        count = depth < FAKE_DEPTH && count < 1000 ? count : 0;
        buf_addf(out, "*%lu\r\n", count);
        for (; count > 0; count--)
            put_value(lines, out, depth + 1);
        break;
    case '!':
        buf_add_str(out, "$-1\r\n");
        break;
    default:
        buf_add_slice(out, line);
        buf_add_str(out, "\r\n");
    }
}

static void send_out(struct fake_connection *c)
{
    if (c->fd == 0 || c->out.n == 0)
        return;
    (void)!send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    buf_clear(&c->out);
}

/* Sends the lines that fake.on_command added; if there are none, the reply that the test
 * defines. */
static void answer(struct fake_connection *c, const struct fake_command *command,
                   struct buf *custom)
{
    struct buf healthy = {0};
    struct slice lines = buf_slice(custom);

    if (lines.n > 0) {
        put_value(&lines, &c->out, 0);
    } else if (!fake.healthy && fake.replies.n > 0 && fake.replies.p[0] != '@') {
        put_value(&fake.replies, &c->out, 0);
    } else {
        if (fake.match &&
            (is(command, fake.match, NULL) ||
             (command->n > 1 && slice_is_nocase(command->word[1], fake.match))))
            buf_add_str(&healthy, fake.match_reply);
        else
            healthy_reply(command, &healthy);
        lines = buf_slice(&healthy);
        if (!fake.healthy)
            fuzz_take(&fake.replies, '\n');
        put_value(&lines, &c->out, 0);
    }
    buf_free(&healthy);
    if (!fake.paused)
        send_out(c);
}

/* --------------------------------------------------------------------- the server */

static void disconnect(struct fake_connection *c)
{
    const struct linger at_once = {1, 0}; /* leaves no port in TIME_WAIT */

    if (c->fd == 0)
        return;
    watch_del(c->watch);
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(c->fd);
    redisReaderFree(c->reader);
    buf_free(&c->out);
    *c = (struct fake_connection){0};
}

static unsigned script_of_command(const struct fake_command *c)
{
    unsigned long sha =
        c->n > 1 && is(c, "EVALSHA", NULL) ? strtoul(c->word[1].p, NULL, 10) : SCRIPTS;

    return sha < SCRIPTS ? (unsigned)sha : SCRIPTS;
}

static void take_command(struct fake_connection *c, const redisReply *words)
{
    size_t n = redis_items(words);
    struct slice *word = mem_alloc((n + 1) * sizeof(*word));
    struct fake_command command = {.word = word, .n = n};
    struct buf custom = {0};

    for (size_t i = 0; i < n; i++)
        word[i] = redis_text(redis_item(words, i));
    must(n > 0 && word[0].p != NULL); /* tarry sends no empty commands */
    command.script = script_of_command(&command);
    fake.commands++;
    if (fake.on_command == NULL || fake.on_command(&command, &custom))
        answer(c, &command, &custom);
    else
        disconnect(c);
    buf_free(&custom);
    free(word);
    fake.on_reply();
}

static void on_bytes(void *arg, unsigned events)
{
    struct fake_connection *c = arg;
    char bytes[16384];
    void *words = NULL;
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    (void)events;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || fake.commands > FAKE_COMMANDS) {
        disconnect(c);
        return;
    }
    redisReaderFeed(c->reader, bytes, (size_t)n);
    while (c->fd > 0 && redisReaderGetReply(c->reader, &words) == REDIS_OK && words) {
        take_command(c, words);
        freeReplyObject(words);
    }
}

static void on_connection(void *arg, unsigned events)
{
    int fd = accept4(fake.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)arg;
    (void)events;
    for (unsigned i = 0; fd >= 0 && i < FAKE_CONNECTIONS; i++) {
        struct fake_connection *c = &fake.connections[i];
        if (c->fd > 0)
            continue;
        *c = (struct fake_connection){.fd = fd, .reader = redisReaderCreate()};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        c->watch = watch_add(fd, WATCH_READ, on_bytes, c);
        return;
    }
    if (fd >= 0)
        close(fd);
}

void fake_start(void (*on_reply)(void))
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(addr);

    fake.on_reply = on_reply;
    fake.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(bind(fake.fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    must(listen(fake.fd, FAKE_CONNECTIONS) == 0);
    must(getsockname(fake.fd, (struct sockaddr *)&addr, &n) == 0);
    fake.port = ntohs(addr.sin_port);
    fake.watch = watch_add(fake.fd, WATCH_READ, on_connection, NULL);
}

void fake_disconnect(void)
{
    for (unsigned i = 0; i < FAKE_CONNECTIONS; i++)
        disconnect(&fake.connections[i]);
}

void fake_resume(void)
{
    fake.paused = false;
    for (unsigned i = 0; i < FAKE_CONNECTIONS; i++)
        send_out(&fake.connections[i]);
}
