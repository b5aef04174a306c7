/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_content.h - assembles a message of the broker from its frames; reasons of
 * failures. Pure.
 */
#ifndef SOURCES_AMQP_AMQP_CONTENT_H
#define SOURCES_AMQP_AMQP_CONTENT_H

#include "sources/amqp/amqp_props.h"

/* The name since librabbitmq 0.12, which warns of the old one. */
#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#endif
#include <sys/queue.h>

/* A message from the broker: delivered, or returned as not routable. One block of memory;
 * free with free(). */
struct amqp_message {
    unsigned channel;
    uint64_t tag;      /* delivered */
    unsigned code;     /* returned: the reply code; else 0 */
    struct slice text; /* returned: the reply text */
    struct slice exchange, key;
    struct slice props;   /* encoded */
    struct slice body;    /* its start, if it is too long */
    uint64_t whole_bytes; /* of the body */

    /* Used by the owner. */
    void *owner;
    enum { AMQP_WAITS, AMQP_OPEN, AMQP_STORED } state;
    bool forgotten;
    TAILQ_ENTRY(amqp_message) link;
};
TAILQ_HEAD(amqp_messages, amqp_message);

/* A message that arrives. A zeroed struct is valid. */
struct amqp_content {
    struct buf names;          /* of the method: text, exchange, key */
    struct amqp_message head;  /* its slices have lengths only */
    bool has_head;             /* the header frame must follow */
    struct amqp_message *m;    /* NULL: none. body.n bytes have arrived */
    uint64_t rest_bytes, room; /* of the body: not yet arrived; kept at most */
};
enum { AMQP_BODY_KEPT = 4096 };

/* method: basic.deliver or basic.return. -1: the message before it is incomplete. */
int amqp_content_begin(struct amqp_content *c, unsigned channel, amqp_method_number_t id,
                       const void *method);
/* The payloads of a header frame and a body frame. -1: invalid. body_max: a longer body
 * is cut to AMQP_BODY_KEPT bytes. */
int amqp_content_header(struct amqp_content *c, struct slice payload, uint64_t body_max);
int amqp_content_body(struct amqp_content *c, struct slice payload);
/* Returns the message, owned by the caller, once it is complete; else NULL. */
struct amqp_message *amqp_content_take(struct amqp_content *c);
void amqp_content_drop(struct amqp_content *c); /* frees all; valid afterwards */

/* -------------------------------------------------------------------- reasons */

enum { AMQP_WHY_MAX = 400 };
amqp_bytes_t amqp_bytes_of(struct slice s); /* borrows */
/* Returns advice for an error text, or "". */
const char *amqp_hint(const char *text);
/* Writes "NOT_FOUND - no queue 'q' in vhost '/' (404); what to do". */
void amqp_close_why(char out[AMQP_WHY_MAX], unsigned code, amqp_bytes_t text);

#endif
