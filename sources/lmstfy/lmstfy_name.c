/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_name.c - names of pools, namespaces and queues, and the topics made of them.
 */
#include "sources/lmstfy/lmstfy_api.h"

static const struct slice default_pool = {"default", sizeof("default") - 1};

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
}

bool lmstfy_name_is_good(struct slice name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (!is_name_byte(name.p[i]))
            return false;
    }
    return name.n > 0;
}

bool lmstfy_has_pool(const struct lmstfy *l, struct slice pool)
{
    for (size_t i = 0; i < l->pools.n; i++) {
        if (slice_is(pool, l->pools.v[i]))
            return true;
    }
    return false;
}

void lmstfy_cut_token(struct slice text, struct slice *pool, struct slice *token)
{
    const char *colon = text.n ? memchr(text.p, ':', text.n) : NULL;
    *pool = default_pool;
    *token = text;
    if (colon == NULL)
        return;
    size_t n = (size_t)(colon - text.p);
    *token = (struct slice){colon + 1, text.n - n - 1};
    if (n > 0)
        *pool = (struct slice){text.p, n};
}

void lmstfy_add_topic(struct buf *out, struct slice pool, struct slice ns,
                      struct slice queue)
{
    if (!slice_eq(pool, default_pool)) {
        buf_add_slice(out, pool);
        buf_add(out, "/", 1);
    }
    buf_add_slice(out, ns);
    buf_add(out, "/", 1);
    buf_add_slice(out, queue);
}

int lmstfy_cut_topic(struct slice topic, struct slice *pool, struct slice *ns,
                     struct slice *queue)
{
    struct slice part[3];
    unsigned n = 0;
    const char *p = topic.p, *end = topic.p + topic.n;
    while (n < 3) {
        const char *slash = p < end ? memchr(p, '/', (size_t)(end - p)) : NULL;
        const char *stop = slash ? slash : end;
        part[n] = (struct slice){p, (size_t)(stop - p)};
        if (!lmstfy_name_is_good(part[n++]))
            return -1;
        if (slash == NULL)
            break;
        p = slash + 1;
        if (n == 3)
            return -1;
    }
    if (n < 2)
        return -1;
    *pool = n == 3 ? part[0] : default_pool;
    *ns = part[n - 2];
    *queue = part[n - 1];
    return 0;
}
