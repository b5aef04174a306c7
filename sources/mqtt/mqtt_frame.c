/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_frame.h"

#include <stdlib.h>

enum { FILTERS_MAX = 1024, TOPIC_MAX = 65535 };
static const uint32_t NO_TEXT = UINT32_MAX; /* length of an absent text */

/* Starts a frame. end() sets its length. */
static size_t begin(struct buf *out, enum frame_type type)
{
    const size_t at = out->n;
    const uint32_t length = 0;
    const uint8_t byte = (uint8_t)type;

    buf_add(out, &length, sizeof(length));
    buf_add(out, &byte, sizeof(byte));
    return at;
}

static void end(struct buf *out, size_t at)
{
    const size_t n = out->n - at - sizeof(uint32_t);
    const uint32_t length = (uint32_t)n;

    must(n <= UINT32_MAX);
    memcpy(out->p + at, &length, sizeof(length));
}

void frame_put(struct buf *out, enum frame_type type, struct slice body)
{
    const size_t at = begin(out, type);

    buf_add_slice(out, body);
    end(out, at);
}

/* Copies a number or a struct of numbers from the input. */
static void get(struct reader *r, void *to, size_t bytes)
{
    const struct slice s = reader_take(r, bytes);

    if (s.p)
        memcpy(to, s.p, bytes);
    else
        memset(to, 0, bytes);
}

static int finish(const struct reader *r, struct err *err)
{
    return r->bad || r->n > 0 ? err_set(err, "a frame has the wrong size") : 0;
}

static struct reader read_from(struct slice body)
{
    return (struct reader){body.p, body.n, false};
}

ssize_t frame_take(struct slice in, size_t max_bytes, struct frame *f, struct err *err)
{
    struct reader r = read_from(in);
    uint32_t n;
    uint8_t type;

    get(&r, &n, sizeof(n));
    if (r.bad)
        return 0;
    if (n == 0 || n > max_bytes)
        return err_set(err, "a frame has %lu bytes; the limit is %zu", (unsigned long)n,
                       max_bytes);
    if (r.n < n)
        return 0;
    get(&r, &type, sizeof(type));
    if (type < FRAME_SETUP || type > FRAME_STOP)
        return err_set(err, "a frame of unknown type %u", type);
    *f = (struct frame){(enum frame_type)type, {r.p, n - sizeof(type)}};
    return (ssize_t)(sizeof(n) + n);
}

void frame_put_number(struct buf *out, enum frame_type type, uint32_t number)
{
    frame_put(out, type, (struct slice){(const char *)&number, sizeof(number)});
}

int frame_get_number(struct slice body, uint32_t *number, struct err *err)
{
    struct reader r = read_from(body);

    get(&r, number, sizeof(*number));
    return finish(&r, err);
}

/* -------------------------------------------------------------------- SETUP */

/* The body begins with these numbers; the texts of the peer and the filters follow. */
struct setup_numbers {
    uint64_t message_max;
    uint32_t session_expiry_s, receive_max, keepalive_s, filters;
    uint8_t qos, retained, tls, v5;
    uint32_t padding;
};

#define AT(field) offsetof(struct mqtt_peer, field)
static const size_t texts[] = {AT(host),         AT(port),    AT(client_id), AT(user),
                               AT(password),     AT(ca_file), AT(cert_file), AT(key_file),
                               AT(key_password), AT(alpn)};
enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

static void put_text(struct buf *out, const char *text)
{
    const uint32_t n = text ? (uint32_t)strlen(text) : NO_TEXT;

    buf_add(out, &n, sizeof(n));
    buf_add_slice(out, slice_of(text));
}

static char *get_text(struct reader *r)
{
    uint32_t n;

    get(r, &n, sizeof(n));
    if (n == NO_TEXT)
        return NULL;
    const struct slice s = reader_take(r, n);
    return s.p ? mem_strndup(s.p, s.n) : NULL;
}

void frame_put_setup(struct buf *out, const struct mqtt_setup *setup)
{
    const struct mqtt_peer *peer = &setup->peer;
    const struct setup_numbers numbers = {.message_max = setup->message_max,
                                          .session_expiry_s = setup->session_expiry_s,
                                          .receive_max = setup->receive_max,
                                          .keepalive_s = peer->keepalive_s,
                                          .filters = (uint32_t)setup->filters.n,
                                          .qos = (uint8_t)setup->qos,
                                          .retained = setup->retained,
                                          .tls = peer->tls,
                                          .v5 = peer->v5};
    const size_t at = begin(out, FRAME_SETUP);

    buf_add(out, &numbers, sizeof(numbers));
    for (size_t i = 0; i < TEXTS; i++)
        put_text(out, *(char *const *)((const char *)peer + texts[i]));
    for (size_t i = 0; i < setup->filters.n; i++)
        put_text(out, setup->filters.v[i]);
    end(out, at);
}

static void get_filters(struct reader *r, size_t n, struct opt_list *filters)
{
    r->bad = r->bad || n == 0 || n > FILTERS_MAX;
    if (r->bad)
        return;
    filters->v = mem_alloc(n * sizeof(*filters->v));
    for (; filters->n < n && !r->bad; filters->n++) {
        filters->v[filters->n] = get_text(r);
        r->bad = r->bad || filters->v[filters->n] == NULL;
    }
}

int frame_get_setup(struct slice body, struct mqtt_setup *setup, struct err *err)
{
    struct reader r = read_from(body);
    struct setup_numbers numbers;

    get(&r, &numbers, sizeof(numbers));
    *setup = (struct mqtt_setup){.peer = {.keepalive_s = numbers.keepalive_s,
                                          .tls = numbers.tls,
                                          .v5 = numbers.v5},
                                 .message_max = numbers.message_max,
                                 .session_expiry_s = numbers.session_expiry_s,
                                 .receive_max = numbers.receive_max,
                                 .qos = numbers.qos,
                                 .retained = numbers.retained};
    for (size_t i = 0; i < TEXTS; i++)
        *(char **)((char *)&setup->peer + texts[i]) = get_text(&r);
    get_filters(&r, numbers.filters, &setup->filters);
    if (!setup->peer.host || !setup->peer.port || !setup->peer.client_id)
        r.bad = true;
    if (finish(&r, err) == 0)
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

/* -------------------------------------------------------------------- MESSAGE */

/* The body begins with this; topic, properties and payload follow. */
struct message_head {
    uint64_t whole_bytes;
    int64_t expiry_s;
    uint32_t topic_bytes, props_bytes;
    uint16_t msgid;
    uint8_t dup, retained;
    uint32_t padding;
};

void frame_put_message(struct buf *out, const struct mqtt_message *m,
                       uint64_t message_max)
{
    const uint64_t whole = m->topic.n + m->props.n + m->payload.n;
    const bool cut = whole > message_max;
    const struct slice props = cut ? (struct slice){NULL, 0} : m->props;
    struct slice payload = m->payload;

    if (cut && payload.n > FRAME_CUT_BYTES)
        payload.n = FRAME_CUT_BYTES;
    const struct message_head head = {.whole_bytes = cut ? whole : 0,
                                      .expiry_s = m->expiry_s,
                                      .topic_bytes = (uint32_t)m->topic.n,
                                      .props_bytes = (uint32_t)props.n,
                                      .msgid = (uint16_t)m->msgid,
                                      .dup = m->dup,
                                      .retained = m->retained};
    buf_room(out, sizeof(head) + 8 + m->topic.n + props.n + payload.n);
    const size_t at = begin(out, FRAME_MESSAGE);
    buf_add(out, &head, sizeof(head));
    buf_add_slice(out, m->topic);
    buf_add_slice(out, props);
    buf_add_slice(out, payload);
    end(out, at);
}

int frame_get_message(struct slice body, struct mqtt_message *m, struct err *err)
{
    struct reader r = read_from(body);
    struct message_head head;

    get(&r, &head, sizeof(head));
    *m = (struct mqtt_message){.dup = head.dup,
                               .retained = head.retained,
                               .msgid = head.msgid,
                               .whole_bytes = head.whole_bytes,
                               .expiry_s = head.expiry_s};
    m->topic = reader_take(&r, head.topic_bytes);
    m->props = reader_take(&r, head.props_bytes);
    m->payload = reader_take(&r, r.n);
    r.bad = r.bad || m->expiry_s > UINT32_MAX;
    return finish(&r, err);
}

size_t frame_message_max(uint64_t message_max)
{
    return (size_t)message_max + TOPIC_MAX + FRAME_CUT_BYTES +
           sizeof(struct message_head) + 1;
}
