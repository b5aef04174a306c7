/* SPDX-License-Identifier: BSD-2-Clause */
/* amqp_login.c - connection.start-ok: what tarry is, what it can do, and the login. */
#include "sources/amqp/amqp_link.h"

#include <stdlib.h>

static amqp_table_entry_t text_entry(const char *name, const char *value)
{
    return (amqp_table_entry_t){
        .key = amqp_bytes_of(slice_of(name)),
        .value = {.kind = AMQP_FIELD_KIND_UTF8,
                  .value = {.bytes = amqp_bytes_of(slice_of(value))}}};
}

static struct slice sasl_plain(const struct amqp_peer *peer, struct buf *out)
{
    buf_add(out, "", 1);
    buf_add_str(out, peer->user);
    buf_add(out, "", 1);
    buf_add_str(out, peer->password);
    return buf_slice(out);
}

void amqp_link_login(const struct amqp_peer *peer, amqp_send_cb *send, void *arg)
{
    static const char *const names[] = {"authentication_failure_close", "basic.nack",
                                        "connection.blocked", "consumer_cancel_notify",
                                        "publisher_confirms"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    amqp_table_entry_t able[NAMES], about[4];
    struct buf secret = {0};
    char *name = mem_format("tarry: %s", peer->name);

    for (unsigned i = 0; i < NAMES; i++)
        able[i] = (amqp_table_entry_t){
            .key = amqp_bytes_of(slice_of(names[i])),
            .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value = {.boolean = 1}}};
    about[0] = text_entry("product", "tarry");
    about[1] = text_entry("platform", "C");
    about[2] = text_entry("connection_name", name);
    about[3] = (amqp_table_entry_t){
        .key = amqp_bytes_of(SLICE_LIT("capabilities")),
        .value = {.kind = AMQP_FIELD_KIND_TABLE,
                  .value = {.table = {.num_entries = NAMES, .entries = able}}}};
    const bool plain = peer->user != NULL;
    amqp_connection_start_ok_t ok = {
        .client_properties = {.num_entries = 4, .entries = about},
        .mechanism = amqp_bytes_of(plain ? SLICE_LIT("PLAIN") : SLICE_LIT("EXTERNAL")),
        .response = amqp_bytes_of(plain ? sasl_plain(peer, &secret) : SLICE_LIT("")),
        .locale = amqp_bytes_of(SLICE_LIT("en_US"))};
    send(arg, AMQP_CONNECTION_START_OK_METHOD, &ok);
    if (secret.p)
        explicit_bzero(secret.p, secret.n);
    buf_free(&secret);
    free(name);
}
