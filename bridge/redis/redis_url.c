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

typedef int rest_parser(const char *text, struct redis_url *url, struct err *err);
static rest_parser parse_tcp, parse_unix, parse_sentinel, parse_cluster;

static const struct scheme {
    const char *prefix;
    enum redis_kind kind;
    bool tls, unix_path;
    rest_parser *parse_rest; /* parses the text after the credentials */
} schemes[] = {
    {"redis://", REDIS_ONE, false, false, parse_tcp},
    {"rediss://", REDIS_ONE, true, false, parse_tcp},
    {"unix://", REDIS_ONE, false, true, parse_unix},
    {"redis+sentinel://", REDIS_SENTINEL, false, false, parse_sentinel},
    {"rediss+sentinel://", REDIS_SENTINEL, true, false, parse_sentinel},
    {"redis+cluster://", REDIS_CLUSTER, false, false, parse_cluster},
    {"rediss+cluster://", REDIS_CLUSTER, true, false, parse_cluster},
};

static const struct scheme *scheme_of(const char *text)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncasecmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    return NULL;
}

/* Returns -1 if the text is not a whole number from 0 to max. */
static int parse_number(const char *text, size_t n, unsigned max, unsigned *out)
{
    int64_t value = n <= 9 ? text_whole_number((struct slice){text, n}) : -1;
    if (value < 0 || value > max)
        return -1;
    *out = (unsigned)value;
    return 0;
}

/* "USER:PASSWORD", "USER:" or ":PASSWORD"; the user is optional. */
static int parse_credentials(const char *text, size_t n, struct redis_url *url,
                             struct err *err)
{
    const char *colon = memchr(text, ':', n);
    if (colon == NULL)
        return err_set(err, "the text before @ must be USER:PASSWORD or :PASSWORD");
    size_t user_n = (size_t)(colon - text);
    if (user_n > 0)
        url->user = text_percent_string((struct slice){text, user_n});
    url->password = text_percent_string((struct slice){colon + 1, n - user_n - 1});
    if ((user_n > 0 && url->user == NULL) || url->password == NULL)
        return err_set(err, "invalid %%-escape in the user or password");
    if (url->password[0] == '\0')
        return err_set(err, "the password is empty");
    return 0;
}

static int parse_db(const char *text, size_t n, struct redis_url *url, struct err *err)
{
    if (parse_number(text, n, DB_MAX, &url->db) != 0)
        return err_set(err, "\"%.*s\" is not the number of a database",
                       (int)(n < 64 ? n : 64), text);
    return 0;
}

/* "/PATH[?db=N]" */
static int parse_unix(const char *text, struct redis_url *url, struct err *err)
{
    size_t n = strcspn(text, "?");
    if (text[0] != '/' || n < 2)
        return err_set(
            err,
            "unix:// requires an absolute path, such as unix:///run/redis/redis.sock");
    url->unix_path = text_percent_string((struct slice){text, n});
    if (url->unix_path == NULL)
        return err_set(err, "invalid %%-escape in the path");
    if (text[n] == '\0')
        return 0;
    if (strncmp(text + n, "?db=", 4) != 0)
        return err_set(err, "only db=NUMBER is allowed after ?");
    return parse_db(text + n + 4, strlen(text + n + 4), url, err);
}

/* ":PORT" or nothing */
static int parse_port(const char *text, size_t n, const char *otherwise, char **port,
                      struct err *err)
{
    unsigned number;
    if (n == 0) {
        *port = mem_strdup(otherwise);
        return 0;
    }
    if (text[0] != ':' || parse_number(text + 1, n - 1, 65535, &number) != 0 ||
        number == 0)
        return err_set(err, "the port must be a number from 1 to 65535");
    *port = mem_strndup(text + 1, n - 1);
    return 0;
}

/* Allow "," here: another check reports it. "%" starts the interface of an IPv6
 * address. */
static bool is_host(const char *text)
{
    while (isalnum((unsigned char)*text) || (*text && strchr("-._:,%", *text)))
        text++;
    return *text == '\0';
}

/* "HOST[:PORT]"; an IPv6 address requires brackets. The caller frees host and port. */
static int parse_place(const char *text, size_t n, const char *otherwise, char **host,
                       char **port, struct err *err)
{
    const char *colon = memchr(text, ':', n);
    size_t host_n = colon ? (size_t)(colon - text) : n;
    const char *rest = text + host_n, *end = text + n;
    if (n > 0 && text[0] == '[') {
        const char *bracket = memchr(text, ']', n);
        if (bracket == NULL)
            return err_set(err, "the ] after the IPv6 address is missing");
        text++;
        host_n = (size_t)(bracket - text);
        rest = bracket + 1;
    }
    if (host_n == 0)
        return err_set(err,
                       "the host is missing; write it as in redis://127.0.0.1:6379/0");
    *host = text_percent_string((struct slice){text, host_n});
    if (*host == NULL)
        return err_set(err, "invalid %%-escape in the host");
    if (!is_host(*host))
        return err_set(err, "a host may contain only letters, digits, \"-\", \"_\" and "
                            "\".\"; write an @ in the password as %%40");
    return parse_port(rest, (size_t)(end - rest), otherwise, port, err);
}

static int refuse_query(const char *path, struct err *err)
{
    if (path[strcspn(path, "?#")] == '\0')
        return 0;
    return err_set(err, "? and # are not allowed; write the database at the end of the "
                        "path, as in redis://127.0.0.1:6379/0");
}

/* "HOST[:PORT][/DB]" */
static int parse_tcp(const char *text, struct redis_url *url, struct err *err)
{
    size_t n = strcspn(text, "/?#");
    const char *path = text + n;
    if (parse_place(text, n, "6379", &url->host, &url->port, err) != 0 ||
        refuse_query(path, err) != 0)
        return -1;
    if (memchr(url->host, ',', strlen(url->host)) != NULL)
        return err_set(
            err,
            "several hosts are allowed only with redis+sentinel:// or redis+cluster://");
    return path[0] == '\0' || path[1] == '\0'
               ? 0
               : parse_db(path + 1, strlen(path + 1), url, err);
}

/* "HOST[:PORT],HOST[:PORT]..." */
static int parse_places(const char *text, size_t n, const char *otherwise,
                        struct redis_url *url, struct err *err)
{
    for (const char *end = text + n; text <= end;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t place_n = (size_t)((comma ? comma : end) - text);
        if (url->place_count == PLACES_MAX)
            return err_set(err, "more than %d hosts", PLACES_MAX);
        url->places =
            mem_realloc(url->places, (url->place_count + 1) * sizeof(*url->places));
        struct redis_place *place = &url->places[url->place_count++];
        *place = (struct redis_place){NULL, NULL};
        if (parse_place(text, place_n, otherwise, &place->host, &place->port, err) != 0)
            return -1;
        text += place_n + 1;
    }
    return 0;
}

/* "HOST[:PORT][,HOST[:PORT]...]/MASTER[/DB]" */
static int parse_sentinel(const char *text, struct redis_url *url, struct err *err)
{
    size_t n = strcspn(text, "/?#");
    const char *name = text + n;
    if (parse_places(text, n, "26379", url, err) != 0 || refuse_query(name, err) != 0)
        return -1;
    name += *name == '/';
    size_t name_n = strcspn(name, "/");
    if (name_n == 0)
        return err_set(err, "the name of the master is missing; write it as in "
                            "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster");
    url->master = text_percent_string((struct slice){name, name_n});
    if (url->master == NULL)
        return err_set(err, "invalid %%-escape in the name of the master");
    const char *db = name + name_n;
    return db[0] == '\0' || db[1] == '\0' ? 0
                                          : parse_db(db + 1, strlen(db + 1), url, err);
}

/* "HOST[:PORT][,HOST[:PORT]...]" */
static int parse_cluster(const char *text, struct redis_url *url, struct err *err)
{
    size_t n = strcspn(text, "/?#");
    const char *path = text + n;
    if (parse_places(text, n, "6379", url, err) != 0 || refuse_query(path, err) != 0)
        return -1;
    if (path[0] == '\0' || path[1] == '\0')
        return 0;
    if (parse_db(path + 1, strlen(path + 1), url, err) != 0)
        return -1;
    return url->db == 0
               ? 0
               : err_set(err,
                         "a cluster has only database 0; remove the text after the /");
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
    int result = 0;
    if (at)
        result = parse_credentials(text, (size_t)(at - text), url, err);
    text = at ? at + 1 : text;
    if (result == 0)
        result = scheme->parse_rest(text, url, err);
    if (result == 0)
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

static const char *prefix_of(const struct redis_url *url)
{
    const struct scheme *s = schemes;
    while (s->kind != url->kind || s->tls != url->tls ||
           s->unix_path != (url->unix_path != NULL))
        s++; /* always found: each url has a prefix of this table */
    return s->prefix;
}

char *redis_url_shown(const struct redis_url *url)
{
    struct buf out = {0};
    buf_add_str(&out, prefix_of(url));
    for (size_t i = 0; i < url->place_count; i++) {
        buf_add_str(&out, i > 0 ? "," : "");
        redis_place_add(&out, url->places[i].host, url->places[i].port);
    }
    if (url->unix_path)
        buf_add_str(&out, url->unix_path);
    else if (url->host)
        redis_place_add(&out, url->host, url->port);
    if (url->master)
        buf_addf(&out, "/%s", url->master);
    if (!url->unix_path && url->kind != REDIS_CLUSTER)
        buf_addf(&out, "/%u", url->db);
    else if (url->db)
        buf_addf(&out, "?db=%u", url->db);
    char *shown = mem_strdup(buf_str(&out));
    buf_free(&out);
    return shown;
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
