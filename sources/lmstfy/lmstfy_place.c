/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_place.c - how lmstfy writes into keys, lists and its timer which job is meant.
 */
#include "sources/lmstfy/lmstfy_import.h"

enum { ID_MAX = 128 }; /* its own are 26 or 27 bytes */

static int take_number(struct slice *rest, unsigned *n)
{
    if (rest->n < 2)
        return -1;
    *n = (unsigned char)rest->p[0] | (unsigned)(unsigned char)rest->p[1] << 8;
    rest->p += 2;
    rest->n -= 2;
    return 0;
}

static int take_text(struct slice *rest, struct slice *text)
{
    unsigned n;
    if (take_number(rest, &n) < 0 || n > rest->n)
        return -1;
    *text = (struct slice){rest->p, n};
    rest->p += n;
    rest->n -= n;
    return 0;
}

static bool is_name(struct slice s)
{
    return s.n <= LMSTFY_NAME_MAX && lmstfy_name_is_good(s);
}

static bool is_id(struct slice s)
{
    return s.n <= ID_MAX && lmstfy_name_is_good(s);
}

int lmstfy_place_in_list(struct slice member, struct lmstfy_place *place)
{
    bool good = take_number(&member, &place->tries) == 0 &&
                take_text(&member, &place->id) == 0 && member.n == 0 && is_id(place->id);
    return good ? 0 : -1;
}

int lmstfy_place_in_timer(struct slice member, struct lmstfy_place *place)
{
    bool good = take_text(&member, &place->ns) == 0 &&
                take_text(&member, &place->queue) == 0 && is_name(place->ns) &&
                is_name(place->queue);
    return good ? lmstfy_place_in_list(member, place) : -1;
}

/* Up to the next "/", which goes too. p NULL: there is none. */
static struct slice take_part(struct slice *rest)
{
    const char *slash = rest->n ? memchr(rest->p, '/', rest->n) : NULL;
    struct slice part = {slash ? rest->p : NULL, slash ? (size_t)(slash - rest->p) : 0};
    if (slash) {
        rest->p += part.n + 1;
        rest->n -= part.n + 1;
    }
    return part;
}

int lmstfy_place_in_key(struct slice key, bool with_id, struct lmstfy_place *place)
{
    take_part(&key);
    place->ns = take_part(&key);
    place->queue = with_id ? take_part(&key) : key;
    if (with_id)
        place->id = key;
    bool good = place->ns.p && is_name(place->ns) && is_name(place->queue) &&
                (!with_id || is_id(place->id));
    return good ? 0 : -1;
}
