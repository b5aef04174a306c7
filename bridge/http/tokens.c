/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/tokens.h"
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { HASH_BYTES = 32, TOKEN_MIN = 16, TOKEN_MAX = 1024 };

struct token {
    char *name;
    char *certificate; /* NULL: it has a hash */
    unsigned char hash[HASH_BYTES];
    unsigned roles; /* of the rows that it opens: 1 << role */
};

struct tokens {
    EVP_MD_CTX *ready; /* a digest that was looked up: that takes longer than to use it */
    EVP_MD_CTX *work;
    size_t n;
    struct token v[];
};

static const struct {
    const char *name;
    enum httpd_role role;
    unsigned opens; /* 1 << role of a row */
} role_names[] = {{"produce", HTTPD_PRODUCE, 1 << HTTPD_PRODUCE | 1 << HTTPD_EITHER},
                  {"consume", HTTPD_CONSUME, 1 << HTTPD_CONSUME | 1 << HTTPD_EITHER},
                  {"metrics", HTTPD_METRICS, 1 << HTTPD_METRICS},
                  {"admin", HTTPD_ADMIN, ~0U}};
enum { ROLE_NAMES = sizeof(role_names) / sizeof(role_names[0]) };

int tokens_roles(const struct opt_list *names, unsigned *roles, struct err *err)
{
    *roles = 0;
    for (size_t i = 0; i < names->n; i++) {
        unsigned bit = 0;
        for (size_t k = 0; k < ROLE_NAMES; k++)
            if (strcmp(role_names[k].name, names->v[i]) == 0)
                bit = 1U << role_names[k].role;
        if (bit == 0)
            return err_set(
                err,
                "there is no role \"%.60s\"; known: produce, consume, metrics, "
                "admin (which includes all others)",
                names->v[i]);
        *roles |= bit;
    }
    return 0;
}

static unsigned opened_by(unsigned roles)
{
    unsigned rows = 0;
    for (size_t k = 0; k < ROLE_NAMES; k++)
        if (roles & 1U << role_names[k].role)
            rows |= role_names[k].opens;
    return rows;
}

int tokens_check(const char *token, struct err *err)
{
    size_t n = strlen(token);
    for (size_t i = 0; i < n; i++)
        if (token[i] <= ' ' || token[i] > '~')
            return err_set(err, "must be visible ASCII without blanks, such as "
                                "`openssl rand -hex 32` makes");
    if (n < TOKEN_MIN || n > TOKEN_MAX)
        return err_set(err,
                       "must have %d to %d characters; `openssl rand -hex 32` makes one",
                       TOKEN_MIN, TOKEN_MAX);
    return 0;
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
        must(tokens_roles(&c->roles, &token->roles, &err) == 0); /* it was checked */
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
    if (token.n == 0 || token.n > TOKEN_MAX)
        return NULL;
    make_hash(tokens, token, hash);
    for (size_t i = 0; i < tokens->n; i++) { /* to the end, so that time tells nothing */
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

bool token_may(const struct token *token, enum httpd_role role)
{
    return (token->roles & 1U << role) != 0;
}
