/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import.c - the calls of an importer: what it reads, and how its jobs reach the store.
 *
 * Runs on the loop thread but outside of loop_run(): each wait runs the loop until the
 * answer that it waits for has stopped it.
 */
#include "bridge/bridge.h"
#include "bridge/import/import_parts.h"
#include "bridge/import/redis_ask.h"
#include "bridge/job/tries.h"
#include "bridge/engine/passage.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"
#include "bridge/store/shelf.h"

#include <stdlib.h>

enum {
    OPEN_MAX = 5000,           /* jobs on their way */
    OPEN_BYTES_MAX = 64 << 20, /* the same in bytes */
    JOB_OVERHEAD_BYTES = 256,
    NAMED_MAX = 10 /* keys of each kind that is skipped */
};

int import_misused(struct import *im, struct err *err, const char *why)
{
    im->misused = true;
    return err_set(err, "%s", why);
}

int import_options(struct import *im, struct import_option *rows, struct err *err)
{
    for (unsigned i = 0; i < im->order->with_count; i++) {
        const char *given = im->order->with[i], *equals = strchr(given, '=');
        struct import_option *row = rows;
        size_t n = equals ? (size_t)(equals - given) : strlen(given);
        while (row && row->name && !slice_is((struct slice){given, n}, row->name))
            row++;
        if (row == NULL || row->name == NULL || equals == NULL) {
            struct buf known = {0};
            for (row = rows; row && row->name; row++)
                buf_addf(&known, "%s%s=%s", row == rows ? "" : ", ", row->name,
                         row->value);
            err_set(err, "--with %.60s: %s can be given %s", given, im->order->type,
                    known.n > 0 ? buf_str(&known) : "nothing of that kind");
            buf_free(&known);
            im->misused = true;
            return -1;
        }
        row->value = equals + 1;
    }
    return 0;
}

int64_t import_now_ms(const struct import *im)
{
    return store_now_ms(im->bridge->store);
}

/* --- reading --- */

int import_ask_each(struct import *im, const struct slice *args, unsigned each,
                    unsigned count, struct import_value *out, struct err *err)
{
    if (ask_each(im->ask, args, each, count, out, err) == 0)
        return 0;
    return err_in(err, "the original's Redis");
}

int import_ask(struct import *im, const struct slice *args, unsigned n,
               struct import_value *out, struct err *err)
{
    if (import_ask_each(im, args, n, 1, out, err) < 0)
        return -1;
    if (out->kind != IMPORT_ERROR)
        return 0;
    err_set(err, "the original's Redis answered %.*s with: %.200s", SLICE_ARG(args[0]),
            out->text.p);
    import_values_free(out, 1);
    return -1;
}

int import_ask_node(struct import *im, int node, const struct slice *args, unsigned n,
                    struct import_value *out, struct err *err)
{
    if (node < 0)
        return import_ask_each(im, args, n, 1, out, err);
    if (ask_node(im->ask, (unsigned)node, args, n, out, err) == 0)
        return 0;
    return err_in(err, "the original's Redis");
}

int import_get_each(struct import *im, const struct slice *keys, unsigned n,
                    struct import_value *out, struct err *err)
{
    struct slice args[2 * IMPORT_PAGE];
    must(n <= IMPORT_PAGE);
    for (unsigned i = 0; i < n; i++) {
        args[2 * i] = SLICE_LIT("GET");
        args[2 * i + 1] = keys[i];
    }
    return import_ask_each(im, args, 2, n, out, err);
}

/* --- waiting --- */

int import_wait(struct import *im, unsigned jobs, int64_t bytes, struct err *err)
{
    while (im->open > jobs || (im->open_bytes > bytes && im->open > 0)) {
        loop_run(); /* until an answer, or the tick */
        if (loop_mono_ms() - im->heard_ms > im->patience_ms)
            return err_set(err, "tarry's Redis has not answered for %d s: %s",
                           (int)(im->patience_ms / 1000),
                           store_trouble(im->bridge->store));
    }
    if (im->not_stored)
        return err_set(err, "tarry's Redis does not take the jobs");
    return 0;
}

int import_flush(struct import *im, struct err *err)
{
    if (import_wait(im, 0, 0, err) < 0)
        return -1;
    while (ask_behind_count(im->ask) > 0)
        loop_run();
    const char *why = ask_complaint(im->ask);
    if (why && im->order->delete)
        return err_set(err, "deleting in the original's Redis: %s", why);
    return 0;
}

static int make_room(struct import *im, int64_t bytes, struct err *err)
{
    while (ask_behind_count(im->ask) > OPEN_MAX)
        loop_run();
    if (import_wait(im, OPEN_MAX, OPEN_BYTES_MAX, err) < 0)
        return -1;
    if (im->open++ == 0)
        im->heard_ms = loop_mono_ms();
    im->open_bytes += bytes;
    return 0;
}

static void answered(struct import *im, int64_t bytes)
{
    im->open--;
    im->open_bytes -= bytes;
    im->heard_ms = loop_mono_ms();
    loop_stop();
}

/* --- jobs --- */

struct carried { /* a job on its way */
    struct import *im;
    enum import_state state;
    int64_t bytes;
    bool first; /* its key was not met before */
    struct import_command *clean;
    unsigned clean_count;
    struct passage way;
    char id[JOB_ID_MAX];
};

/* All in one block, so that one free() is enough. */
static struct import_command *copy_commands(const struct import_command *from,
                                            unsigned count)
{
    size_t size = count * sizeof(*from);
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < from[i].n; k++)
            size += sizeof(struct slice) + from[i].args[k].n;
    struct import_command *to = mem_alloc(size);
    struct slice *args = (struct slice *)(to + count);
    for (unsigned i = 0; i < count; i++) {
        to[i] = (struct import_command){args, from[i].n};
        memcpy(args, from[i].args, from[i].n * sizeof(*args));
        args += from[i].n;
    }
    char *bytes = (char *)args;
    for (struct slice *s = (struct slice *)(to + count); s < args; s++) {
        char *end = slice_put(bytes, *s);
        s->p = bytes;
        bytes = end;
    }
    return to;
}

static void on_enqueued(void *arg, char code)
{
    struct carried *c = arg;
    struct import *im = c->im;
    switch (code) {
    case 's':
    case 'r':
    case 't':
        im->counts.moved[c->state]++;
        break;
    case 'd':
        im->counts.before += c->first;
        break;
    default:
        im->not_stored = true;
        c->clean_count = 0;
        break;
    }
    for (unsigned i = 0; i < c->clean_count; i++)
        ask_behind(im->ask, c->clean[i].args, c->clean[i].n);
    answered(im, c->bytes);
    free(c->clean);
    free(c);
}

void import_skip(struct import *im, enum import_skip why, struct slice key)
{
    if (!import_seen_add(im->seen, key) || im->counts.skipped[why]++ >= NAMED_MAX)
        return;
    import_add_shown(&im->counts.named[why], key);
    buf_add_str(&im->counts.named[why], "\n");
}

bool import_seen(const struct import *im, struct slice key)
{
    return import_seen_has(im->seen, key);
}

static int64_t job_bytes(const struct job *job)
{
    size_t n = job->payload.n + job->key.n + job->topic.n + job->target.n;
    for (unsigned i = 0; i < job->header_count; i++)
        n += job->headers[i].name.n + job->headers[i].value.n;
    return (int64_t)n;
}

static void format_tries(const struct import_how *how, int64_t now_ms, struct buf *out)
{
    struct tries tries = {.attempts = how->attempts};
    if (how->attempts == 0 && how->state != IMPORT_DEAD)
        return;
    tries.first_ms = tries.last_ms = now_ms;
    if (how->state == IMPORT_DEAD) {
        tries_set_reason(&tries, reason_name(REASON_RETRIES));
        tries_set_error(&tries, "it was dead when it moved over");
    }
    tries_format(&tries, out);
}

/* Where it goes, and whether that is possible. Negative: it is. */
static int find_place(struct import *im, struct job *job, struct route **route)
{
    struct err err;
    int bad;
    if (job->id.n == 0 || job->id.n > JOB_ID_MAX || job->topic.n > JOB_TOPIC_MAX ||
        (job->topic.n > 0 && memchr(job->topic.p, 0, job->topic.n)))
        return IMPORT_BAD_NAME;
    if (job_bytes(job) > im->bridge->conf->daemon.job_max_bytes)
        return IMPORT_TOO_LARGE;
    *route = route_for(im->src, job, &bad, &err);
    if (*route == NULL || bad < 0 ||
        ((*route)->sink->rules && !queue_name_is_good(job->target)))
        return IMPORT_NO_ROUTE;
    return -1;
}

static void store_it(struct import *im, struct route *route, struct job *job,
                     const struct import_how *how, struct carried *c)
{
    bool in_queue = route->sink->rules != NULL;
    struct buf tries = {0};
    format_tries(how, import_now_ms(im), &tries);
    c->way = (struct passage){
        .route = route,
        .how.tries = tries.n > 0 ? buf_slice(&tries) : (struct slice){NULL, 0},
        .how.dead = how->state == IMPORT_DEAD,
        .how.in_flight = in_queue && how->state == IMPORT_IN_FLIGHT,
        .how.at_ms = how->at_ms,
        .how.expires_ms = in_queue && how->state != IMPORT_DEAD ? job->expires_ms : 0,
        .id = {c->id, job->id.n},
        .cb = on_enqueued,
        .arg = c,
    };
    memcpy(c->id, job->id.p, job->id.n); /* find_place() has seen to its length */
    if (im->order->delete) {
        c->clean = copy_commands(how->clean, how->clean_count);
        c->clean_count = how->clean_count;
    }
    job->source = job_keep(job, slice_of(im->src->conf->name));
    passage_enqueue(&c->way, job, true);
    buf_free(&tries);
}

int import_job(struct import *im, struct job *job, const struct import_how *how,
               struct err *err)
{
    struct route *route = NULL;
    int why = find_place(im, job, &route), result = 0;
    int64_t bytes = job_bytes(job) + JOB_OVERHEAD_BYTES;
    if (why >= 0) {
        import_skip(im, (enum import_skip)why, how->key);
    } else if (im->order->dry_run) {
        im->counts.moved[how->state] += import_seen_add(im->seen, how->key);
    } else if ((result = make_room(im, bytes, err)) == 0) {
        struct carried *c = mem_alloc(sizeof(*c));
        c->im = im;
        c->state = how->state;
        c->bytes = bytes;
        c->first = import_seen_add(im->seen, how->key);
        store_it(im, route, job, how, c);
    }
    job_free(job);
    return result;
}

/* --- shelves --- */

static void on_shelf(void *arg, enum shelf_code code)
{
    struct import *im = arg;
    if (code == SHELF_OK)
        im->counts.shelved++;
    else if (code == SHELF_NOT)
        im->counts.shelved_before++;
    else
        im->not_stored = true;
    answered(im, 0);
}

int import_shelf(struct import *im, const char *shelf, struct slice field,
                 struct slice value, struct err *err)
{
    struct buf key = {0};
    buf_addf(&key, "%s ", shelf);
    buf_add_slice(&key, field);
    bool first = import_seen_add(im->seen, buf_slice(&key));
    buf_free(&key);
    if (im->order->dry_run)
        im->counts.shelved += first;
    if (im->order->dry_run || !first)
        return 0;
    if (make_room(im, 0, err) < 0)
        return -1;
    shelf_put(im->src, shelf, field, value, true, on_shelf, im);
    return 0;
}
