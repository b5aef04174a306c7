/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lines.c - an example plugin: a sink that appends each job's payload to a file as a
 * line. A job is delivered once write() has succeeded.
 *
 *   plugins = [ "/usr/local/lib/tarry/lines.so" ];
 *   sinks: { audit: { type = "lines"; file = "/var/lib/tarry/orders.txt"; }; };
 */
#include "bridge/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct lines { /* state of a sink; the core zeroes it, sets the options and frees it */
    char *file;
    int fd;
    struct buf line; /* reused for all jobs */
};

static const struct opt opts[] = {
    {"file", OPT_STR, offsetof(struct lines, file), NULL, .help = "The file."}, {0}};

static int start(struct sink *sink, void *self, struct err *err)
{
    struct lines *l = self;

    l->fd = open(l->file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (l->fd < 0)
        return err_set(err, "%s: %s", l->file, strerror(errno));
    log_info(sink_name(sink), "adds lines to %s", l->file);
    return 0;
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct lines *l = self;

    (void)sink;
    buf_clear(&l->line);
    buf_add_slice(&l->line, d->job->payload);
    buf_add_str(&l->line, "\n");
    if (memchr(l->line.p, '\n', l->line.n - 1) != NULL)
        delivery_done(d, REJECTED, "the payload is not one line");
    else if (write(l->fd, l->line.p, l->line.n) == (ssize_t)l->line.n)
        delivery_done(d, DELIVERED, NULL);
    else /* retried by the route's schedule; the file may then contain a part of the
          * line */
        delivery_done(d, TRY_AGAIN, "the file could not be written");
}

static void stop(struct sink *sink, void *self)
{
    struct lines *l = self;

    close(l->fd);
    buf_free(&l->line);
    sink_stopped(sink);
}

static const struct sink_ops sink_lines = {
    .name = "lines",
    .help = "Writes each job's payload to a file, as a line of its own.",
    .size = sizeof(struct lines),
    .opts = opts,
    .target = "", /* not needed: the option names the file */
    .max_in_flight = 1000,
    .start = start,
    .deliver = deliver,
    .stop = stop,
};
static const struct sink_ops *const sinks[] = {&sink_lines, NULL};
TARRY_PLUGIN(NULL, sinks);
