/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_window.h"

#include "bridge/base/mem.h"

#include <stdlib.h>

enum { PLACES_FIRST = 64 };

static struct window_message *place(const struct mqtt_window *w, uint64_t n)
{
    return &w->places[n & (w->place_count - 1)];
}

/* Doubles the ring. Every message keeps its number. */
static void grow(struct mqtt_window *w)
{
    const size_t count = w->place_count ? w->place_count * 2 : PLACES_FIRST;
    struct window_message *places = mem_alloc(count * sizeof(*places));

    for (uint64_t n = w->released; n < w->added; n++)
        places[n & (count - 1)] = *place(w, n);
    free(w->places);
    w->places = places;
    w->place_count = count;
}

void window_free(struct mqtt_window *w)
{
    free(w->places);
    buf_free(&w->acks);
    *w = (struct mqtt_window){0};
}

void window_pass(struct mqtt_window *w, unsigned qos)
{
    w->passed += qos < 2;
}

static bool is_acknowledged(const struct mqtt_window *w, const struct window_message *m)
{
    return m->qos == 1 || (m->qos == 2 && w->holds_qos_2);
}

/* Moves acked over the messages without an acknowledgement. */
static void skip_unacknowledged(struct mqtt_window *w)
{
    while (w->acked < w->added && !is_acknowledged(w, place(w, w->acked)))
        w->acked++;
}

int window_add(struct mqtt_window *w, struct window_message m)
{
    const bool is_early = w->early_bytes > 0 && is_acknowledged(w, &m);

    if (is_early && m.id != w->early_id)
        return -1;
    if (w->added - w->released == w->place_count)
        grow(w);
    m.ack_bytes = is_early ? w->early_bytes : 0;
    *place(w, w->added++) = m;
    w->bytes += m.bytes;
    if (is_early) {
        w->acked = w->added;
        w->early_bytes = 0;
    }
    return 0;
}

int window_store(struct mqtt_window *w, uint64_t count)
{
    if (count > w->added - w->stored)
        return -1;
    for (uint64_t end = w->stored + count; w->stored < end; w->stored++) {
        const struct window_message *m = place(w, w->stored);
        w->bytes -= m->bytes;
        w->passed_stored += m->qos < 2;
    }
    return 0;
}

int window_ack(struct mqtt_window *w, struct slice packet, unsigned id)
{
    skip_unacknowledged(w);
    if (w->early_bytes > 0)
        return -1;
    if (w->acked < w->added && place(w, w->acked)->id != id)
        return -1;
    if (w->acked < w->added) {
        place(w, w->acked++)->ack_bytes = packet.n;
    } else {
        w->early_id = id;
        w->early_bytes = packet.n;
    }
    buf_add_slice(&w->acks, packet);
    return 0;
}

void window_release(struct mqtt_window *w, struct buf *out)
{
    size_t bytes = 0;

    skip_unacknowledged(w);
    const uint64_t end = w->acked < w->stored ? w->acked : w->stored;
    while (w->released < end)
        bytes += place(w, w->released++)->ack_bytes;
    buf_add(out, w->acks.p, bytes);
    buf_drop(&w->acks, bytes);
}

uint64_t window_open(const struct mqtt_window *w)
{
    return w->passed - w->passed_stored;
}

bool window_settled(const struct mqtt_window *w)
{
    return w->released >= w->stored;
}
