/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tokens.h - who may ask what over HTTP: tokens: { } of the configuration.
 *
 * Of a token only its SHA-256 is kept, and those are compared in constant time, so that
 * neither memory nor time tells anything of it.
 */
#ifndef BRIDGE_TOKENS_H
#define BRIDGE_TOKENS_H

#include "bridge/base/buf.h"
#include "bridge/conf/opt.h"
#include "bridge/http/httpd.h"

#include <stdbool.h>

struct conf;
struct tokens;
struct token; /* as long as its struct tokens */

/* NULL: the configuration has none, and nobody is asked for one. */
struct tokens *tokens_new(const struct conf *conf);
void tokens_free(struct tokens *tokens); /* NULL is fine */

/* Whose token that is; NULL: nobody's. */
const struct token *tokens_find(const struct tokens *tokens, struct slice token);
/* Whose certificate has one of these names, each of which ends with a NUL. */
const struct token *tokens_find_certificate(const struct tokens *tokens,
                                            struct slice names);
const char *token_name(const struct token *token);
/* Of the rows that it opens: 1 << role each. */
unsigned token_roles(const struct token *token);
bool token_may(const struct token *token, enum httpd_role role);

/* As a set: 1 << role each. -1: err names one that is none. */
int tokens_roles(const struct opt_list *names, unsigned *roles, struct err *err);
/* Can it be sent in a header, and is it hard to guess? -1: err says what to do. */
int tokens_check(const char *token, struct err *err);

#endif
