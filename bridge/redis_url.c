/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_url.c - where Redis is, from a URL and back. Pure. No error text repeats what
 * could be a password: only the parts behind the last @ are shown.
 */
#include "bridge/buf.h"
#include "bridge/mem.h"
#include "bridge/redis.h"

#include <ctype.h>
#include <stdlib.h>

enum { DB_MAX = 1000000 };

static const struct scheme {
    const char *prefix;
    bool tls, unix_path;
} schemes[] = {
    {"redis://", false, false},
    {"rediss://", true, false},
    {"unix://", false, true},
};

static const struct scheme *scheme_of(const char *text)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncasecmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    return NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoded; NULL: a bad escape, or a NUL, which no C string can hold. Gives. */
static char *decode(const char *from, size_t n)
{
    char *out = mem_alloc(n + 1), *to = out;
    for (size_t i = 0; i < n; i++) {
        int byte = (unsigned char)from[i];
        if (byte == '%') {
            int high = i + 2 < n ? hex_digit(from[i + 1]) : -1;
            int low = i + 2 < n ? hex_digit(from[i + 2]) : -1;
            byte = high < 0 || low < 0 ? 0 : high * 16 + low;
            i += 2;
        }
        if (byte == 0) {
            free(out);
            return NULL;
        }
        *to++ = (char)byte;
    }
    return out;
}

/* -1: not a whole number from 0 to max. */
static int parse_number(const char *text, size_t n, unsigned max, unsigned *out)
{
    unsigned value = 0;
    if (n == 0 || n > 9)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -1;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *out = value;
    return value <= max ? 0 : -1;
}

/* "USER:PASSWORD", "USER:" or ":PASSWORD"; the user may be left out. */
static int parse_credentials(const char *text, size_t n, struct redis_url *url,
                             struct err *err)
{
    const char *colon = memchr(text, ':', n);
    if (colon == NULL)
        return err_set(err, "redis url: what stands before @ must be USER:PASSWORD or "
                            ":PASSWORD");
    size_t user_n = (size_t)(colon - text);
    if (user_n > 0)
        url->user = decode(text, user_n);
    url->password = decode(colon + 1, n - user_n - 1);
    if ((user_n > 0 && url->user == NULL) || url->password == NULL)
        return err_set(err, "redis url: bad %%-escape in the user or password");
    if (url->password[0] == '\0')
        return err_set(err, "redis url: the password is empty");
    return 0;
}

static int parse_db(const char *text, size_t n, struct redis_url *url, struct err *err)
{
    if (parse_number(text, n, DB_MAX, &url->db) != 0)
        return err_set(err, "redis url: \"%.*s\" is not the number of a database",
                       (int)(n < 64 ? n : 64), text);
    return 0;
}

/* "/PATH[?db=N]" */
static int parse_unix(const char *text, struct redis_url *url, struct err *err)
{
    size_t n = strcspn(text, "?");
    if (text[0] != '/' || n < 2)
        return err_set(err, "redis url: unix:// needs an absolute path, as in "
                            "unix:///run/redis/redis.sock");
    url->unix_path = decode(text, n);
    if (url->unix_path == NULL)
        return err_set(err, "redis url: bad %%-escape in the path");
    if (text[n] == '\0')
        return 0;
    if (strncmp(text + n, "?db=", 4) != 0)
        return err_set(err, "redis url: after ? only db=NUMBER may stand");
    return parse_db(text + n + 4, strlen(text + n + 4), url, err);
}

/* ":PORT" or nothing, up to end */
static int parse_port(const char *text, size_t n, struct redis_url *url, struct err *err)
{
    unsigned port;
    if (n == 0) {
        url->port = mem_strdup("6379");
        return 0;
    }
    if (text[0] != ':' || parse_number(text + 1, n - 1, 65535, &port) != 0 || port == 0)
        return err_set(err, "redis url: the port must be a number from 1 to 65535");
    url->port = mem_strndup(text + 1, n - 1);
    return 0;
}

/* "HOST[:PORT][/DB]"; an IPv6 address stands in brackets. */
static int parse_tcp(const char *text, struct redis_url *url, struct err *err)
{
    size_t n = strcspn(text, "/?#");
    size_t host_n = strcspn(text, ":/?#");
    const char *rest = text + host_n;
    if (text[0] == '[') {
        const char *end = memchr(text, ']', n);
        if (end == NULL)
            return err_set(err, "redis url: the ] behind the IPv6 address is missing");
        text++;
        n--;
        host_n = (size_t)(end - text);
        rest = end + 1;
    }
    if (host_n == 0)
        return err_set(err, "redis url: the host is missing, as in "
                            "redis://127.0.0.1:6379/0");
    url->host = decode(text, host_n);
    if (url->host == NULL)
        return err_set(err, "redis url: bad %%-escape in the host");
    const char *path = text + n;
    if (parse_port(rest, (size_t)(path - rest), url, err) != 0)
        return -1;
    if (path[0] == '?' || path[0] == '#')
        return err_set(err, "redis url: nothing may stand behind ? or #; the database is "
                            "the path, as in redis://127.0.0.1:6379/0");
    if (path[0] == '\0' || path[1] == '\0')
        return 0;
    return parse_db(path + 1, strlen(path + 1), url, err);
}

int redis_url_parse(const char *text, struct redis_url *url, struct err *err)
{
    *url = (struct redis_url){0};
    const struct scheme *scheme = scheme_of(text);
    if (scheme == NULL)
        return err_set(err, "redis url: must begin with redis://, rediss:// or unix:// "
                            "(Sentinel and Cluster are not supported yet)");
    text += strlen(scheme->prefix);
    url->tls = scheme->tls;

    /* The last @: one inside a password should be %40, but is understood. In a Unix path
     * an @ belongs to the path. */
    const char *at = scheme->unix_path && text[0] == '/' ? NULL : strrchr(text, '@');
    if (at && scheme->unix_path)
        at = strstr(text, "@/");
    int result = 0;
    if (at)
        result = parse_credentials(text, (size_t)(at - text), url, err);
    text = at ? at + 1 : text;
    if (result == 0)
        result =
            scheme->unix_path ? parse_unix(text, url, err) : parse_tcp(text, url, err);
    if (result != 0)
        redis_url_free(url);
    return result;
}

static void free_secret(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void redis_url_free(struct redis_url *url)
{
    free(url->unix_path);
    free(url->host);
    free(url->port);
    free(url->user);
    free_secret(url->password);
    *url = (struct redis_url){0};
}

char *redis_url_shown(const struct redis_url *url)
{
    struct buf out = {0};
    if (url->unix_path) {
        buf_addf(&out, "unix://%s", url->unix_path);
        if (url->db)
            buf_addf(&out, "?db=%u", url->db);
    } else {
        bool v6 = strchr(url->host, ':') != NULL;
        buf_addf(&out, "%s%s%s%s:%s/%u", url->tls ? "rediss://" : "redis://",
                 v6 ? "[" : "", url->host, v6 ? "]" : "", url->port, url->db);
    }
    char *shown = mem_strdup(buf_str(&out));
    buf_free(&out);
    return shown;
}
