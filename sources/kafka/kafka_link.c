/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_link.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

static int check_brokers(const char *brokers, struct err *err)
{
    for (const char *p = brokers; *p; p++)
        if (isalnum((unsigned char)*p))
            return 0;
    return err_set(err, "brokers: no broker in \"%s\"; write host:port, host:port",
                   brokers);
}

static int check_tls(const struct kafka_link *link, struct err *err)
{
    if (!link->tls && (link->ca_file || link->cert_file || link->key_file))
        return err_set(err,
                       "ca_file, cert_file and key_file need TLS: set tls = true beside");
    if (link->key_file && link->cert_file == NULL)
        return err_set(err, "key_file needs cert_file beside it");
    if (link->key_password && link->cert_file == NULL)
        return err_set(err, "key_password needs cert_file beside it");
    return 0;
}

static bool is_of(const struct kafka_link *link, enum kafka_sasl first,
                  enum kafka_sasl last)
{
    return link->sasl >= (int)first && link->sasl <= (int)last;
}

static int check_user(const struct kafka_link *link, struct err *err)
{
    const bool wanted = is_of(link, KAFKA_SASL_PLAIN, KAFKA_SASL_SCRAM_512);

    if (wanted && (link->user == NULL || link->password == NULL))
        return err_set(err, "sasl plain and scram need user and password");
    if (!wanted && (link->user || link->password))
        return err_set(err,
                       "user and password need sasl = \"plain\", \"scram-sha-256\" or "
                       "\"scram-sha-512\" beside");
    return 0;
}

/* Of a URL behind its scheme: is it this host that is named, and nothing else? */
static bool is_this_host(const char *authority)
{
    struct in_addr a;
    char host[sizeof("255.255.255.255")] = "";
    size_t n = strncmp(authority, "[::1]", 5) == 0 ? 5 : strcspn(authority, ":/?#");
    const char *end = authority + n;

    if (*end == ':')
        end += 1 + strspn(end + 1, "0123456789");
    if (n >= sizeof(host) || strchr("/?#", *end) == NULL) /* it finds the last NUL, too */
        return false;
    memcpy(host, authority, n);
    return strcmp(host, "[::1]") == 0 || strcasecmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &a) == 1 &&
            ntohl(a.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET);
}

/* Our secret goes there, which plain text shows to everybody on the way. */
static bool keeps_secrets(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0 ||
           (strncasecmp(url, "http://", 7) == 0 && is_this_host(url + 7));
}

/* Without us librdkafka has no token for it, and waits for one for ever. */
static bool passes_on_oauthbearer(const struct kafka_link *link)
{
    for (size_t i = 0; i < link->settings.n; i++) {
        const struct pair *pair = &link->settings.v[i];
        if (strncmp(pair->name, "sasl_mechanism", strlen("sasl_mechanism")) == 0 &&
            strcasestr(pair->value, "OAUTHBEARER"))
            return true;
    }
    return false;
}

static int check_token(const struct kafka_link *link, struct err *err)
{
    const bool wanted = is_of(link, KAFKA_SASL_TOKEN, KAFKA_SASL_TOKEN);
    const bool server = link->token_client || link->token_secret || link->token_ca_file ||
                        link->token_form.n > 0;

    if (passes_on_oauthbearer(link))
        return err_set(err, "kafka: for OAUTHBEARER leave sasl_mechanisms out, and set "
                            "sasl = \"oauthbearer\" with token_file or token_url beside");
    if (!wanted && (link->token_file || link->token_url || server))
        return err_set(err, "the options token_... need sasl = \"oauthbearer\" beside");
    if (wanted && (link->token_file == NULL) == (link->token_url == NULL))
        return err_set(
            err, "sasl oauthbearer needs either token_file or token_url to have its "
                 "token from");
    if (server && link->token_url == NULL)
        return err_set(err, "token_client, token_secret, token_form and token_ca_file "
                            "are for token_url");
    if (link->token_url && (!link->token_client || !link->token_secret))
        return err_set(err, "token_url needs token_client and token_secret beside it");
    if (link->token_url && !keeps_secrets(link->token_url))
        return err_set(err, "token_url must begin with https://, as token_secret goes "
                            "there; http:// is for localhost, 127.0.0.1 and [::1] only");
    return 0;
}

int kafka_link_check(const struct kafka_link *link, struct err *err)
{
    if (check_brokers(link->brokers, err) < 0 || check_tls(link, err) < 0 ||
        check_user(link, err) < 0)
        return -1;
    return check_token(link, err);
}
