/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import.c - passes jobs and kv fields to tarry's store. With --delete it deletes
 * the stored ones from the original.
 *
 * Runs on the loop thread but outside of loop_run(): each wait runs the loop until its
 * answer stops it.
 */
#include "bridge/engine/bridge.h"
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/import/import_internal.h"
#include "bridge/job/tries.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/engine/kv.h"

#include <stdlib.h>

enum {
    OPEN_MAX = 5000,           /* jobs sent to the store without an answer */
    OPEN_BYTES_MAX = 64 << 20, /* the same in bytes */
    JOB_OVERHEAD_BYTES = 256,
    NAMED_MAX = 10 /* keys of each kind that is skipped */
};

int import_usage_error(struct import *im, struct err *err, const char *why)
{
    im->usage_error = true;
    return err_set(err, "%s", why);
}

int import_options(struct import *im, struct import_option *rows, struct err *err)
{
    for (size_t i = 0; i < im->order->with->n; i++) {
        const char *given = im->order->with->v[i], *equals = strchr(given, '=');
        struct import_option *row = rows;
        size_t n = equals ? (size_t)(equals - given) : strlen(given);
        while (row && row->name && !slice_is((struct slice){given, n}, row->name))
            row++;
        if (row == NULL || row->name == NULL || equals == NULL) {
            struct buf known = {0};
            for (row = rows; row && row->name; row++)
                buf_addf(&known, "%s%s=%s", row == rows ? "" : ", ", row->name,
                         row->value);
            err_set(err, "--with %.60s: unknown option; options of %s: %s", given,
                    im->order->type, known.n > 0 ? buf_str(&known) : "none");
            buf_free(&known);
            im->usage_error = true;
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

int64_t import_ms(int64_t ms)
{
    return ms < 1 ? 1 : ms > WHEN_LAST_MS ? WHEN_LAST_MS : ms;
}

int64_t import_s(int64_t seconds)
{
    if (seconds > WHEN_LAST_MS / 1000)
        return WHEN_LAST_MS;
    return seconds > 0 ? seconds * 1000 : 1;
}

void import_values_free(struct import_value *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        import_values_free(v[i].item, v[i].count);
        free(v[i].item);
        free((char *)v[i].text.p);
        v[i] = (struct import_value){0};
    }
}

/* --- waiting --- */

/* Wait until at most jobs and bytes are unanswered. Returns -1 if tarry's Redis no longer
 * answers. */
static int wait_for(struct import *im, unsigned jobs, int64_t bytes, struct err *err)
{
    while (im->open > jobs || (im->open_bytes > bytes && im->open > 0)) {
        loop_run(); /* returns after an answer or the tick */
        if (loop_mono_ms() - im->last_reply_ms > im->timeout_ms)
            return err_set(err, "tarry's Redis has not replied for %d s: %s",
                           (int)(im->timeout_ms / 1000),
                           store_trouble(im->bridge->store));
    }
    if (im->not_stored)
        return err_set(err, "tarry's Redis rejects the jobs");
    return 0;
}

int import_flush(struct import *im, struct err *err)
{
    if (wait_for(im, 0, 0, err) < 0)
        return -1;
    while (import_redis_unanswered(im->original) > 0)
        loop_run();
    const char *why = import_redis_error(im->original);
    if (why && im->order->delete)
        return err_set(err, "cannot delete in the original's Redis: %s", why);
    return 0;
}

static int make_room(struct import *im, int64_t bytes, struct err *err)
{
    while (import_redis_unanswered(im->original) > OPEN_MAX)
        loop_run();
    if (wait_for(im, OPEN_MAX, OPEN_BYTES_MAX, err) < 0)
        return -1;
    if (im->open++ == 0)
        im->last_reply_ms = loop_mono_ms();
    im->open_bytes += bytes;
    return 0;
}

static void note_reply(struct import *im, int64_t bytes)
{
    im->open--;
    im->open_bytes -= bytes;
    im->last_reply_ms = loop_mono_ms();
    loop_stop();
}

/* --- keys seen before --- */

/* The table uses the low half of the hash, so mix it; equal hashes count as equal keys.
 */
static gpointer hash_of_key(struct slice key)
{
    uint64_t h = hash_fnv1a(HASH_FNV1A, key);
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return GSIZE_TO_POINTER(h ^ h >> 29);
}

bool import_seen_add(struct import *im, struct slice key)
{
    return g_hash_table_add(im->seen, hash_of_key(key));
}

bool import_seen_has(const struct import *im, struct slice key)
{
    return g_hash_table_contains(im->seen, hash_of_key(key));
}

/* --- jobs --- */

struct carried {          /* a job sent to the store */
    struct change change; /* first: the store frees it after its callback */
    struct import *im;
    enum import_state state;
    int64_t bytes;
    bool first; /* its key was not seen before */
    bool stays; /* do not delete it from the original */
    struct import_source from;
    struct import_entry entry; /* room owns its texts, and that of body_key */
    struct buf room;
};

static void keep_source(struct carried *c, const struct import_source *from)
{
    const struct import_entry *e = from->entry;
    char *p = buf_room(&c->room, from->body_key.n + e->key.n + e->member.n);
    c->entry = *e;
    c->from = (struct import_source){&c->entry, {p, from->body_key.n}, from->shared};
    c->entry.key.p = p = slice_put(p, from->body_key);
    c->entry.member.p = p = slice_put(p, e->key);
    slice_put(p, e->member);
}

/* Delete the body, and the entries that point to it. */
static void delete_original(const struct carried *c)
{
    static const char *const counts[] = {
        [IMPORT_TAIL_LISTS] = "-1", [IMPORT_HEAD_LISTS] = "1"};
    struct import_redis *ask = c->im->original;
    const struct import_entry *e = &c->entry;
    enum import_shape shape = e->part->shape;
    import_redis_send(ask, (struct slice[]){SLICE_LIT("DEL"), c->from.body_key}, 2);
    if (shape == IMPORT_TAIL_LISTS || shape == IMPORT_HEAD_LISTS)
        import_redis_send(ask,
                          (struct slice[]){SLICE_LIT("LREM"), e->key,
                                           slice_of(counts[shape]), e->member},
                          4);
    else if (shape == IMPORT_SETS && !c->from.shared)
        import_redis_send(ask, (struct slice[]){SLICE_LIT("ZREM"), e->key, e->member}, 3);
    for (unsigned i = 0; i < c->im->set_count && c->from.shared; i++)
        import_redis_send(
            ask, (struct slice[]){SLICE_LIT("ZREM"), c->im->sets[i], e->member}, 3);
}

static void on_enqueued(void *arg, char code)
{
    struct carried *c = arg;
    struct import *im = c->im;
    switch (code) {
    case ENQUEUE_STORED:
    case ENQUEUE_REPLACED:
    case ENQUEUE_OUTLIVED:
        im->counts.moved[c->state]++;
        break;
    case ENQUEUE_EXISTS:
        im->counts.before += c->first;
        break;
    default:
        im->not_stored = true;
        c->stays = true;
        break;
    }
    if (!c->stays)
        delete_original(c);
    note_reply(im, c->bytes);
    buf_free(&c->room);
}

void import_add_shown(struct buf *out, struct slice key)
{
    for (size_t i = 0; i < key.n; i++) {
        unsigned char c = (unsigned char)key.p[i];
        if (c < ' ' || c > '~' || c == '\\')
            buf_addf(out, "\\x%02x", c);
        else
            buf_add(out, &key.p[i], 1);
    }
}

void import_skip(struct import *im, enum import_skip why, struct slice key)
{
    if (!import_seen_add(im, key) || im->counts.skipped[why]++ >= NAMED_MAX)
        return;
    import_add_shown(&im->counts.named[why], key);
    buf_add_str(&im->counts.named[why], "\n");
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
        tries_set_error(&tries, "it was a dead letter when it was imported");
    }
    tries_format(&tries, out);
}

/* Find the route of a job. Returns -1 if found, else the enum import_skip with the
 * reason. */
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

static char how_to_store(const struct import_how *how, bool in_queue)
{
    return how->state == IMPORT_DEAD                    ? ENQUEUE_HOW_DEAD
           : in_queue && how->state == IMPORT_IN_FLIGHT ? ENQUEUE_HOW_IN_FLIGHT
                                                        : 0;
}

static struct carried *store_it(struct import *im, struct route *route, struct job *job,
                                const struct import_how *how)
{
    bool in_queue = route->sink->rules != NULL;
    struct bucket *b = route_bucket_of(route, job->id, job->target, true);
    struct buf tries = {0};
    format_tries(how, import_now_ms(im), &tries);
    job->source = job_copy_slice(job, slice_of(im->src->conf->name));
    struct carried *c =
        change_of_job(sizeof(*c), b, job, buf_slice(&tries), (struct slice){NULL, 0});
    buf_free(&tries);
    c->change.how = how_to_store(how, in_queue);
    c->change.now = how->state == IMPORT_DEAD && how->at_ms == 0;
    if (how->at_ms)
        c->change.due_ms = how->at_ms;
    if (in_queue && how->state != IMPORT_DEAD)
        c->change.expires_ms = job->expires_ms;
    c->change.cb = on_enqueued;
    c->change.arg = c;
    bucket_add(b, BATCHER_ENQUEUE, &c->change);
    return c;
}

int import_job(struct import *im, struct job *job, const struct import_how *how,
               const struct import_source *from, struct err *err)
{
    struct route *route = NULL;
    int why = find_place(im, job, &route), result = 0;
    int64_t bytes = job_bytes(job) + JOB_OVERHEAD_BYTES;
    if (why >= 0) {
        import_skip(im, (enum import_skip)why, from->body_key);
    } else if (im->order->dry_run) {
        im->counts.moved[how->state] += import_seen_add(im, from->body_key);
    } else if ((result = make_room(im, bytes, err)) == 0) {
        struct carried *c = store_it(im, route, job, how);
        c->im = im;
        c->state = how->state;
        c->bytes = bytes;
        c->first = import_seen_add(im, from->body_key);
        c->stays = !im->order->delete;
        if (!c->stays)
            keep_source(c, from);
    }
    job_free(job);
    return result;
}

/* --- kv fields --- */

static void on_kv(void *arg, enum kv_code code)
{
    struct import *im = arg;
    if (code == KV_OK)
        im->counts.kv_stored++;
    else if (code == KV_NOT)
        im->counts.kv_before++;
    else
        im->not_stored = true;
    note_reply(im, 0);
}

static int store_kv(struct import *im, const char *kv, struct slice field,
                    struct slice value, struct err *err)
{
    struct buf key = {0};
    buf_addf(&key, "%s ", kv);
    buf_add_slice(&key, field);
    bool first = import_seen_add(im, buf_slice(&key));
    buf_free(&key);
    if (im->order->dry_run)
        im->counts.kv_stored += first;
    if (im->order->dry_run || !first)
        return 0;
    if (make_room(im, 0, err) < 0)
        return -1;
    kv_put(im->src, kv, field, value, true, on_kv, im);
    return 0;
}

int import_kv(struct import *im, struct slice hash, const char *kv, struct slice before,
              struct err *err)
{
    const struct slice args[] = {SLICE_LIT("HGETALL"), hash};
    struct import_value reply;
    struct buf field = {0};
    int result = 0;
    if (import_ask(im, -1, args, 2, &reply, err) < 0)
        return -1;
    for (size_t i = 0; i + 1 < reply.count && result == 0; i += 2) {
        buf_clear(&field);
        buf_add_slice(&field, before);
        buf_add_slice(&field, reply.item[i].text);
        result = store_kv(im, kv, buf_slice(&field), reply.item[i + 1].text, err);
    }
    buf_free(&field);
    import_values_free(&reply, 1);
    return result;
}
