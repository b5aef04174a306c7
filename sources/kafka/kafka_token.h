/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_token.h - tokens for SASL OAUTHBEARER, from a file or from a token server by
 * client credentials (RFC 6749, 4.4).
 *
 * librdkafka can only query a token server itself if it was built with libcurl; Debian's
 * is not. No error text contains a token or a secret.
 */
#ifndef SOURCES_KAFKA_KAFKA_TOKEN_H
#define SOURCES_KAFKA_KAFKA_TOKEN_H

#include "sources/kafka/kafka_conf.h"

/* Where to get a token. Contains copies, since a thread may outlive the options. */
struct kafka_token_request {
    char *file;                            /* NULL: use the server */
    char *url, *client, *secret, *ca_file; /* ca_file NULL: the system's authorities */
    char *form;                            /* the request's body */
};
void kafka_token_request_init(struct kafka_token_request *req,
                              const struct kafka_link *link);
void kafka_token_request_free(struct kafka_token_request *req); /* wipes the secret */

struct kafka_token {
    char *value;
    int64_t expires_ms; /* expiry, ms since 1970; guessed if neither the token nor the
                         * server contains it */
};
/* Gets a token; free it with kafka_token_free(). Any thread. Blocks, for about 15 s at
 * most. */
int kafka_token_get(const struct kafka_token_request *req, struct kafka_token *token,
                    struct err *err);
void kafka_token_free(struct kafka_token *token); /* wipes it */

/* Gets a token and passes it to librdkafka, if link uses tokens. Blocks. */
int kafka_token_log_in(rd_kafka_t *rk, const struct kafka_link *link, struct err *err);

/* Gets tokens in a thread, so that no file system or token server blocks the loop. Call
 * on the loop thread. */
struct kafka_login;

/* Borrows rk until kafka_login_free(). NULL: link uses no tokens. */
struct kafka_login *kafka_login_new(const struct kafka_link *link, rd_kafka_t *rk);
/* Passes a token, or the reason for its absence, to librdkafka. On failure librdkafka
 * emits an error event and asks again after 10 s. login may be NULL. */
void kafka_login_refresh(struct kafka_login *login);
void kafka_login_free(struct kafka_login *login); /* login may be NULL */

#endif
