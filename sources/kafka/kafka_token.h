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

/* Where to get a token, in copies, so that a thread may outlive the options. */
struct kafka_token_ask {
    char *file;                            /* NULL: from the server */
    char *url, *client, *secret, *ca_file; /* ca_file NULL: the system's authorities */
    char *form;                            /* the request's body */
};
void kafka_token_ask_init(struct kafka_token_ask *ask, const struct kafka_link *link);
void kafka_token_ask_free(struct kafka_token_ask *ask); /* wipes the secret */

struct kafka_token {
    char *value;
    int64_t ends_ms; /* wall clock; guessed where neither token nor server says */
};
/* Any thread; blocks, for some 15 s at most. Gives the token, freed by
 * kafka_token_free(). */
int kafka_token_get(const struct kafka_token_ask *ask, struct kafka_token *token,
                    struct err *err);
void kafka_token_free(struct kafka_token *token); /* wipes it */

/* Gets a token and hands it to librdkafka, if link wants tokens. Blocks. */
int kafka_token_log_in(rd_kafka_t *rk, const struct kafka_link *link, struct err *err);

/* Gets tokens in a thread, so that neither a file system nor a token server blocks the
 * loop. Loop thread. */
struct kafka_login;

/* Borrows rk until kafka_login_free(). NULL: link wants no tokens. */
struct kafka_login *kafka_login_new(const struct kafka_link *link, rd_kafka_t *rk);
/* Gets librdkafka a token, or tells it the reason why there is none. It reports that as
 * an error event and asks again 10 s later. NULL is fine. */
void kafka_login_refresh(struct kafka_login *login);
void kafka_login_free(struct kafka_login *login); /* NULL is fine */

#endif
