/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_frame.c - writes and parses the frames between the MQTT source and its workers.
 *
 * The reader checks every length: a broker's input may have corrupted the worker.
 */
#include "sources/mqtt/mqtt_frame.h"

#include "bridge/base/hash.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

enum { HEAD_BYTES = 4, FILTERS_MAX = 1024, FLAG_DUP = 1, FLAG_RETAINED = 2 };
static const uint32_t NO_TEXT = UINT32_MAX; /* length of an absent text */

/* ---------------------------------------------------------------- writing */

static void put_number(struct buf *out, uint64_t v, unsigned bytes)
{
    unsigned char text[8];

    for (unsigned i = 0; i < bytes; i++)
        text[i] = (unsigned char)(v >> 8 * (bytes - 1 - i));
    buf_add(out, text, bytes);
}

static void put_slice(struct buf *out, struct slice s)
{
    must(s.n < NO_TEXT);
    put_number(out, s.p ? s.n : NO_TEXT, 4);
    buf_add_slice(out, s);
}

/* Starts a frame. Reserves the length field, which is set at the end of the frame. */
static size_t begin(struct buf *out, enum frame_type type)
{
    size_t at = out->n;

    put_number(out, 0, HEAD_BYTES);
    put_number(out, type, 1);
    return at;
}

static void end(struct buf *out, size_t at)
{
    size_t n = out->n - at - HEAD_BYTES;

    must(n <= UINT32_MAX);
    for (unsigned i = 0; i < HEAD_BYTES; i++)
        out->p[at + i] = (char)(n >> 8 * (HEAD_BYTES - 1 - i));
}

void frame_put(struct buf *out, enum frame_type type)
{
    end(out, begin(out, type));
}

void frame_put_failed(struct buf *out, const char *why)
{
    size_t at = begin(out, FRAME_FAILED);

    put_slice(out, slice_of(why));
    end(out, at);
}

void frame_put_stored(struct buf *out, unsigned count)
{
    size_t at = begin(out, FRAME_STORED);

    put_number(out, count, 4);
    end(out, at);
}

void frame_put_connected(struct buf *out, bool session_present)
{
    size_t at = begin(out, FRAME_CONNECTED);

    put_number(out, session_present, 1);
    end(out, at);
}

void frame_put_setup(struct buf *out, const struct mqtt_setup *setup)
{
    const struct mqtt_peer *peer = &setup->peer;
    const char *const texts[] = {peer->host,      peer->port,     peer->client_id,
                                 peer->user,      peer->password, peer->ca_file,
                                 peer->cert_file, peer->key_file, peer->key_password,
                                 peer->alpn};
    size_t at = begin(out, FRAME_SETUP);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        put_slice(out, slice_of(texts[i]));
    put_number(out, peer->tls, 1);
    put_number(out, peer->v5, 1);
    put_number(out, peer->keepalive_s, 4);
    put_number(out, setup->qos, 1);
    put_number(out, setup->session_expiry_s, 4);
    put_number(out, setup->receive_max, 2);
    put_number(out, setup->retained, 1);
    put_number(out, setup->message_max, 8);
    put_number(out, setup->filters.n, 4);
    for (size_t i = 0; i < setup->filters.n; i++)
        put_slice(out, slice_of(setup->filters.v[i]));
    end(out, at);
}

void frame_put_message(struct buf *out, const struct mqtt_message *m)
{
    buf_room(out, m->topic.n + m->payload.n + m->props.n + 64);
    size_t at = begin(out, FRAME_MESSAGE);

    put_number(out, (m->dup ? FLAG_DUP : 0) | (m->retained ? FLAG_RETAINED : 0), 1);
    put_number(out, m->msgid, 2);
    put_number(out, m->whole_bytes, 8);
    put_number(out, (uint64_t)m->expiry_s, 8);
    put_slice(out, m->topic);
    put_slice(out, m->payload);
    put_slice(out, m->props);
    end(out, at);
}

void frame_put_prop(struct buf *props, const struct mqtt_prop *prop)
{
    put_number(props, prop->kind, 1);
    put_slice(props, prop->name);
    put_slice(props, prop->value);
}

/* A property has an overhead of a byte and two lengths here, and of five bytes in MQTT.
 * So twice the size is enough. */
size_t frame_message_max(uint64_t message_max)
{
    return (size_t)message_max * 2 + 2 * (size_t)FRAME_CUT_BYTES + 65536 + 64;
}

/* ---------------------------------------------------------------- reading */

struct reader {
    const char *p;
    size_t n;
    bool bad; /* the frame is too short; all later reads return 0 or an empty slice */
};

static uint64_t get_number(struct reader *r, unsigned bytes)
{
    uint64_t v = 0;

    if (r->bad || r->n < bytes) {
        r->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)r->p[i];
    r->p += bytes;
    r->n -= bytes;
    return v;
}

static struct slice get_slice(struct reader *r)
{
    uint64_t n = get_number(r, 4);

    if (r->bad || n == NO_TEXT)
        return (struct slice){NULL, 0};
    if (r->n < n) {
        r->bad = true;
        return (struct slice){NULL, 0};
    }
    struct slice s = {r->p, (size_t)n};
    r->p += n;
    r->n -= (size_t)n;
    return s;
}

static char *get_text(struct reader *r)
{
    struct slice s = get_slice(r);

    return s.p ? mem_strndup(s.p, s.n) : NULL;
}

static int finish(const struct reader *r, const char *what, struct err *err)
{
    if (r->bad || r->n > 0)
        return err_set(err,
                       "a %s frame has the wrong size: source and worker may have "
                       "different versions",
                       what);
    return 0;
}

ssize_t frame_take(struct slice in, size_t max_bytes, struct frame *f, struct err *err)
{
    struct reader r = {in.p, in.n, false};

    if (in.n < HEAD_BYTES)
        return 0;
    uint64_t n = get_number(&r, HEAD_BYTES);
    if (n == 0 || n > max_bytes)
        return err_set(err, "a frame has %llu bytes; the limit is %zu",
                       (unsigned long long)n, max_bytes);
    if (r.n < n)
        return 0;
    uint64_t type = get_number(&r, 1);
    if (type < FRAME_SETUP || type > FRAME_STOP)
        return err_set(err, "a frame of unknown type %llu", (unsigned long long)type);
    f->type = (enum frame_type)type;
    f->body = (struct slice){r.p, (size_t)n - 1};
    return (ssize_t)(HEAD_BYTES + n);
}

int frame_get_connected(struct slice body, bool *session_present, struct err *err)
{
    struct reader r = {body.p, body.n, false};

    *session_present = get_number(&r, 1) != 0;
    return finish(&r, "CONNECTED", err);
}

int frame_get_failed(struct slice body, struct slice *why, struct err *err)
{
    struct reader r = {body.p, body.n, false};

    *why = get_slice(&r);
    return finish(&r, "FAILED", err);
}

int frame_get_stored(struct slice body, unsigned *count, struct err *err)
{
    struct reader r = {body.p, body.n, false};

    *count = (unsigned)get_number(&r, 4);
    return finish(&r, "STORED", err);
}

static void get_filters(struct reader *r, struct opt_list *filters)
{
    uint64_t n = get_number(r, 4);

    if (r->bad || n == 0 || n > FILTERS_MAX) {
        r->bad = true;
        return;
    }
    filters->v = mem_alloc(n * sizeof(*filters->v));
    for (; filters->n < n && !r->bad; filters->n++) {
        filters->v[filters->n] = get_text(r);
        r->bad = r->bad || filters->v[filters->n] == NULL;
    }
}

int frame_get_setup(struct slice body, struct mqtt_setup *setup, struct err *err)
{
    struct reader r = {body.p, body.n, false};
    struct mqtt_peer *peer = &setup->peer;

    memset(setup, 0, sizeof(*setup));
    char **const texts[] = {&peer->host,      &peer->port,     &peer->client_id,
                            &peer->user,      &peer->password, &peer->ca_file,
                            &peer->cert_file, &peer->key_file, &peer->key_password,
                            &peer->alpn};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        *texts[i] = get_text(&r);
    peer->tls = get_number(&r, 1) != 0;
    peer->v5 = get_number(&r, 1) != 0;
    peer->keepalive_s = (unsigned)get_number(&r, 4);
    setup->qos = (unsigned)get_number(&r, 1);
    setup->session_expiry_s = (uint32_t)get_number(&r, 4);
    setup->receive_max = (unsigned)get_number(&r, 2);
    setup->retained = get_number(&r, 1) != 0;
    setup->message_max = get_number(&r, 8);
    get_filters(&r, &setup->filters);
    if (peer->host == NULL || peer->port == NULL || peer->client_id == NULL)
        r.bad = true;
    if (finish(&r, "SETUP", err) == 0)
        return 0;
    mqtt_setup_free(setup);
    return -1;
}

void mqtt_setup_free(struct mqtt_setup *setup)
{
    mqtt_peer_free(&setup->peer);
    for (size_t i = 0; i < setup->filters.n; i++)
        free(setup->filters.v[i]);
    free(setup->filters.v);
    memset(setup, 0, sizeof(*setup));
}

int frame_get_message(struct slice body, struct mqtt_message *m, struct err *err)
{
    struct reader r = {body.p, body.n, false};
    uint64_t flags = get_number(&r, 1);

    m->dup = flags & FLAG_DUP;
    m->retained = flags & FLAG_RETAINED;
    m->msgid = (unsigned)get_number(&r, 2);
    m->whole_bytes = get_number(&r, 8);
    m->expiry_s = (int64_t)get_number(&r, 8);
    r.bad = r.bad || m->expiry_s > UINT32_MAX;
    m->topic = get_slice(&r);
    m->payload = get_slice(&r);
    m->props = get_slice(&r);
    return finish(&r, "MESSAGE", err);
}

bool frame_next_prop(struct slice *props, struct mqtt_prop *prop)
{
    struct reader r = {props->p, props->n, props->n == 0};
    uint64_t kind = get_number(&r, 1);

    prop->name = get_slice(&r);
    prop->value = get_slice(&r);
    if (r.bad || kind >= PROP_KINDS) {
        *props = (struct slice){NULL, 0};
        return false;
    }
    prop->kind = (enum mqtt_prop_kind)kind;
    *props = (struct slice){r.p, r.n};
    return true;
}

/* Hashes to distinguish messages; not secure against an attacker. */
static uint64_t hash_on(uint64_t h, struct slice s)
{
    /* Hash the end of each text as well, so that "ab","c" differs from "a","bc". */
    return hash_fnv1a(hash_fnv1a(h, s), SLICE_LIT("\xff"));
}

uint64_t mqtt_message_hash(const struct mqtt_message *m)
{
    uint64_t h = hash_on(HASH_FNV1A, m->topic);

    return hash_on(hash_on(h ^ m->whole_bytes, m->payload), m->props);
}
