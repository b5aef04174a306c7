/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_flight.h"

#include "bridge/base/hash.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

/* Includes the end of each text, so that "ab","c" differs from "a","bc". */
static uint64_t hash_on(uint64_t h, struct slice s)
{
    return hash_fnv1a(hash_fnv1a(h, s), SLICE_LIT("\xff"));
}

/* Distinguishes messages; not secure against an attacker. */
static uint64_t hash_message(const struct mqtt_message *m)
{
    uint64_t h = hash_on(hash_on(HASH_FNV1A, m->topic) ^ m->whole_bytes, m->payload);
    struct slice props = m->props;
    struct packet_prop prop;

    while (packet_next_prop(&props, &prop))
        if (prop.id != PROP_EXPIRY) /* has changed when the broker sends it again */
            h = hash_on(hash_on(h ^ prop.id, prop.name), prop.value);
    return h;
}

static void forget(struct flight_message *m)
{
    if (m && m->state == FLIGHT_OPEN)
        m->forgotten = true;
    else
        free(m);
}

/* Removes and returns the message of an earlier run with this packet id, or NULL. */
static struct flight_message *take_earlier(struct mqtt_flight *f, unsigned msgid)
{
    struct flight_message *m = f->earlier[msgid % FLIGHT_IDS];

    if (m) /* a write to an empty place would cost memory */
        f->earlier[msgid % FLIGHT_IDS] = NULL;
    return m;
}

static void append(struct mqtt_flight *f, struct flight_message *m)
{
    m->in_run = true;
    m->next = NULL;
    if (f->last)
        f->last->next = m;
    else
        f->first = m;
    f->last = m;
}

struct flight_message *flight_add(struct mqtt_flight *f, const struct mqtt_message *m,
                                  bool *again)
{
    const uint64_t hash = hash_message(m);
    struct flight_message *found = take_earlier(f, m->msgid);

    *again = found && m->dup && found->hash == hash && found->state != FLIGHT_NOT_STORED;
    if (!*again) {
        forget(found); /* the broker has reused its id */
        found = mem_alloc(sizeof(*found));
        *found = (struct flight_message){.msgid = m->msgid, .hash = hash};
    }
    append(f, found);
    return found;
}

void flight_settle(struct flight_message *m, bool stored)
{
    m->state = stored ? FLIGHT_STORED : FLIGHT_NOT_STORED;
    if (m->forgotten)
        free(m);
}

static struct flight_message *take_first(struct mqtt_flight *f)
{
    struct flight_message *m = f->first;

    f->first = m->next;
    if (f->first == NULL)
        f->last = NULL;
    m->in_run = false;
    return m;
}

unsigned flight_take_stored(struct mqtt_flight *f)
{
    unsigned count = 0;

    for (; f->first && f->first->state == FLIGHT_STORED; count++)
        free(take_first(f));
    return count;
}

void flight_end_run(struct mqtt_flight *f)
{
    while (f->first) {
        struct flight_message *m = take_first(f);
        if (m->msgid == 0) { /* QoS 0: never sent again */
            forget(m);
            continue;
        }
        forget(take_earlier(f, m->msgid));
        f->earlier[m->msgid % FLIGHT_IDS] = m;
    }
}

void flight_forget(struct mqtt_flight *f)
{
    flight_end_run(f);
    for (unsigned id = 0; id < FLIGHT_IDS; id++)
        forget(take_earlier(f, id));
}
