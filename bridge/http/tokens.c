/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tokens.c - authentication of HTTP clients by tokens: { } of the configuration.
 *
 * Only the SHA-256 of a token is stored. Hashes are compared in constant time, so that
 * neither memory nor timing reveals a token.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "bridge/http/httpd_internal.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { HASH_BYTES = 32 };

struct token {
    char *name;
    char *certificate; /* NULL: the entry has a hash */
    unsigned char hash[HASH_BYTES];
    unsigned roles; /* roles of rows that it may use: 1 << role each */
};

struct tokens {
    EVP_MD_CTX *ready; /* a prepared digest: fetching it takes longer than using it */
    EVP_MD_CTX *work;
    size_t n;
    struct token v[];
};

/* Returns the row roles that a token's role includes. */
static unsigned rows_of(enum httpd_role role)
{
    if (role == HTTPD_ADMIN)
        return ~0U;
    return 1U << role |
           (role == HTTPD_PRODUCE || role == HTTPD_CONSUME ? 1U << HTTPD_EITHER : 0);
}

static unsigned opened_by(unsigned roles)
{
    unsigned rows = 0;
    for (int role = 0; role < HTTPD_ROLES; role++)
        if (roles & 1U << role)
            rows |= rows_of((enum httpd_role)role);
    return rows;
}

static void make_hash(const struct tokens *tokens, struct slice text,
                      unsigned char hash[HASH_BYTES])
{
    must(EVP_MD_CTX_copy_ex(tokens->work, tokens->ready) == 1);
    must(EVP_DigestUpdate(tokens->work, text.p, text.n) == 1);
    must(EVP_DigestFinal_ex(tokens->work, hash, NULL) == 1);
}

struct tokens *tokens_new(const struct conf *conf)
{
    struct err err;
    if (conf->token_count == 0)
        return NULL;
    struct tokens *tokens =
        mem_alloc(sizeof(*tokens) + conf->token_count * sizeof(tokens->v[0]));
    tokens->ready = EVP_MD_CTX_new();
    tokens->work = EVP_MD_CTX_new();
    must(tokens->ready && tokens->work);
    must(EVP_DigestInit_ex(tokens->ready, EVP_sha256(), NULL) == 1);
    for (; tokens->n < conf->token_count; tokens->n++) {
        const struct conf_token *c = conf->tokens[tokens->n];
        struct token *token = &tokens->v[tokens->n];
        token->name = mem_strdup(c->name);
        must(tokens_roles(&c->roles, &token->roles, &err) == 0); /* already checked */
        token->roles = opened_by(token->roles);
        if (c->certificate)
            token->certificate = mem_strdup(c->certificate);
        else
            make_hash(tokens, slice_of(c->token), token->hash);
    }
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    if (tokens == NULL)
        return;
    for (size_t i = 0; i < tokens->n; i++) {
        free(tokens->v[i].name);
        free(tokens->v[i].certificate);
    }
    EVP_MD_CTX_free(tokens->ready);
    EVP_MD_CTX_free(tokens->work);
    free(tokens);
}

const struct token *tokens_find(const struct tokens *tokens, struct slice token)
{
    unsigned char hash[HASH_BYTES];
    const struct token *found = NULL;
    if (token.n == 0 || token.n > TOKEN_BYTES_MAX)
        return NULL;
    make_hash(tokens, token, hash);
    for (size_t i = 0; i < tokens->n; i++) { /* no early exit: constant time */
        const struct token *t = &tokens->v[i];
        if (t->certificate == NULL && CRYPTO_memcmp(t->hash, hash, HASH_BYTES) == 0)
            found = t;
    }
    return found;
}

const struct token *tokens_find_certificate(const struct tokens *tokens,
                                            struct slice names)
{
    for (size_t i = 0; i < tokens->n; i++) {
        const struct token *t = &tokens->v[i];
        for (size_t at = 0; t->certificate && at < names.n;
             at += strlen(names.p + at) + 1)
            if (strcmp(names.p + at, t->certificate) == 0)
                return t;
    }
    return NULL;
}

const char *token_name(const struct token *token)
{
    return token->name;
}

unsigned token_roles(const struct token *token)
{
    return token->roles;
}
