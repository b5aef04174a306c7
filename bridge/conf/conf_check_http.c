/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check_http.c - checks listeners: conflicting options, access by tokens, exposure
 * to strangers.
 */
#include "bridge/conf/conf_internal.h"
#include "bridge/conf/listen.h"

#include <stdio.h>
#include <string.h>

struct listener {
    const char *section;
    const struct httpd_opts *opts;
};

/* elsewhere: the listener has no address of its own. */
static void check_opts(const struct check *c, const struct listener *l, bool elsewhere)
{
    static int (*const checks[])(const struct httpd_opts *, struct err *) = {
        httpd_check_address, httpd_check_hosts, httpd_check_tls};
    struct err err;
    char key[32];

    for (size_t i = elsewhere ? 1 : 0; i < 3; i++) {
        if (checks[i](l->opts, &err) == 0)
            continue;
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(err.text, ": "), err.text);
        conf_error_at(c->errors,
                      conf_check_place(c, (struct conf_place){l->section, key, NULL}),
                      "%s.%s", l->section, err.text);
    }
}

static void warn_of_strangers(const struct check *c, const struct listener *l)
{
    const struct httpd_secrets tokens = {c->conf->token_count > 0, "tokens",
                                         "tokens: { }"};
    struct buf line = {0};
    char prefix[16];
    snprintf(prefix, sizeof(prefix), "%s.", l->section);
    httpd_warn_insecure(l->opts, prefix, &tokens, &line);
    if (line.n > 0)
        conf_warn_at(c->errors,
                     conf_check_place(c, (struct conf_place){l->section, "listen", NULL}),
                     "%.*s", (int)line.n - 1, line.p);
    buf_free(&line);
}

static struct conf_place key_of(const struct conf_token *token, const char *key)
{
    return (struct conf_place){"tokens", token->name, key};
}

static void check_twins(const struct check *c, const struct conf_token *token)
{
    for (size_t i = 0; c->conf->tokens[i] != token; i++) {
        const struct conf_token *other = c->conf->tokens[i];
        if (token->token && other->token && strcmp(token->token, other->token) == 0)
            conf_error_at(
                c->errors, conf_check_place(c, key_of(token, "token")),
                "tokens.%s has the same token as tokens.%s; use different tokens",
                token->name, other->name);
        if (token->certificate && other->certificate &&
            strcmp(token->certificate, other->certificate) == 0)
            conf_error_at(c->errors, conf_check_place(c, key_of(token, "certificate")),
                          "tokens.%s names the same certificate as tokens.%s; merge "
                          "their roles into one entry",
                          token->name, other->name);
    }
}

static void check_token(const struct check *c, const struct conf_token *token)
{
    struct err err;
    unsigned set;
    if ((token->token == NULL) == (token->certificate == NULL))
        conf_check_error(c, key_of(token, NULL), " requires either token or certificate");
    if (token->token && tokens_check(token->token, &err) < 0)
        conf_check_error(c, key_of(token, "token"), " %s", err.text);
    if (token->certificate && !c->conf->http.tls_client_ca &&
        !c->conf->admin.tls_client_ca)
        conf_check_error(
            c, key_of(token, "certificate"),
            ": no listener requests client certificates; set http.tls_client_ca "
            "or admin.tls_client_ca");
    if (tokens_roles(&token->roles, &set, &err) < 0)
        conf_check_error(c, key_of(token, "roles"), ": %s", err.text);
    check_twins(c, token);
}

void conf_check_http(const struct check *c)
{
    const struct conf *conf = c->conf;
    const struct listener listeners[] = {{"http", &conf->http}, {"admin", &conf->admin}};
    for (size_t i = 0; i < 2; i++) {
        const struct listener *l = &listeners[i];
        bool elsewhere = strcmp(l->opts->listen, CONF_ADMIN_ON_HTTP) == 0;
        check_opts(c, l, elsewhere);
        if (*l->opts->listen != '\0' && !elsewhere)
            warn_of_strangers(c, l);
    }
    if (strcmp(conf->admin.listen, CONF_ADMIN_ON_HTTP) == 0 && *conf->http.listen == '\0')
        conf_check_error(
            c, (struct conf_place){"admin", "listen", NULL},
            " is \"http\", but http.listen is empty; set an address in one of them");
    if (*conf->http.listen != '\0' && strcmp(conf->admin.listen, conf->http.listen) == 0)
        conf_check_error(
            c, (struct conf_place){"admin", "listen", NULL},
            " and http.listen are the same address; to use one listener for both, "
            "write admin.listen = \"http\"");
    for (size_t i = 0; i < conf->token_count; i++)
        check_token(c, conf->tokens[i]);
}
