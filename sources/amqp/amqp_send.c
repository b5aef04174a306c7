/* SPDX-License-Identifier: BSD-2-Clause */
/* amqp_send.c - sends frames. The stream collects them and sends them at the end of the
 * turn. */
#include "sources/amqp/amqp_link_internal.h"

enum {
    METHOD_BYTES = 16384, /* room for an encoded method */
    HEADER_BYTES = 12     /* of a header frame: class, weight, length of the body */
};

static void send_frame(struct amqp_link *l, enum amqp_frame_type type, unsigned channel,
                       struct slice payload)
{
    char head[7];
    static const char end = (char)0xce;

    head[0] = (char)type;
    head[1] = (char)(channel >> 8);
    head[2] = (char)channel;
    for (unsigned i = 0; i < 4; i++)
        head[3 + i] = (char)(payload.n >> 8 * (3 - i));
    net_write(l->net, head, sizeof(head));
    if (payload.n > 0)
        net_write(l->net, payload.p, payload.n);
    net_write(l->net, &end, 1);
    l->sent = true;
}

void amqp_link_put(struct amqp_link *l, unsigned channel, amqp_method_number_t id,
                   void *method)
{
    static char room[METHOD_BYTES]; /* static is safe: one thread */

    for (unsigned i = 0; i < 4; i++)
        room[i] = (char)(id >> 8 * (3 - i));
    const int n = amqp_encode_method(
        id, method, (amqp_bytes_t){.len = sizeof(room) - 4, .bytes = room + 4});
    must(n >= 0); /* our options limit the length of every text */
    send_frame(l, AMQP_METHOD, channel, (struct slice){room, (size_t)n + 4});
}

void amqp_link_send(struct amqp_link *l, unsigned channel, amqp_method_number_t id,
                    void *method)
{
    if (l->state == OPEN)
        amqp_link_put(l, channel, id, method);
}

bool amqp_link_fits(const struct amqp_link *l, struct slice props)
{
    return props.n <= l->frame_max - AMQP_FRAME_EXTRA_BYTES - HEADER_BYTES;
}

void amqp_link_send_content(struct amqp_link *l, unsigned channel, struct slice props,
                            struct slice body)
{
    static char head[AMQP_FRAME_MAX_BYTES] = {0, AMQP_BASIC_CLASS};

    if (l->state != OPEN)
        return;
    must(amqp_link_fits(l, props));
    for (unsigned i = 0; i < 8; i++)
        head[4 + i] = (char)((uint64_t)body.n >> 8 * (7 - i));
    slice_put(head + HEADER_BYTES, props);
    send_frame(l, AMQP_HEADER, channel, (struct slice){head, HEADER_BYTES + props.n});
    while (body.n > 0) {
        const size_t most = l->frame_max - AMQP_FRAME_EXTRA_BYTES;
        const size_t n = body.n < most ? body.n : most;
        send_frame(l, AMQP_BODY, channel, (struct slice){body.p, n});
        body = (struct slice){body.p + n, body.n - n};
    }
}

void amqp_link_open_channel(struct amqp_link *l, unsigned channel)
{
    amqp_channel_open_t open = {.out_of_band = amqp_empty_bytes};

    must(channel > 0 && channel <= AMQP_CHANNELS_MAX);
    if (l->state != OPEN)
        return;
    if (l->channels[channel] == NULL)
        l->channels[channel] = mem_alloc(sizeof(struct amqp_channel));
    amqp_link_put(l, channel, AMQP_CHANNEL_OPEN_METHOD, &open);
}

void amqp_link_close_channel(struct amqp_link *l, unsigned channel)
{
    amqp_channel_close_t close = {.reply_code = AMQP_REPLY_SUCCESS,
                                  .reply_text = amqp_empty_bytes};

    if (l->state != OPEN || l->channels[channel] == NULL)
        return;
    amqp_content_drop(&l->channels[channel]->content);
    l->channels[channel]->closing = true;
    amqp_link_put(l, channel, AMQP_CHANNEL_CLOSE_METHOD, &close);
}

void amqp_link_put_close_ok(struct amqp_link *l, unsigned channel)
{
    amqp_channel_close_ok_t ok = {0};

    amqp_link_put(
        l, channel,
        channel ? AMQP_CHANNEL_CLOSE_OK_METHOD : AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
}

void amqp_link_put_beat(struct amqp_link *l)
{
    send_frame(l, AMQP_BEAT, 0, SLICE_LIT(""));
}
