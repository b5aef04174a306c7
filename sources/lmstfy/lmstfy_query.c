/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_query.h"
#include "bridge/base/text.h"

static const struct slice names[LMSTFY_PARAMS] = {
    [PARAM_DELAY] = SLICE_LIT("delay"),     [PARAM_TTL] = SLICE_LIT("ttl"),
    [PARAM_TRIES] = SLICE_LIT("tries"),     [PARAM_TTR] = SLICE_LIT("ttr"),
    [PARAM_TIMEOUT] = SLICE_LIT("timeout"), [PARAM_COUNT] = SLICE_LIT("count"),
    [PARAM_LIMIT] = SLICE_LIT("limit"),     [PARAM_TOKEN] = SLICE_LIT("token"),
};

/* Gives the length, -1: a bad escape. */
static long decode(struct slice s, char *out)
{
    long n = text_percent_decode(s, out);
    if (s.n == 0 || memchr(s.p, '+', s.n) == NULL)
        return n;
    /* A plus that stood there is a blank, one that was escaped stays. */
    for (size_t i = 0, at = 0; n >= 0 && i < s.n; at++) {
        if (s.p[i] == '+')
            out[at] = ' ';
        i += s.p[i] == '%' ? 3 : 1;
    }
    return n;
}

static char *take_pair(struct slice pair, struct slice params[LMSTFY_PARAMS], char *room)
{
    if (pair.n == 0 || memchr(pair.p, ';', pair.n))
        return room;
    const char *equals = memchr(pair.p, '=', pair.n);
    size_t name_n = equals ? (size_t)(equals - pair.p) : pair.n;
    struct slice raw = SLICE_LIT("");
    if (equals)
        raw = (struct slice){equals + 1, pair.n - name_n - 1};
    long n = decode((struct slice){pair.p, name_n}, room);
    if (n < 0)
        return room;
    struct slice name = {room, (size_t)n};
    for (int i = 0; i < LMSTFY_PARAMS; i++) {
        if (!slice_eq(name, names[i]))
            continue;
        if (params[i].p == NULL && (n = decode(raw, room)) >= 0) {
            params[i] = (struct slice){room, (size_t)n};
            room += n;
        }
        break;
    }
    return room;
}

void lmstfy_query_read(struct slice query, struct slice params[LMSTFY_PARAMS], char *room)
{
    memset(params, 0, LMSTFY_PARAMS * sizeof(*params));
    const char *p = query.p, *end = query.p + query.n;
    while (query.p && p < end) {
        const char *amp = memchr(p, '&', (size_t)(end - p));
        const char *stop = amp ? amp : end;
        room = take_pair((struct slice){p, (size_t)(stop - p)}, params, room);
        p = stop + 1;
    }
}

int lmstfy_number(struct slice text, int64_t max, int64_t *n)
{
    int64_t value = 0;
    for (size_t i = 0; i < text.n; i++) {
        int digit = text.p[i] - '0';
        if (digit < 0 || digit > 9 || digit > max || value > (max - digit) / 10)
            return -1;
        value = value * 10 + digit;
    }
    *n = value;
    return text.n > 0 ? 0 : -1;
}
