/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_link.c - checks the common MQTT options and makes of them what the library needs.
 */
#include "sources/mqtt/mqtt_link.h"

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "sources/mqtt/mqtt_topic.h"
#include "sources/mqtt/mqtt_url.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ALPN_MAX_BYTES = 255 };

static int check_tls(const struct mqtt_link *link, bool tls, struct err *err)
{
    if (!tls && (link->ca_file || link->cert_file || link->key_file || link->alpn.n > 0))
        return err_set(err, "ca_file, cert_file, key_file and alpn need TLS: write the "
                            "url as mqtts://");
    if (link->key_file && link->cert_file == NULL)
        return err_set(err, "key_file needs cert_file beside it");
    if (link->key_password && link->cert_file == NULL)
        return err_set(err, "key_password needs cert_file beside it");
    for (size_t i = 0; i < link->alpn.n; i++)
        if (*link->alpn.v[i] == '\0' || strlen(link->alpn.v[i]) > ALPN_MAX_BYTES)
            return err_set(err, "alpn: a name has 1 to %d bytes", ALPN_MAX_BYTES);
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

static char *alpn_of(const struct opt_list *names)
{
    struct buf out = {0};

    for (size_t i = 0; i < names->n; i++) {
        const unsigned char n = (unsigned char)strlen(names->v[i]);
        buf_add(&out, &n, 1);
        buf_add_str(&out, names->v[i]);
    }
    char *text = names->n > 0 ? mem_strdup(buf_str(&out)) : NULL;
    buf_free(&out);
    return text;
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
        .key_password = copy(link->key_password),
        .alpn = alpn_of(&link->alpn),
        .v5 = link->version == 1,
        .keepalive_s = (unsigned)((link->keepalive_ms + 999) / 1000)};
    mqtt_url_free(&url);
}

static void forget(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void mqtt_peer_free(struct mqtt_peer *peer)
{
    forget(peer->password);
    forget(peer->key_password);
    free(peer->uri);
    free(peer->client_id);
    free(peer->user);
    free(peer->ca_file);
    free(peer->cert_file);
    free(peer->key_file);
    free(peer->alpn);
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
