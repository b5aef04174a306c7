/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_link.h"

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "sources/mqtt/mqtt_job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALPN_MAX_BYTES = 255, HOST_MAX = 253, USERINFO_MAX = 4096, PORT_TEXT = 12 };

/* -------------------------------------------------------------------- the address */

static const struct scheme {
    const char *prefix;
    bool tls;
    unsigned port;
} schemes[] = {{"mqtt://", false, 1883}, {"mqtts://", true, 8883}};

static const struct scheme *find_scheme(const char *text)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    return NULL;
}

static int parse_userinfo(const char *text, size_t n, struct mqtt_url *url,
                          struct err *err)
{
    const char *colon = memchr(text, ':', n);
    size_t user_len = colon ? (size_t)(colon - text) : n;

    if (user_len == 0 || n > USERINFO_MAX)
        return err_set(err, "the user name in front of '@' is empty or too long");
    url->user = text_percent_string((struct slice){text, user_len});
    if (colon)
        url->password = text_percent_string((struct slice){colon + 1, n - user_len - 1});
    if (url->user == NULL || (colon && url->password == NULL))
        return err_set(err, "a '%%' in the user name or password must be followed by two "
                            "hexadecimal digits; write '%%25' for the sign itself");
    return 0;
}

static int parse_port(const char *text, struct mqtt_url *url, struct err *err)
{
    struct slice port = {text, strcspn(text, "/")};

    if (text_check_port(port, 1, err) != 0)
        return -1;
    if (text[port.n] != '\0' && text[port.n + 1] != '\0')
        return err_set(err, "the url must end after the port");
    url->port = (unsigned)text_whole_number(port);
    return 0;
}

static bool host_ok(const char *host, size_t n, bool bracketed)
{
    if (n == 0 || n > HOST_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool fits = isalnum((unsigned char)host[i]) ||
                    strchr(bracketed ? ":.%-_" : ".-_", host[i]);
        if (host[i] == '\0' || !fits)
            return false;
    }
    return true;
}

static int parse_host(const char *text, struct mqtt_url *url, struct err *err)
{
    bool bracketed = text[0] == '[';
    const char *host = bracketed ? text + 1 : text;
    size_t n = strcspn(host, bracketed ? "]" : ":/");
    const char *rest = host + n;

    if (bracketed && *rest != ']')
        return err_set(err, "the IPv6 address has no closing ']'");
    if (!host_ok(host, n, bracketed))
        return err_set(err,
                       "no usable host name; write mqtt://host:port, and an IPv6 address "
                       "in brackets");
    url->host = mem_strndup(host, n);
    rest += bracketed ? 1 : 0;
    if (*rest == ':')
        return parse_port(rest + 1, url, err);
    if (*rest == '\0' || strcmp(rest, "/") == 0)
        return 0;
    return err_set(err, "the url must end after the host and port");
}

int mqtt_url_parse(const char *text, struct mqtt_url *url, struct err *err)
{
    const struct scheme *scheme = find_scheme(text);

    memset(url, 0, sizeof(*url));
    if (scheme == NULL)
        return err_set(err, "the url must begin with mqtt:// or mqtts://");
    text += strlen(scheme->prefix);
    url->tls = scheme->tls;
    url->port = scheme->port;
    /* Use the last '@', since passwords often contain an unencoded '@'. */
    const char *at = strrchr(text, '@');
    if (at && parse_userinfo(text, (size_t)(at - text), url, err) != 0)
        goto fail;
    if (parse_host(at ? at + 1 : text, url, err) == 0)
        return 0;
fail:
    mqtt_url_free(url);
    return -1;
}

void mqtt_url_free(struct mqtt_url *url)
{
    free(url->host);
    free(url->user);
    text_forget(url->password);
    memset(url, 0, sizeof(*url));
}

char *mqtt_url_paho(const struct mqtt_url *url)
{
    bool brackets = strchr(url->host, ':') != NULL;
    char text[HOST_MAX + 32];

    snprintf(text, sizeof(text), "%s://%s%s%s:%u", url->tls ? "ssl" : "tcp",
             brackets ? "[" : "", url->host, brackets ? "]" : "", url->port);
    return mem_strdup(text);
}

/* -------------------------------------------------------------------- the options */

static int check_tls(const struct mqtt_link *link, bool tls, struct err *err)
{
    if (!tls && (link->ca_file || link->cert_file || link->key_file || link->alpn.n > 0))
        return err_set(err, "ca_file, cert_file, key_file and alpn require TLS: the url "
                            "must begin with mqtts://");
    if (link->key_file && link->cert_file == NULL)
        return err_set(err, "key_file requires cert_file");
    if (link->key_password && link->cert_file == NULL)
        return err_set(err, "key_password requires cert_file");
    for (size_t i = 0; i < link->alpn.n; i++)
        if (*link->alpn.v[i] == '\0' || strlen(link->alpn.v[i]) > ALPN_MAX_BYTES)
            return err_set(err, "alpn: a name must have 1 to %d bytes", ALPN_MAX_BYTES);
    return 0;
}

static int check_user(const struct mqtt_link *link, const struct mqtt_url *url,
                      struct err *err)
{
    const char *user = link->user ? link->user : url->user;
    const char *password = link->password ? link->password : url->password;

    if (url->user && (link->user || (link->password && url->password)))
        return err_set(
            err,
            "the url and the option user both contain a user name: remove one of them");
    if (password && user == NULL)
        return err_set(err, "a password requires a user");
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

    char port[PORT_TEXT];

    must(mqtt_url_parse(link->url, &url, NULL) == 0 && url.host != NULL);
    snprintf(port, sizeof(port), "%u", url.port);
    *peer = (struct mqtt_peer){
        .uri = mqtt_url_paho(&url),
        .host = mem_strdup(url.host),
        .port = mem_strdup(port),
        .tls = url.tls,
        .client_id = client_id,
        .user = mem_strdup(link->user ? link->user : url.user),
        .password = mem_strdup(link->password ? link->password : url.password),
        .ca_file = mem_strdup(link->ca_file),
        .cert_file = mem_strdup(link->cert_file),
        .key_file = mem_strdup(link->key_file),
        .key_password = mem_strdup(link->key_password),
        .alpn = alpn_of(&link->alpn),
        .v5 = link->version == 1,
        .keepalive_s = (unsigned)((link->keepalive_ms + 999) / 1000)};
    mqtt_url_free(&url);
}

void mqtt_peer_free(struct mqtt_peer *peer)
{
    text_forget(peer->password);
    text_forget(peer->key_password);
    free(peer->uri);
    free(peer->host);
    free(peer->port);
    free(peer->client_id);
    free(peer->user);
    free(peer->ca_file);
    free(peer->cert_file);
    free(peer->key_file);
    free(peer->alpn);
    memset(peer, 0, sizeof(*peer));
}
