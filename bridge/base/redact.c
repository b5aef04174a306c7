/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redact.c - one pass over the text. At each position the rows of a table decide whether
 * a secret begins there, and where it ends.
 */
#include "bridge/base/log.h"

#include <ctype.h>
#include <string.h>

enum { TOKEN_LEAST = 8 }; /* shorter text after "Bearer" is no token */

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define TOKEN_BYTES NAME_BYTES "+/=~"

/* The text being searched, and the secret found in it. */
struct scan {
    const char *text, *p;   /* the whole text; the current position */
    const char *from, *end; /* the secret found */
};

bool redact_is_secret_name(struct slice name)
{
    static const char *const parts[] = {
        "password",      "passwd",  "secret",     "token",     "apikey",
        "api_key",       "api-key", "access_key", "accesskey", "credential",
        "authorization", "cookie",  "signature",  "key_pem",   "key.pem"};
    static const char *const harmless[] = {"url", "file", "path", "location", "type"};
    char text[64];

    if (name.n >= sizeof(text))
        return false;
    for (size_t i = 0; i < name.n; i++)
        text[i] = (char)tolower((unsigned char)name.p[i]);
    text[name.n] = '\0';
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        const size_t n = strlen(harmless[i]);
        if (name.n > n && strcmp(text + name.n - n, harmless[i]) == 0)
            return false;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(text, parts[i]))
            return true;
    return false;
}

/* "://user:password@": the last '@' counts, because people forget to encode an '@' in the
 * password. Without an '@' before the path, a ':' precedes a port; if no number follows,
 * it precedes a password that contains a '/'. */
static bool find_userinfo(struct scan *l)
{
    if (strncmp(l->p, "://", 3) != 0)
        return false;
    const char *from = l->p + 3;
    const size_t whole = strcspn(from, " \t\r\n\"'<>"),
                 host = strcspn(from, "/?# \t\"'<>");
    const char *at = memrchr(from, '@', host), *colon = memchr(from, ':', host);
    if (colon == NULL || *from == '[' || (at && colon > at))
        return false;
    if (at == NULL && colon + 1 + strspn(colon + 1, "0123456789,") == from + host)
        return false;
    if (at == NULL)
        at = memrchr(from, '@', whole);
    if (at == NULL)
        return false;
    l->from = colon + 1;
    l->end = at;
    return true;
}

static bool begins_word(const struct scan *l)
{
    return l->p == l->text || !strchr(NAME_BYTES, l->p[-1]);
}

/* Returns the closing quote of a JSON string, skipping escaped quotes. */
static const char *end_of_quoted(const char *p)
{
    while (*p != '\0' && *p != '"')
        p += *p == '\\' && p[1] != '\0' ? 2 : 1;
    return p;
}

/* Finds NAME=value, "NAME":"value", and "Authorization:" with the rest of the line. */
static bool find_named(struct scan *l)
{
    if (!begins_word(l))
        return false;
    const size_t n = strspn(l->p, NAME_BYTES);
    const char *p = l->p + n;
    if (n == 0 || !redact_is_secret_name((struct slice){l->p, n}))
        return false;
    const bool line = strncmp(p, ": ", 2) == 0 && n >= 6 &&
                      (strncasecmp(p - 6, "cookie", 6) == 0 ||
                       (n >= 13 && strncasecmp(p - 13, "authorization", 13) == 0));
    if (line) {
        l->from = p + 2;
        l->end = l->from + strcspn(l->from, "\r\n\"\\");
        return true;
    }
    p += *p == '"';
    if (*p != '=' && !(p[-1] == '"' && *p == ':'))
        return false;
    p++;
    p += strspn(p, " ");
    const bool quoted = *p == '"';
    l->from = p + quoted;
    l->end =
        quoted ? end_of_quoted(l->from) : l->from + strcspn(l->from, " \t\r\n&;,\"')}");
    return true;
}

/* Finds secrets with a known prefix. */
static bool find_opening(struct scan *l)
{
    static const char *const openings[] = {"Bearer ", "whsec_", "whsk_",
                                           "eyJhbGci" /* a JWT: {"alg */};

    if (!begins_word(l))
        return false;
    for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
        const size_t n = strlen(openings[i]);
        if (strncasecmp(l->p, openings[i], n) != 0)
            continue;
        l->from = l->p + n;
        l->end = l->from + strspn(l->from, TOKEN_BYTES);
        return l->end - l->from >= TOKEN_LEAST;
    }
    return false;
}

static bool find_here(struct scan *l)
{
    static bool (*const finders[])(struct scan *) = {find_userinfo, find_named,
                                                     find_opening};

    for (size_t i = 0; i < sizeof(finders) / sizeof(finders[0]); i++)
        if (finders[i](l) && l->end > l->from)
            return true;
    return false;
}

bool redact_finds(const char *text)
{
    struct scan l = {.text = text};

    for (l.p = text; *l.p; l.p++)
        if (find_here(&l))
            return true;
    return false;
}

static size_t put(char *out, size_t size, size_t n, const char *from, size_t count)
{
    const size_t room = size - 1 - n;

    count = count < room ? count : room;
    memcpy(out + n, from, count);
    return n + count;
}

const char *redact_text(char *out, size_t size, const char *text)
{
    struct scan l = {.text = text};
    size_t n = 0;

    for (l.p = text; *l.p;) {
        if (find_here(&l)) {
            n = put(out, size, n, l.p, (size_t)(l.from - l.p));
            n = put(out, size, n, "***", 3);
            l.p = l.end;
        } else {
            n = put(out, size, n, l.p++, 1);
        }
    }
    out[n] = '\0';
    return out;
}
