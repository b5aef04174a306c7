/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_import.c - imports lmstfy's jobs. Bodies are in j/NS/QUEUE/ID, whose TTL is that
 * of the job. Ready jobs are in the list q/NS/QUEUE, dead ones in d/NS/QUEUE (pushed at
 * the head, popped at the tail). Delayed and delivered jobs are in the sorted set
 * timer_set. Tokens are hashes tk/POOL/NS of token -> description. Limits are a hash
 * __throttler_keys__ of POOL/NS/TOKEN -> JSON. Both become a kv.
 *
 * lmstfy stores only the remaining tries, not the number of deliveries. A body that is in
 * none of the three was being delivered when its server died.
 */
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/import/import.h"
#include "sources/lmstfy/lmstfy.h"

#include <jansson.h>

static const struct import_part parts[] = {
    {"q/*", IMPORT_TAIL_LISTS, IMPORT_PENDING, false},
    {"timer_set", IMPORT_SETS, IMPORT_PENDING, false},
    {"d/*", IMPORT_TAIL_LISTS, IMPORT_DEAD, false},
    {"j/*", IMPORT_BODIES, IMPORT_LOST, false},
    {0},
};

/* ------------------------------------------------------------------ which job is meant
 */

enum { ID_MAX = 128 }; /* its own are 26 or 27 bytes */

static int take_number(struct slice *rest, unsigned *n)
{
    if (rest->n < 2)
        return -1;
    *n = (unsigned char)rest->p[0] | (unsigned)(unsigned char)rest->p[1] << 8;
    rest->p += 2;
    rest->n -= 2;
    return 0;
}

static int take_text(struct slice *rest, struct slice *text)
{
    unsigned n;
    if (take_number(rest, &n) < 0 || n > rest->n)
        return -1;
    *text = (struct slice){rest->p, n};
    rest->p += n;
    rest->n -= n;
    return 0;
}

static bool is_name(struct slice s)
{
    return s.n <= LMSTFY_NAME_MAX && lmstfy_name_is_valid(s);
}

static bool is_id(struct slice s)
{
    return s.n <= ID_MAX && lmstfy_name_is_valid(s);
}

int lmstfy_place_in_list(struct slice member, struct lmstfy_place *place)
{
    bool good = take_number(&member, &place->tries) == 0 &&
                take_text(&member, &place->id) == 0 && member.n == 0 && is_id(place->id);
    return good ? 0 : -1;
}

int lmstfy_place_in_timer(struct slice member, struct lmstfy_place *place)
{
    bool good = take_text(&member, &place->ns) == 0 &&
                take_text(&member, &place->queue) == 0 && is_name(place->ns) &&
                is_name(place->queue);
    return good ? lmstfy_place_in_list(member, place) : -1;
}

int lmstfy_place_in_key(struct slice key, bool with_id, struct lmstfy_place *place)
{
    text_cut(&key, '/');
    place->ns = text_cut(&key, '/');
    place->queue = with_id ? text_cut(&key, '/') : key;
    if (with_id)
        place->id = key;
    bool good =
        is_name(place->ns) && is_name(place->queue) && (!with_id || is_id(place->id));
    return good ? 0 : -1;
}

static int place_of(const struct import_entry *e, struct lmstfy_place *place)
{
    if (e->part->shape == IMPORT_SETS)
        return lmstfy_place_in_timer(e->member, place);
    if (e->part->shape == IMPORT_BODIES)
        return lmstfy_place_in_key(e->member, true, place);
    return lmstfy_place_in_key(e->key, false, place) < 0
               ? -1
               : lmstfy_place_in_list(e->member, place);
}

static bool is_key(void *arg, const struct import_part *part, struct slice key)
{
    struct lmstfy_place place;
    (void)arg;
    return part->shape == IMPORT_SETS ||
           lmstfy_place_in_key(key, part->shape == IMPORT_BODIES, &place) == 0;
}

static int body_key(void *arg, const struct import_entry *e, struct buf *out)
{
    struct lmstfy_place place;
    (void)arg;
    if (place_of(e, &place) < 0)
        return -1;
    buf_addf(out, "j/%.*s/%.*s/%.*s", SLICE_ARG(place.ns), SLICE_ARG(place.queue),
             SLICE_ARG(place.id));
    return 0;
}

/* ------------------------------------------------------------------ the job */

/* attributes: a JSON object, of which texts count. -1: not an object. */
static int add_attributes(struct job *job, struct slice attributes)
{
    json_t *all = json_loadb(attributes.p, attributes.n, JSON_ALLOW_NUL, NULL), *value;
    const char *name;
    int result = json_is_object(all) ? 0 : -1;
    json_object_foreach(all, name, value) if (json_is_string(value) &&
                                              job->header_count < LMSTFY_ATTRS)
        job_add_header(
            job, slice_of(name),
            (struct slice){json_string_value(value), json_string_length(value)}, NULL);
    json_decref(all);
    return result;
}

/* Adds the body. If the job may have attributes, the body is JSON that contains both. -1:
 * unreadable. */
static int add_body(struct job *job, const struct import_body *body)
{
    struct versioned {
        struct slice body, attributes;
    } v = {.body = SLICE_LIT(""), .attributes = SLICE_LIT("{}")};
    static const struct json_field fields[] = {
        {"body", JSON_TEXT, offsetof(struct versioned, body), 0, 0},
        {"attributes", JSON_RAW, offsetof(struct versioned, attributes), 0, 0},
        {0}};
    if (!lmstfy_id_has_version(job->id)) {
        job->payload = job_copy_slice(job, body->text);
        return 0;
    }
    struct buf payload = {0};
    int result = json_read(body->text, fields, &v, body->room) < 0 ||
                         text_base64_decode(v.body, &payload) < 0 ||
                         add_attributes(job, v.attributes) < 0
                     ? -1
                     : 0;
    job->payload = job_copy_slice(job, buf_slice(&payload));
    buf_free(&payload);
    return result;
}

/* The timer uses whole seconds, rounded so that a job may be due up to one second
 * early. */
static void set_timer(struct job *job, struct import_how *how, int64_t score_s,
                      unsigned tries)
{
    int64_t score_ms = import_s(score_s);
    int64_t due_ms = lmstfy_id_due_ms(job->id);
    job->tries_max = tries;
    if (due_ms < 0) {
        job->due_ms = score_ms;
    } else if (due_ms > 0 && score_ms <= due_ms + 1000) {
        job->due_ms = due_ms;
    } else {
        how->state = IMPORT_IN_FLIGHT;
        how->at_ms = job->due_ms = score_ms + 1000;
        job->tries_max++; /* plus the current delivery */
    }
    if (job->tries_max == 0)
        job->tries_max = 1;
}

static struct job *read_job(void *arg, const struct import_entry *e,
                            const struct import_body *body, struct import_how *how,
                            enum import_skip *why)
{
    const struct slice *pool = arg;
    struct lmstfy_place place = {.tries = 0};
    struct buf topic = {0};
    struct job *job = job_new(body->text.n + 256);
    (void)why;
    must(place_of(e, &place) == 0); /* body_key() has parsed it */
    lmstfy_add_topic(&topic, *pool, place.ns, place.queue);
    job->id = job_copy_slice(job, place.id);
    job->topic = job_copy_slice(job, buf_slice(&topic));
    buf_free(&topic);
    job->timed = true;
    if (lmstfy_id_ms(job->id) > 0)
        job->timestamp_ms = lmstfy_id_ms(job->id);
    job->expires_ms = body->expires_ms;
    if (e->part->shape == IMPORT_SETS) {
        set_timer(job, how, e->score, place.tries);
    } else {
        how->attempts = how->state == IMPORT_DEAD;
        job->due_ms = how->at_ms;
        job->tries_max =
            how->state == IMPORT_PENDING && place.tries > 0 ? place.tries : 1;
    }
    if (add_body(job, body) == 0)
        return job;
    job_free(job);
    return NULL;
}

/* ------------------------------------------------------------------ all of it */

static int on_tokens(void *arg, struct slice key, struct err *err)
{
    struct lmstfy_place place; /* tk/POOL/NS has the same form as q/NS/QUEUE */
    struct buf before = {0};
    if (lmstfy_place_in_key(key, false, &place) < 0)
        return 0;
    buf_addf(&before, "%.*s/%.*s/", SLICE_ARG(place.ns), SLICE_ARG(place.queue));
    int result = import_kv(arg, key, LMSTFY_TOKENS_KV, buf_slice(&before), err);
    buf_free(&before);
    return result;
}

/* Imports everything. Never deletes the original's tokens and limits: they are few and
 * not part of the jobs. */
int lmstfy_import(struct source *src, void *self, struct import *im, struct err *err)
{
    static const struct import_layout layout = {.parts = parts,
                                                .is_key = is_key,
                                                .body_key = body_key,
                                                .read = read_job,
                                                .with_ttl = true};
    struct import_option options[] = {{"pool", "default"}, {0}};
    (void)src;
    if (import_options(im, options, err) < 0)
        return -1;
    struct slice pool = slice_of(options[0].value);
    if (!lmstfy_has_pool(self, pool))
        return import_usage_error(im, err, "the source has no pool of that name");
    if (import_find_key(im, SLICE_LIT("m/ns"), err) < 0 ||
        import_walk(im, &layout, &pool, err) < 0 ||
        import_each_key(im, "tk/*", on_tokens, im, err) < 0)
        return -1;
    return import_kv(im, SLICE_LIT("__throttler_keys__"), LMSTFY_LIMITS_KV, SLICE_LIT(""),
                     err);
}
