/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_url.c - the parser of broker addresses: userinfo, host, port, in that order.
 */
#include "sources/mqtt/mqtt_url.h"

#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_MAX = 253, USERINFO_MAX = 4096 };

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
    size_t digits = strspn(text, "0123456789");
    unsigned long port = digits > 0 && digits <= 5 ? strtoul(text, NULL, 10) : 0;

    bool ends = text[digits] == '\0' || strcmp(text + digits, "/") == 0;

    if (!ends || port == 0 || port > 65535)
        return err_set(err,
                       "the port must be a number from 1 to 65535 at the end of the url");
    url->port = (unsigned)port;
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
        return err_set(err, "the IPv6 address lacks its ']'");
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
    return err_set(err, "nothing may follow the host and port");
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
    /* The last '@', since people forget to encode one in a password. */
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
    if (url->password)
        explicit_bzero(url->password, strlen(url->password));
    free(url->host);
    free(url->user);
    free(url->password);
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
