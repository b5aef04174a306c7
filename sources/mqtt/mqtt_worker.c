/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.c - the main thread of a worker process: reads the source's frames.
 *
 * One MQTT client per process keeps paho's mutex, its parsers and its blocking callbacks
 * out of the daemon. The process ends with descriptor 3, and with anything that goes
 * wrong.
 */
#include "sources/mqtt/mqtt_worker.h"

#include "bridge/base/buf.h"
#include "sources/mqtt/mqtt_frame.h"
#include "sources/mqtt/mqtt_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOURCE_FD = 3,
    SETUP_TIMEOUT_MS = 10000 /* SETUP comes at once, or the source is ill */
};

/* Whatever is not as agreed ends the process, and with it no message is acknowledged. */
static void take_frame(struct mqtt_session **s, const struct frame *f)
{
    struct mqtt_setup setup;

    if (f->type == FRAME_SETUP && *s == NULL &&
        frame_get_setup(f->body, &setup, NULL) == 0)
        *s = mqtt_session_start(SOURCE_FD, &setup);
    else if (f->type == FRAME_STORED && *s)
        mqtt_session_stored(*s);
    else if (f->type == FRAME_STOP && *s)
        mqtt_session_stop(*s);
    else
        _exit(EXIT_FAILURE);
}

/* Reads more from the source. Ends the process when the source has gone. */
static void read_more(struct mqtt_session *s, struct buf *in)
{
    struct pollfd p = {.fd = SOURCE_FD, .events = POLLIN};
    enum { ROOM = 4096 };

    int ready = poll(&p, 1, s ? mqtt_session_patience_ms(s) : SETUP_TIMEOUT_MS);
    if (ready == 0 && s == NULL)
        _exit(EXIT_FAILURE);
    if (ready <= 0)
        return;
    ssize_t n = read(SOURCE_FD, buf_room(in, ROOM), ROOM);
    if (n > 0)
        buf_grew(in, (size_t)n);
    else if (n == 0 || errno != EINTR)
        _exit(0);
}

int mqtt_worker_main(int argc, char **argv)
{
    struct mqtt_session *s = NULL;
    struct buf in = {0};
    struct frame f;

    (void)argc;
    (void)argv;
    if (getsockopt(SOURCE_FD, SOL_SOCKET, SO_TYPE, &(int){0},
                   &(socklen_t){sizeof(int)}) != 0) {
        fprintf(stderr, "tarry worker mqtt: started by tarry itself only, not by hand\n");
        return 64;
    }
    prctl(PR_SET_NAME, "tarry-mqtt");
    prctl(PR_SET_DUMPABLE, 0); /* the password is in our memory */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C is the source's to handle: it tells us to stop */
    for (;;) {
        ssize_t n = frame_take(buf_slice(&in), FRAME_SMALL_MAX, &f, NULL);
        if (n < 0)
            _exit(EXIT_FAILURE);
        if (n == 0) {
            read_more(s, &in);
            continue;
        }
        take_frame(&s, &f);
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): n > 0 bytes are there
        explicit_bzero(in.p, (size_t)n); /* SETUP holds the password */
        buf_drop(&in, (size_t)n);
    }
}
