/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_login.h"

#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "sources/kafka/kafka_token.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

/* One question. Two sides, the login and its thread, each of which may be the last. */
struct fetch {
    pthread_mutex_t lock;
    struct kafka_login *login; /* loop thread only */
    bool abandoned;            /* under lock: nobody waits any longer */
    struct kafka_token_ask ask;
    struct kafka_token token; /* value NULL: there is none, and err says why */
    struct err err;
};

struct kafka_login {
    rd_kafka_t *rk;
    const struct kafka_link *link;
    struct fetch *fetch; /* under way; NULL: none */
};

struct kafka_login *kafka_login_new(const struct kafka_link *link, rd_kafka_t *rk)
{
    if (link->sasl != KAFKA_SASL_TOKEN)
        return NULL;
    struct kafka_login *login = mem_alloc(sizeof(*login));
    login->rk = rk;
    login->link = link;
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); /* before its first thread */
    return login;
}

static void fetch_free(struct fetch *f)
{
    kafka_token_ask_free(&f->ask);
    kafka_token_free(&f->token);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void on_fetched(void *arg)
{
    struct fetch *f = arg;

    pthread_mutex_lock(&f->lock); /* the thread has yet to let go of it */
    const bool abandoned = f->abandoned;
    pthread_mutex_unlock(&f->lock);
    if (!abandoned) {
        rd_kafka_t *rk = f->login->rk;
        f->login->fetch = NULL;
        if (f->token.value == NULL || kafka_token_set(rk, &f->token, &f->err) < 0)
            rd_kafka_oauthbearer_set_token_failure(rk, f->err.text);
    }
    fetch_free(f);
}

static void *fetch_main(void *arg)
{
    struct fetch *f = arg;

    if (kafka_token_get(&f->ask, &f->token, &f->err) < 0)
        kafka_token_free(&f->token);
    pthread_mutex_lock(&f->lock);
    const bool abandoned = f->abandoned;
    if (!abandoned)
        loop_post(on_fetched, f); /* under lock: the loop may be gone once abandoned */
    pthread_mutex_unlock(&f->lock);
    if (abandoned)
        fetch_free(f);
    return NULL;
}

void kafka_login_refresh(struct kafka_login *login)
{
    pthread_t thread;

    if (login == NULL || login->fetch)
        return;
    struct fetch *f = mem_alloc(sizeof(*f));
    pthread_mutex_init(&f->lock, NULL);
    kafka_token_ask_init(&f->ask, login->link);
    f->login = login;
    const int rc = pthread_create(&thread, NULL, fetch_main, f);
    if (rc == 0) {
        login->fetch = f;
        pthread_detach(thread);
        return;
    }
    err_set(&f->err, "no thread to get a token by: %s", strerror(rc));
    rd_kafka_oauthbearer_set_token_failure(login->rk, f->err.text);
    fetch_free(f);
}

void kafka_login_free(struct kafka_login *login)
{
    if (login == NULL)
        return;
    if (login->fetch) {
        pthread_mutex_lock(&login->fetch->lock);
        login->fetch->abandoned = true;
        pthread_mutex_unlock(&login->fetch->lock);
    }
    free(login);
}
