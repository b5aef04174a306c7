/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_redis.h - a Redis, a sentinel or a node of a cluster on the loop of the test. It
 * sends the replies that the test defines, else those of a healthy server. While it runs,
 * tarry connects to no other server and looks up no name.
 *
 * The replies are lines; a line is one value:
 *   :5 integer   $text   ! nil   *3 list of the next three   +OK   -ERR why
 *   @ the reply of a healthy server; any other line is sent unchanged
 */
#ifndef TESTS_FAKE_REDIS_H
#define TESTS_FAKE_REDIS_H

#include "bridge/base/buf.h"
#include "bridge/store/calls.h"

#include <stdbool.h>

struct redisReader;

struct fake_command {
    const struct slice *word; /* borrowed */
    size_t n;
    unsigned script; /* enum script; SCRIPTS: it runs no script of tarry */
};

enum {
    FAKE_CONNECTIONS = 32,
    FAKE_COMMANDS = 3000, /* commands in one run; above that the caller repeats itself,
                           * and is disconnected */
    FAKE_DEPTH = 12       /* of nested lists */
};

struct fake {
    int fd;
    unsigned port;
    struct watch *watch;
    struct slice replies; /* the remaining replies; borrowed */
    bool healthy;         /* ignore replies for now: reply like a healthy server */
    const char *match;    /* commands with this as first or second word get match_reply */
    const char *match_reply;
    /* Called first for each command; NULL: none. The lines it adds are the reply; if it
     * adds none, the rules above apply. false: close the connection instead of a reply.
     * Later replies decide whether the command was executed before. */
    bool (*on_command)(const struct fake_command *c, struct buf *lines);
    bool paused;            /* queue replies until fake_resume() */
    unsigned commands;      /* received so far; the test resets it */
    void (*on_reply)(void); /* called after each reply */
    struct fake_connection {
        int fd; /* 0: free */
        struct watch *watch;
        struct redisReader *reader;
        struct buf out; /* replies not sent yet */
    } connections[FAKE_CONNECTIONS];
};
extern struct fake fake;

/* Listen on a free port, fake.port. on_reply: called after each reply. */
void fake_start(void (*on_reply)(void));
/* Close all connections. Paused replies are lost. */
void fake_disconnect(void);
/* Send the paused replies and resume. */
void fake_resume(void);

#endif
