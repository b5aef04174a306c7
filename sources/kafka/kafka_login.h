/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_login.h - gets tokens for a client of librdkafka, which asks for them, in a
 * thread of its own: neither a file system nor a token server holds the loop up. Loop
 * thread.
 */
#ifndef SOURCES_KAFKA_KAFKA_LOGIN_H
#define SOURCES_KAFKA_KAFKA_LOGIN_H

#include "sources/kafka/kafka_conf.h"

#include <librdkafka/rdkafka.h>

struct kafka_login;

/* rk is borrowed until kafka_login_free(). NULL: link wants no tokens. */
struct kafka_login *kafka_login_new(const struct kafka_link *link, rd_kafka_t *rk);
/* librdkafka wants a token: it gets one, or the reason why there is none, which it tells
 * in an error event; ten seconds later it asks again. NULL is fine. */
void kafka_login_refresh(struct kafka_login *login);
void kafka_login_free(struct kafka_login *login); /* NULL is fine */

#endif
