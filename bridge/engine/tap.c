/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/hash.h"
#include "bridge/engine/tap.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    GATHER_MS = 100, /* from the first event to the answer, to collect several events */
    TEXT_MAX = 256   /* bytes shown of a key, target or reason */
};

struct slot {
    uint64_t hash;     /* of the id: a sample contains all events of a job, or none */
    struct buf json;   /* the members without the payload */
    struct buf hidden; /* the payload's member; empty: not stored */
};

struct tap_reader {
    TAILQ_ENTRY(tap_reader) link;
    struct tap *tap;
    struct tap_want want;
    struct timer *timer;
    tap_cb *cb;
    void *arg;
};

struct tap {
    struct route *route;
    struct slot slots[TAP_EVENTS];
    uint64_t first, next; /* number of the first event; of the next one */
    int64_t sample;
    bool payload;
    TAILQ_HEAD(, tap_reader) readers;
    struct timer *gather, *idle;
};

/* --- events --- */

static bool is_sampled(uint64_t hash, int64_t sample)
{
    return hash % (uint64_t)sample == 0;
}

static struct slice beginning(struct slice s, size_t most)
{
    return (struct slice){s.p, s.n < most ? s.n : most};
}

static void add_text(struct buf *json, const char *name, struct slice s)
{
    if (s.p == NULL || s.n == 0)
        return;
    buf_addf(json, ",\"%s\":", name);
    text_add_json(json, beginning(s, TEXT_MAX));
}

/* Check all bytes for UTF-8, not only those shown: these may end within a character. */
static void add_bytes(struct buf *json, const char *name, struct slice bytes, size_t most)
{
    struct slice shown = beginning(bytes, most);
    if (text_is_utf8(bytes)) {
        buf_addf(json, ",\"%s\":", name);
        text_add_json(json, shown);
    } else {
        buf_addf(json, ",\"%s_base64\":\"", name);
        text_add_base64(json, shown);
        buf_add_str(json, "\"");
    }
}

void tap_note(struct tap *tap, const struct tap_event *event)
{
    uint64_t hash = hash_fnv1a(HASH_FNV1A, event->id);
    if (!is_sampled(hash, tap->sample))
        return;
    struct slot *slot = &tap->slots[tap->next % TAP_EVENTS];
    struct buf *json = &slot->json;
    tap->next++;
    slot->hash = hash;
    buf_clear(json);
    buf_clear(&slot->hidden);
    buf_addf(json, "{\"at_ms\":%" PRId64 ",\"what\":\"%s\",", loop_wall_ms(),
             event->what);
    text_add_json_id(json, event->id);
    if (event->due_ms >= 0)
        buf_addf(json, ",\"due_ms\":%" PRId64, event->due_ms);
    if (event->attempt > 0)
        buf_addf(json, ",\"attempt\":%u", event->attempt);
    add_text(json, "reason", slice_of(event->reason));
    if (event->job) {
        add_text(json, "source", event->job->source);
        add_text(json, "target", event->job->target);
        if (event->job->key.n > 0)
            add_bytes(json, "key", event->job->key, TEXT_MAX);
        buf_addf(json, ",\"bytes\":%zu", event->job->payload.n);
        if (tap->payload)
            add_bytes(&slot->hidden, "payload", event->job->payload, TAP_PAYLOAD_MAX);
    }
    if (!TAILQ_EMPTY(&tap->readers) && !timer_is_set(tap->gather))
        timer_set(tap->gather, GATHER_MS);
}

/* --- readers --- */

/* Return the oldest stored event from the cursor on. */
static uint64_t first_kept(const struct tap *tap, uint64_t cursor)
{
    uint64_t kept =
        tap->next - tap->first < TAP_EVENTS ? tap->first : tap->next - TAP_EVENTS;
    return cursor < kept ? kept : cursor;
}

static void add_events(const struct tap *tap, const struct tap_want *want,
                       struct buf *json)
{
    unsigned count = 0;
    for (uint64_t n = first_kept(tap, (uint64_t)want->cursor); n < tap->next; n++) {
        const struct slot *slot = &tap->slots[n % TAP_EVENTS];
        if (!is_sampled(slot->hash, want->sample))
            continue;
        buf_add_str(json, count++ ? "," : "");
        buf_add_slice(json, buf_slice(&slot->json));
        if (want->payload)
            buf_add_slice(json, buf_slice(&slot->hidden));
        buf_add_str(json, "}");
    }
}

static bool has_events(const struct tap_reader *reader)
{
    const struct tap *tap = reader->tap;
    uint64_t n = first_kept(tap, (uint64_t)reader->want.cursor);
    while (n < tap->next &&
           !is_sampled(tap->slots[n % TAP_EVENTS].hash, reader->want.sample))
        n++;
    return n < tap->next;
}

static void answer(void *arg)
{
    struct tap_reader *reader = arg;
    struct tap *tap = reader->tap;
    uint64_t cursor = (uint64_t)reader->want.cursor;
    struct buf json = {0};
    buf_addf(&json, "{\"cursor\":\"%" PRIu64 "\",\"missed\":%" PRIu64 ",\"events\":[",
             tap->next, first_kept(tap, cursor) - cursor);
    add_events(tap, &reader->want, &json);
    buf_add_str(&json, "]}\n");
    TAILQ_REMOVE(&tap->readers, reader, link);
    timer_del(reader->timer);
    timer_set(tap->idle, TAP_IDLE_MS);
    reader->cb(reader->arg, buf_slice(&json));
    buf_free(&json);
    free(reader);
}

static void on_gathered(void *arg)
{
    struct tap *tap = arg;
    struct tap_reader *reader, *next;
    for (reader = TAILQ_FIRST(&tap->readers); reader; reader = next) {
        next = TAILQ_NEXT(reader, link);
        if (has_events(reader))
            answer(reader);
    }
}

static void on_idle(void *arg)
{
    struct tap *tap = arg;
    if (TAILQ_EMPTY(&tap->readers))
        tap_free(tap);
}

static struct tap *tap_new(struct route *route, int64_t sample)
{
    struct tap *tap = mem_alloc(sizeof(*tap));
    tap->route = route;
    /* So a cursor of an earlier tap or process is never valid for this one. */
    tap->first = tap->next = (uint64_t)loop_wall_ms() * 1000;
    tap->sample = sample;
    tap->gather = timer_new(on_gathered, tap);
    tap->idle = timer_new(on_idle, tap);
    TAILQ_INIT(&tap->readers);
    route->tap = tap;
    return tap;
}

struct tap_reader *tap_read(struct route *route, const struct tap_want *want, tap_cb *cb,
                            void *arg)
{
    struct tap *tap = route->tap ? route->tap : tap_new(route, want->sample);
    struct tap_reader *reader = mem_alloc(sizeof(*reader));
    *reader = (struct tap_reader){.tap = tap, .want = *want, .cb = cb, .arg = arg};
    if (want->cursor < (int64_t)tap->first || want->cursor > (int64_t)tap->next)
        reader->want.cursor = (int64_t)tap->next;
    if (want->sample < tap->sample)
        tap->sample = want->sample;
    tap->payload |= want->payload;
    TAILQ_INSERT_TAIL(&tap->readers, reader, link);
    reader->timer = timer_new(answer, reader);
    timer_set(reader->timer, has_events(reader) ? 0 : want->wait_ms);
    return reader;
}

void tap_give_up(struct tap_reader *reader)
{
    answer(reader);
}

void tap_free(struct tap *tap)
{
    struct tap_reader *reader, *next;
    if (tap == NULL)
        return;
    for (reader = TAILQ_FIRST(&tap->readers); reader; reader = next) {
        next = TAILQ_NEXT(reader, link);
        answer(reader);
    }
    tap->route->tap = NULL;
    timer_del(tap->gather);
    timer_del(tap->idle);
    for (unsigned i = 0; i < TAP_EVENTS; i++) {
        buf_free(&tap->slots[i].json);
        buf_free(&tap->slots[i].hidden);
    }
    free(tap);
}
