/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_redis.h - a Redis, a sentinel or a node of a cluster on the loop of the test,
 * which answers whatever the test says, and else as a good one would. While it runs,
 * nobody else is ever connected to, and no name is looked up.
 *
 * The answers are lines; a line is one value:
 *   :5 integer   $text   ! nil   *3 list of the next three   +OK   -ERR why
 *   @ the answer that a good server gives; any other is sent as it stands
 */
#ifndef TESTS_FAKE_REDIS_H
#define TESTS_FAKE_REDIS_H

#include "bridge/base/buf.h"
#include "bridge/store/script.h"

#include <stdbool.h>

struct redisReader;

struct fake_command {
    const struct slice *word; /* borrowed */
    size_t n;
    unsigned script; /* enum script; SCRIPTS: it runs none of ours */
};

enum {
    FAKE_CONNECTIONS = 32,
    FAKE_COMMANDS =
        3000,       /* in one run: then it asks again and again, and is hung up on */
    FAKE_DEPTH = 12 /* of lists */
};

struct fake {
    int fd;
    unsigned port;
    struct watch *watch;
    struct slice answers; /* what is left of them; borrowed */
    bool good;            /* they are not for now: it answers as a good one */
    const char *word;     /* what has it as first or second word is answered by */
    const char *word_answer;
    /* Sees each command first; NULL: none. What it puts into lines is the answer;
     * nothing: as above. false: the connection is lost instead of an answer. Whether the
     * command was carried out before is what the test lets the later answers tell. */
    bool (*judge)(const struct fake_command *c, struct buf *lines);
    bool holds;          /* answers stay here until fake_let_go() */
    unsigned commands;   /* so far; the test zeroes it */
    void (*asked)(void); /* after each answer */
    struct fake_connection {
        int fd; /* 0: free */
        struct watch *watch;
        struct redisReader *reader;
        struct buf out; /* answers that were not sent yet */
    } connections[FAKE_CONNECTIONS];
};
extern struct fake fake;

/* Listens on a free port, fake.port. asked: called after each answer. */
void fake_start(void (*asked)(void));
/* Closes all connections; answers that are held are lost. */
void fake_hang_up(void);
/* Sends the answers that are held, and holds none any more. */
void fake_let_go(void);

#endif
