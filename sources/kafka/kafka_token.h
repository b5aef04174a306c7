/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_token.h - tokens for SASL OAUTHBEARER: from a file, or from a token server by
 * client credentials (RFC 6749, 4.4).
 *
 * librdkafka's own way to a token server needs a libcurl that Debian builds it without.
 * No error text repeats a token or a secret.
 */
#ifndef SOURCES_KAFKA_KAFKA_TOKEN_H
#define SOURCES_KAFKA_KAFKA_TOKEN_H

#include "sources/kafka/kafka_conf.h"

#include <librdkafka/rdkafka.h>

/* Where to get it, in copies, so that a thread may outlive the options. */
struct kafka_token_ask {
    char *file;                            /* NULL: from the server */
    char *url, *client, *secret, *ca_file; /* ca_file NULL: the system's authorities */
    char *form;                            /* the request's body */
};
void kafka_token_ask_init(struct kafka_token_ask *ask, const struct kafka_link *link);
void kafka_token_ask_free(struct kafka_token_ask *ask); /* wipes the secret */

struct kafka_token {
    char *value;
    int64_t ends_ms; /* wall clock; a guess where nobody says */
};
/* Blocks, for some 15 s at most; any thread. Gives the token, freed by
 * kafka_token_free(). */
int kafka_token_get(const struct kafka_token_ask *ask, struct kafka_token *token,
                    struct err *err);
void kafka_token_free(struct kafka_token *token); /* wipes it */

/* Hands it to librdkafka, which asks for the next one after four fifths of its time. */
int kafka_token_set(rd_kafka_t *rk, const struct kafka_token *token, struct err *err);

#endif
