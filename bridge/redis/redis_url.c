/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_url.c - parses and formats the URL of a Redis. Pure. No error text contains a
 * possible password: only the part after the last @ is shown.
 */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/redis/redis.h"

#include <ctype.h>
#include <stdlib.h>

enum { DB_MAX = 1000000, PLACES_MAX = 64 };

static const struct scheme {
    const char *prefix;
    enum redis_kind kind;
    bool tls, unix_path;
} schemes[] = {
    {"redis://", REDIS_ONE, false, false},
    {"rediss://", REDIS_ONE, true, false},
    {"unix://", REDIS_ONE, false, true},
    {"redis+sentinel://", REDIS_SENTINEL, false, false},
    {"rediss+sentinel://", REDIS_SENTINEL, true, false},
    {"redis+cluster://", REDIS_CLUSTER, false, false},
    {"rediss+cluster://", REDIS_CLUSTER, true, false},
};

static const struct scheme *scheme_of(const char *text)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncasecmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    return NULL;
}

/* "USER:PASSWORD", "USER:" or ":PASSWORD"; the user is optional. */
static int parse_credentials(struct slice text, struct redis_url *url, struct err *err)
{
    struct slice user = text_cut(&text, ':');
    if (text.p == NULL)
        return err_set(err, "the text before @ must be USER:PASSWORD or :PASSWORD");
    if (user.n > 0)
        url->user = text_percent_string(user);
    url->password = text_percent_string(text);
    if ((user.n > 0 && url->user == NULL) || url->password == NULL)
        return err_set(err, "invalid %%-escape in the user or password");
    return url->password[0] ? 0 : err_set(err, "the password is empty");
}

static int parse_db(struct slice text, struct redis_url *url, struct err *err)
{
    int64_t db = text_whole_number(text);
    if (db < 0 || db > DB_MAX)
        return err_set(err, "\"%.*s\" is not the number of a database",
                       (int)(text.n < 64 ? text.n : 64), text.p);
    url->db = (unsigned)db;
    return 0;
}

/* "/PATH[?db=N]" */
static int parse_unix(struct slice text, struct redis_url *url, struct err *err)
{
    struct slice path = text_cut(&text, '?');
    if (path.n < 2 || path.p[0] != '/')
        return err_set(
            err,
            "unix:// requires an absolute path, such as unix:///run/redis/redis.sock");
    url->unix_path = text_percent_string(path);
    if (url->unix_path == NULL)
        return err_set(err, "invalid %%-escape in the path");
    if (text.p == NULL)
        return 0;
    if (!slice_is(text_cut(&text, '='), "db") || text.p == NULL)
        return err_set(err, "only db=NUMBER is allowed after ?");
    return parse_db(text, url, err);
}

/* "%" starts the interface of an IPv6 address. */
static bool is_host(const char *text)
{
    while (isalnum((unsigned char)*text) || (*text && strchr("-._:%", *text)))
        text++;
    return *text == '\0';
}

/* "HOST[:PORT]"; an IPv6 address requires brackets. */
static int parse_place(struct slice text, const char *default_port,
                       struct redis_place *place, struct err *err)
{
    bool v6 = text.n > 0 && text.p[0] == '[';
    struct slice host = {NULL, 0};
    if (v6) {
        text = (struct slice){text.p + 1, text.n - 1};
        host = text_cut(&text, ']');
        if (text.p == NULL)
            return err_set(err, "the ] after the IPv6 address is missing");
    }
    struct slice before = text_cut(&text, ':'); /* leaves the port */
    if (!v6)
        host = before;
    if (host.n == 0)
        return err_set(err,
                       "the host is missing; write it as in redis://127.0.0.1:6379/0");
    place->host = text_percent_string(host);
    if (place->host == NULL)
        return err_set(err, "invalid %%-escape in the host");
    if (!is_host(place->host))
        return err_set(err, "a host may contain only letters, digits, \"-\", \"_\" and "
                            "\".\"; write an @ in the password as %%40");
    if (v6 && before.n > 0)
        return err_set(err, "a : must follow the ] of an IPv6 address");
    if (text.p && text_check_port(text, 1, err) < 0)
        return -1;
    place->port = text.p ? mem_strndup(text.p, text.n) : mem_strdup(default_port);
    return 0;
}

/* "HOST[:PORT],HOST[:PORT]..." */
static int parse_places(struct slice text, const char *default_port,
                        struct redis_url *url, struct err *err)
{
    do {
        if (url->place_count == PLACES_MAX)
            return err_set(err, "more than %d hosts", PLACES_MAX);
        url->places =
            mem_realloc(url->places, (url->place_count + 1) * sizeof(*url->places));
        struct redis_place *place = &url->places[url->place_count++];
        *place = (struct redis_place){NULL, NULL};
        if (parse_place(text_cut(&text, ','), default_port, place, err) < 0)
            return -1;
    } while (text.p);
    return 0;
}

/* Makes the only place the host of a single server. */
static int take_one_place(struct redis_url *url, struct err *err)
{
    if (url->place_count > 1)
        return err_set(
            err,
            "several hosts are allowed only with redis+sentinel:// or redis+cluster://");
    url->host = url->places[0].host;
    url->port = url->places[0].port;
    url->place_count = 0;
    return 0;
}

/* "HOST[:PORT][,HOST[:PORT]...][/MASTER][/DB]"; only Sentinel has a master. */
static int parse_servers(struct slice text, struct redis_url *url, struct err *err)
{
    struct slice places = {text.p, strcspn(text.p, "/?#")};
    struct slice path = {text.p + places.n, text.n - places.n};
    bool sentinel = url->kind == REDIS_SENTINEL;
    if (parse_places(places, sentinel ? "26379" : "6379", url, err) < 0)
        return -1;
    if (path.p[strcspn(path.p, "?#")] != '\0')
        return err_set(err,
                       "? and # are not allowed; write the database at the end of the "
                       "path, as in redis://127.0.0.1:6379/0");
    text_cut(&path, '/');
    if (sentinel) {
        struct slice master = text_cut(&path, '/');
        if (master.n == 0)
            return err_set(err,
                           "the name of the master is missing; write it as in "
                           "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster");
        url->master = text_percent_string(master);
        if (url->master == NULL)
            return err_set(err, "invalid %%-escape in the name of the master");
    }
    if (path.n > 0 && parse_db(path, url, err) < 0)
        return -1;
    if (url->kind == REDIS_CLUSTER && url->db > 0)
        return err_set(err, "a cluster has only database 0; remove the text after the /");
    return url->kind == REDIS_ONE ? take_one_place(url, err) : 0;
}

int redis_url_parse(const char *text, struct redis_url *url, struct err *err)
{
    *url = (struct redis_url){0};
    const struct scheme *scheme = scheme_of(text);
    if (scheme == NULL)
        return err_set(err, "redis url: must start with redis://, unix://, "
                            "redis+sentinel:// or redis+cluster://, or for TLS with "
                            "rediss://, rediss+sentinel:// or rediss+cluster://");
    text += strlen(scheme->prefix);
    url->kind = scheme->kind;
    url->tls = scheme->tls;

    /* Split at the last @. An @ in a password should be %40, but is accepted. A Unix path
     * may contain an @. */
    const char *at = scheme->unix_path && text[0] == '/' ? NULL : strrchr(text, '@');
    if (at && scheme->unix_path)
        at = strstr(text, "@/");
    struct slice rest = slice_of(at ? at + 1 : text);
    if ((at == NULL ||
         parse_credentials((struct slice){text, (size_t)(at - text)}, url, err) == 0) &&
        (scheme->unix_path ? parse_unix : parse_servers)(rest, url, err) == 0)
        return 0;
    redis_url_free(url);
    return err_in(err, "redis url");
}

void redis_url_copy(const struct redis_url *from, struct redis_url *to)
{
    *to = *from;
    to->unix_path = mem_strdup(from->unix_path);
    to->host = mem_strdup(from->host);
    to->port = mem_strdup(from->port);
    to->master = mem_strdup(from->master);
    to->user = mem_strdup(from->user);
    to->password = mem_strdup(from->password);
    to->places = mem_alloc(from->place_count * sizeof(*to->places));
    for (size_t i = 0; i < from->place_count; i++)
        to->places[i] = (struct redis_place){mem_strdup(from->places[i].host),
                                             mem_strdup(from->places[i].port)};
}

void redis_url_free(struct redis_url *url)
{
    for (size_t i = 0; i < url->place_count; i++) {
        free(url->places[i].host);
        free(url->places[i].port);
    }
    free(url->places);
    free(url->unix_path);
    free(url->host);
    free(url->port);
    free(url->master);
    free(url->user);
    text_forget(url->password);
    *url = (struct redis_url){0};
}

void redis_place_add(struct buf *out, const char *host, const char *port)
{
    bool v6 = strchr(host, ':') != NULL;
    buf_addf(out, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

/* Copy what a connection needs. */
void redis_conf_copy(const struct redis_conf *from, struct redis_conf *to)
{
    *to = *from;
    redis_url_copy(&from->url, &to->url);
    to->ca_file = mem_strdup(from->ca_file);
    to->cert_file = mem_strdup(from->cert_file);
    to->key_file = mem_strdup(from->key_file);
    to->client_name = mem_strdup(from->client_name);
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
