/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_compose.c - the properties of a message.
 *
 * A job from AMQP has its properties in job->native. A field of its headers table is sent
 * as it came if the delivery still has a header of this name and text, or if it is a
 * table or an array; otherwise the core has removed or replaced it. Only x-delay is sent
 * though removed, but negated, as RabbitMQ's plugin does it: a second delayed exchange
 * must not delay the message again.
 */
#include "bridge/base/text.h"
#include "sinks/amqp/amqp_sink.h"
#include "sources/amqp/amqp_job.h"

static const char persistent[] = {2};

static int find_prop(struct slice name)
{
    for (unsigned i = 0; i < AMQP_PROPS; i++) {
        const char *header = amqp_prop_header((enum amqp_prop)i);
        if (header && slice_is_nocase(name, header))
            return (int)i;
    }
    return -1;
}

static bool is_sent(const struct delivery *d, struct slice name, struct slice text)
{
    for (unsigned i = 0; i < d->header_count; i++)
        if (slice_eq(d->headers[i].name, name) && slice_eq(d->headers[i].value, text))
            return true;
    return false;
}

static void put_original(struct amqp_composer *c, const struct delivery *d,
                         const struct amqp_field *f)
{
    char room[AMQP_TEXT_SIZE];
    struct slice text;
    int64_t n;

    if (!amqp_field_text(f, room, &text) || is_sent(d, f->name, text)) {
        buf_add_slice(&c->table, f->raw);
    } else if (slice_is_nocase(f->name, AMQP_X_DELAY_HEADER) &&
               amqp_field_number(f, &n)) {
        if (n > 0)
            amqp_field_put_number(&c->table, f->name, -n);
        else
            buf_add_slice(&c->table, f->raw);
    }
}

/* Returns whether the table of the original has this header. */
static bool is_original(struct slice table, const struct header *h)
{
    char room[AMQP_TEXT_SIZE];
    struct amqp_field f;
    struct slice text;

    while (amqp_field_take(&table, &f))
        if (slice_eq(f.name, h->name) && amqp_field_text(&f, room, &text) &&
            slice_eq(text, h->value))
            return true;
    return false;
}

/* Puts the header into a property. false: it is no property, or does not fit. */
static bool put_prop(struct amqp_composer *c, struct amqp_props *props,
                     const struct header *h)
{
    const int found = find_prop(h->name);
    char room[AMQP_TEXT_SIZE];

    if (found < 0)
        return slice_is_nocase(h->name, AMQP_EXCHANGE_HEADER);
    const enum amqp_prop prop = (enum amqp_prop)found;
    if (props->raw[prop].p)
        return slice_eq(amqp_prop_text(props, prop, room), h->value);
    if (h->value.p == NULL || amqp_prop_put(&c->values[prop], prop, h->value) != 0)
        return false;
    props->raw[prop] = buf_slice(&c->values[prop]);
    return true;
}

static void put_rest(struct amqp_composer *c, struct amqp_props *props,
                     const struct delivery *d, const char *user)
{
    char room[AMQP_TEXT_SIZE];
    char digits[TEXT_DECIMAL_MAX];

    if (props->raw[AMQP_DELIVERY_MODE].p == NULL)
        props->raw[AMQP_DELIVERY_MODE] = (struct slice){persistent, 1};
    if (props->raw[AMQP_EXPIRATION].p == NULL && d->left_ms > 0) {
        const struct slice left = {digits, text_put_decimal(digits, d->left_ms)};
        amqp_prop_put(&c->values[AMQP_EXPIRATION], AMQP_EXPIRATION, left);
        props->raw[AMQP_EXPIRATION] = buf_slice(&c->values[AMQP_EXPIRATION]);
    }
    if (user == NULL || !slice_is(amqp_prop_text(props, AMQP_USER_ID, room), user))
        props->raw[AMQP_USER_ID] = (struct slice){NULL, 0};
}

struct slice amqp_compose(struct amqp_composer *c, const struct delivery *d,
                          const char *user, bool *dropped)
{
    struct amqp_props props = {{{NULL, 0}}};
    struct amqp_field f;

    *dropped = false;
    for (unsigned i = 0; i < AMQP_PROPS; i++)
        buf_clear(&c->values[i]);
    buf_clear(&c->table);
    buf_clear(&c->out);
    if (d->job->native.p && amqp_props_parse(d->job->native, &props, NULL) != 0)
        props = (struct amqp_props){{{NULL, 0}}}; /* of another protocol */
    const struct slice table = amqp_props_table(&props);
    for (struct slice rest = table; amqp_field_take(&rest, &f);)
        put_original(c, d, &f);
    for (unsigned i = 0; i < d->header_count; i++) {
        const struct header *h = &d->headers[i];
        if (is_original(table, h) || put_prop(c, &props, h))
            continue;
        if (h->name.n <= AMQP_NAME_MAX)
            amqp_field_put(&c->table, h->name, h->value);
        else
            *dropped = true;
    }
    put_rest(c, &props, d, user);
    struct buf *headers = &c->values[AMQP_HEADERS];
    amqp_put_number(headers, c->table.n, 4);
    buf_add_slice(headers, buf_slice(&c->table));
    props.raw[AMQP_HEADERS] = buf_slice(headers);
    amqp_props_put(&props, &c->out);
    return buf_slice(&c->out);
}

void amqp_composer_free(struct amqp_composer *c)
{
    for (unsigned i = 0; i < AMQP_PROPS; i++)
        buf_free(&c->values[i]);
    buf_free(&c->table);
    buf_free(&c->out);
}
