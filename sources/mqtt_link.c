/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_link.c - checks the common MQTT options and makes of them what the library needs.
 */
#include "sources/mqtt_link.h"

#include "bridge/mem.h"
#include "bridge/retry.h"
#include "sources/mqtt_topic.h"
#include "sources/mqtt_url.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static int check_tls(const struct mqtt_link *link, bool tls, struct err *err)
{
    if (!tls && (link->ca_file || link->cert_file || link->key_file))
        return err_set(
            err, "ca_file, cert_file and key_file need TLS: write the url as mqtts://");
    if (link->key_file && link->cert_file == NULL)
        return err_set(err, "key_file needs cert_file beside it");
    return 0;
}

static int check_user(const struct mqtt_link *link, const struct mqtt_url *url,
                      struct err *err)
{
    const char *user = link->user ? link->user : url->user;
    const char *password = link->password ? link->password : url->password;

    if (url->user && (link->user || (link->password && url->password)))
        return err_set(
            err, "the user stands both in the url and in an option of its own; leave "
                 "one out");
    if (password && user == NULL)
        return err_set(err, "a password needs a user");
    if ((user && !mqtt_text_ok(slice_of(user))) ||
        (password && !mqtt_text_ok(slice_of(password))))
        return err_set(err, "user and password must be UTF-8 without control characters");
    return 0;
}

int mqtt_link_check(const struct mqtt_link *link, struct err *err)
{
    struct mqtt_url url;

    if (mqtt_url_parse(link->url, &url, err) != 0)
        return err_in(err, "url");
    int rc = check_tls(link, url.tls, err);
    if (rc == 0)
        rc = check_user(link, &url, err);
    mqtt_url_free(&url);
    if (rc == 0 && link->client_id &&
        (link->client_id[0] == '\0' || !mqtt_text_ok(slice_of(link->client_id))))
        rc = err_set(err,
                     "client_id must be UTF-8 without control characters, and not empty");
    return rc;
}

static char *copy(const char *s)
{
    return s ? mem_strdup(s) : NULL;
}

void mqtt_peer_init(struct mqtt_peer *peer, const struct mqtt_link *link, char *client_id)
{
    struct mqtt_url url;

    must(mqtt_url_parse(link->url, &url, NULL) == 0);
    *peer = (struct mqtt_peer){
        .uri = mqtt_url_paho(&url),
        .client_id = client_id,
        .user = copy(link->user ? link->user : url.user),
        .password = copy(link->password ? link->password : url.password),
        .ca_file = copy(link->ca_file),
        .cert_file = copy(link->cert_file),
        .key_file = copy(link->key_file),
        .v5 = link->version == 1,
        .keepalive_s = (unsigned)((link->keepalive_ms + 999) / 1000)};
    mqtt_url_free(&url);
}

void mqtt_peer_free(struct mqtt_peer *peer)
{
    if (peer->password)
        explicit_bzero(peer->password, strlen(peer->password));
    free(peer->uri);
    free(peer->client_id);
    free(peer->user);
    free(peer->password);
    free(peer->ca_file);
    free(peer->cert_file);
    free(peer->key_file);
    memset(peer, 0, sizeof(*peer));
}

int64_t mqtt_backoff_ms(unsigned failures)
{
    const struct retry_policy policy = {
        .first_ms = 500, .factor = 2.0, .max_ms = 30000, .jitter = 0.5};
    uint32_t dice = UINT32_MAX / 2;

    /* Failing is no harm: only the spread over many clients is lost. */
    if (getrandom(&dice, sizeof(dice), GRND_NONBLOCK) < 0)
        dice = UINT32_MAX / 2;
    return retry_delay_ms(&policy, failures > 0 ? failures : 1, dice / 4294967296.0);
}
