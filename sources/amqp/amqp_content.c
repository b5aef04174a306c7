/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/amqp/amqp_content.h"

#include <stdio.h>
#include <stdlib.h>

/* -------------------------------------------------------------------- contents */

enum { HEADER_BYTES = 12 }; /* class, weight, length of the body */

static struct slice keep(struct buf *names, amqp_bytes_t b)
{
    buf_add(names, b.bytes, b.len);
    return (struct slice){NULL, b.len};
}

int amqp_content_begin(struct amqp_content *c, unsigned channel, amqp_method_number_t id,
                       const void *method)
{
    const amqp_basic_deliver_t *deliver = method;
    const amqp_basic_return_t *returned = method;
    const bool is_return = id == AMQP_BASIC_RETURN_METHOD;

    if (c->has_head || c->m)
        return -1;
    buf_clear(&c->names);
    c->head = (struct amqp_message){.channel = channel};
    if (is_return) {
        c->head.code = returned->reply_code;
        c->head.text = keep(&c->names, returned->reply_text);
    } else {
        c->head.tag = deliver->delivery_tag;
    }
    c->head.exchange =
        keep(&c->names, is_return ? returned->exchange : deliver->exchange);
    c->head.key =
        keep(&c->names, is_return ? returned->routing_key : deliver->routing_key);
    c->has_head = true;
    return 0;
}

/* Copies n bytes to *at, which moves on. */
static struct slice place(char **at, const char **from, size_t n)
{
    const struct slice placed = {*at, n};

    *at = slice_put(*at, (struct slice){*from, n});
    *from += n;
    return placed;
}

int amqp_content_header(struct amqp_content *c, struct slice payload, uint64_t body_max)
{
    if (!c->has_head || payload.n < HEADER_BYTES)
        return -1;
    c->has_head = false;
    c->rest_bytes = amqp_number(payload.p + 4, 8);
    c->room = c->rest_bytes <= body_max ? c->rest_bytes : AMQP_BODY_KEPT;
    const size_t props_bytes = payload.n - HEADER_BYTES;
    struct amqp_message *m =
        mem_alloc(sizeof(*m) + c->names.n + props_bytes + (size_t)c->room);
    *m = c->head;
    char *at = (char *)(m + 1);
    const char *names = c->names.n ? c->names.p : "", *props = payload.p + HEADER_BYTES;
    m->text = place(&at, &names, m->text.n);
    m->exchange = place(&at, &names, m->exchange.n);
    m->key = place(&at, &names, m->key.n);
    m->props = place(&at, &props, props_bytes);
    m->body = (struct slice){at, 0};
    m->whole_bytes = c->rest_bytes;
    c->m = m;
    return 0;
}

int amqp_content_body(struct amqp_content *c, struct slice payload)
{
    struct amqp_message *m = c->m;

    if (m == NULL || payload.n > c->rest_bytes)
        return -1;
    c->rest_bytes -= payload.n;
    const uint64_t room = c->room - m->body.n;
    const size_t n = payload.n < room ? payload.n : (size_t)room;
    char *at = (char *)(m + 1) + c->names.n + m->props.n + m->body.n;
    slice_put(at, (struct slice){payload.p, n});
    m->body.n += n;
    return 0;
}

struct amqp_message *amqp_content_take(struct amqp_content *c)
{
    struct amqp_message *m = c->m;

    if (m == NULL || c->rest_bytes > 0)
        return NULL;
    c->m = NULL;
    return m;
}

void amqp_content_drop(struct amqp_content *c)
{
    free(c->m);
    buf_free(&c->names);
    *c = (struct amqp_content){0};
}

/* -------------------------------------------------------------------- reasons */

amqp_bytes_t amqp_bytes_of(struct slice s)
{
    union {
        const char *in;
        void *out;
    } p = {.in = s.p};

    return (amqp_bytes_t){.len = s.n, .bytes = p.out};
}

const char *amqp_hint(const char *text)
{
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"ertificate verify failed",
         "; check that ca_file contains the CA of the broker's certificate, and that the "
         "certificate has not expired"},
        {"mismatch", "; check that its certificate contains the host name of the url"},
        {"server's certificate",
         "; check that ca_file contains the CA of the broker's certificate"},
        {"alert", "; check whether the broker requires a client certificate"},
        {"wrong version", "; check whether this port uses TLS: try amqp://"},
        {"not an AMQP 0-9-1 server",
         "; check host and port, and whether this port requires amqps://"},
        {"- no queue", "; create the queue, in a source also by declare = true"},
        {"- no exchange", "; create the exchange, or correct the target"},
        {"acknowledgement on channel",
         "; tarry could not store the message in time: check Redis, or raise "
         "consumer_timeout of the broker"},
        {"larger than configured max size",
         "; raise max_message_size of the broker, or send smaller messages"},
        {"inequivalent arg",
         "; the queue exists with other arguments: set declare = false, or queue_type"},
        {"user_id property", "; remove the header amqp-user-id of the message"},
        {"not found", "; create the virtual host, or correct the url"},
        {"Login was refused", "; check user and password"},
        {"ACCESS_REFUSED", "; check the permissions of the user for this virtual host"}};

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strstr(text, hints[i].word))
            return hints[i].hint;
    return "";
}

void amqp_close_why(char out[AMQP_WHY_MAX], unsigned code, amqp_bytes_t text)
{
    char said[256];

    snprintf(said, sizeof(said), "%.*s", (int)text.len, (const char *)text.bytes);
    snprintf(out, AMQP_WHY_MAX, "%s (%u)%s", said, code, amqp_hint(said));
}
