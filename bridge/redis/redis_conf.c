/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_conf.c - copies of what a connection needs to know. Pure.
 */
#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"

#include <stdlib.h>

static char *copy(const char *s)
{
    return s ? mem_strdup(s) : NULL;
}

void redis_conf_copy(const struct redis_conf *from, struct redis_conf *to)
{
    *to = *from;
    redis_url_copy(&from->url, &to->url);
    to->ca_file = copy(from->ca_file);
    to->cert_file = copy(from->cert_file);
    to->key_file = copy(from->key_file);
    to->client_name = copy(from->client_name);
}

void redis_conf_free(struct redis_conf *conf)
{
    redis_url_free(&conf->url);
    free((char *)conf->ca_file);
    free((char *)conf->cert_file);
    free((char *)conf->key_file);
    free((char *)conf->client_name);
    *conf = (struct redis_conf){0};
}
