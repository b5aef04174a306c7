/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/amqp/amqp_peer.h"

#include "bridge/base/text.h"
#include "sources/amqp/amqp_content.h"

#include <stdlib.h>

enum {
    HOST_MAX = 253,
    PASSWORD_MAX = 8192 /* a token; the login must fit into a frame */
};

/* -------------------------------------------------------------------- the address */

/* host: what the url says; may be empty. */
static int check_address(const struct amqp_connection_info *info, const char *host,
                         struct err *err)
{
    const size_t n = strlen(info->host);

    if (*host == '\0' || *host == '/' || n == 0 || n > HOST_MAX ||
        strpbrk(info->host, " /@?#"))
        return err_set(err, "no usable host name; write amqp://host:port/vhost");
    if (info->port < 1)
        return err_set(err, "the port must be a number from 1 to 65535");
    if (strlen(info->vhost) > AMQP_NAME_MAX || strpbrk(info->vhost, "?#"))
        return err_set(err,
                       "the url must end after the virtual host, which has at most "
                       "%d bytes",
                       AMQP_NAME_MAX);
    return 0;
}

int amqp_url_parse(const char *url, struct amqp_peer *peer, struct err *err)
{
    char *text = mem_strdup(url); /* the parser writes into it, and info borrows it */
    struct amqp_connection_info info;

    *peer = (struct amqp_peer){0};
    const char *after = strstr(url, "://");
    const char *at = after ? strchr(after, '@') : NULL;
    int rc = amqp_parse_url(text, &info);
    if (rc != AMQP_STATUS_OK || after == NULL)
        rc = err_set(err,
                     "the url must be amqp://[user:password@]host[:port][/vhost], or "
                     "amqps://...; in user, password and vhost write %%XX for special "
                     "characters: %%40 for @, %%2f for /");
    else
        rc = check_address(&info, at ? at + 1 : after + 3, err);
    if (rc == 0) {
        *peer = (struct amqp_peer){.host = mem_strdup(info.host),
                                   .port = mem_format("%d", info.port),
                                   .vhost = mem_strdup(*info.vhost ? info.vhost : "/"),
                                   .tls = info.ssl != 0,
                                   .user = at ? mem_strdup(info.user) : NULL,
                                   .password = at ? mem_strdup(info.password) : NULL};
    }
    text_forget(text);
    return rc;
}

/* -------------------------------------------------------------------- the options */

static int check_tls(const struct amqp_opts *o, bool tls, struct err *err)
{
    if (!tls && (o->ca_file || o->cert_file || o->key_file))
        return err_set(err, "ca_file, cert_file and key_file require TLS: the url must "
                            "begin with amqps://");
    if (o->key_file && o->cert_file == NULL)
        return err_set(err, "key_file requires cert_file");
    if (o->key_password && o->cert_file == NULL)
        return err_set(err, "key_password requires cert_file");
    return 0;
}

static int check_user(const struct amqp_opts *o, const struct amqp_peer *url,
                      struct err *err)
{
    if (url->user && (o->user || o->password))
        return err_set(err, "the url and the options user and password both contain a "
                            "login: remove one of them");
    if (o->password && o->user == NULL)
        return err_set(err, "a password requires a user");
    const char *user = o->user ? o->user : url->user;
    const char *password = o->user ? o->password : url->password;
    if (user && strlen(user) > AMQP_NAME_MAX)
        return err_set(err, "user has more than %d bytes", AMQP_NAME_MAX);
    if (password && strlen(password) > PASSWORD_MAX)
        return err_set(err, "password has more than %d bytes", PASSWORD_MAX);
    return 0;
}

int amqp_opts_check(const struct amqp_opts *opts, struct err *err)
{
    struct amqp_peer url;

    if (amqp_url_parse(opts->url, &url, err) != 0)
        return err_in(err, "url");
    int rc = check_tls(opts, url.tls, err);
    if (rc == 0)
        rc = check_user(opts, &url, err);
    amqp_peer_free(&url);
    return rc;
}

static bool is_local(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

void amqp_opts_warn(const struct amqp_opts *opts, struct buf *lines)
{
    struct amqp_peer peer;

    amqp_peer_init(&peer, opts, "");
    if (!is_local(peer.host) && !peer.tls && peer.user)
        buf_addf(lines, "url: the password is sent unencrypted to %s; use amqps://\n",
                 peer.host);
    if (!is_local(peer.host) && peer.user && strcmp(peer.user, "guest") == 0)
        buf_addf(lines,
                 "url: RabbitMQ accepts the user guest only from its own host; create a "
                 "user for tarry\n");
    amqp_peer_free(&peer);
}

void amqp_peer_init(struct amqp_peer *peer, const struct amqp_opts *opts,
                    const char *name)
{
    const bool external = opts->cert_file && opts->user == NULL;

    must(amqp_url_parse(opts->url, peer, NULL) == 0);
    peer->name = mem_strdup(name);
    if (opts->user) {
        peer->user = mem_strdup(opts->user);
        peer->password = mem_strdup(opts->password ? opts->password : "");
    } else if (peer->user == NULL && !external) {
        peer->user = mem_strdup("guest");
        peer->password = mem_strdup("guest");
    }
    peer->ca_file = mem_strdup(opts->ca_file);
    peer->cert_file = mem_strdup(opts->cert_file);
    peer->key_file = mem_strdup(opts->key_file);
    peer->key_password = mem_strdup(opts->key_password);
    peer->heartbeat_s = (unsigned)((opts->heartbeat_ms + 999) / 1000);
}

void amqp_peer_free(struct amqp_peer *peer)
{
    text_forget(peer->password);
    text_forget(peer->key_password);
    free(peer->name);
    free(peer->host);
    free(peer->port);
    free(peer->vhost);
    free(peer->user);
    free(peer->ca_file);
    free(peer->cert_file);
    free(peer->key_file);
    *peer = (struct amqp_peer){0};
}
