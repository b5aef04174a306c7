/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_place.c - is this the original's Redis at all? What is said where nothing of the
 * original was found: how many keys are there, some of them, and other databases.
 */
#include "bridge/import/import_parts.h"
#include "bridge/import/redis_ask.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SAMPLES = 3, SAMPLE_BYTES = 80 };

void import_add_shown(struct buf *out, struct slice key)
{
    for (size_t i = 0; i < key.n; i++) {
        unsigned char c = (unsigned char)key.p[i];
        if (c < ' ' || c > '~' || c == '\\')
            buf_addf(out, "\\x%02x", c);
        else
            buf_add(out, &key.p[i], 1);
    }
}

int import_mark(struct import *im, struct slice key, struct err *err)
{
    const struct slice args[] = {SLICE_LIT("EXISTS"), key};
    struct import_value reply;
    if (import_ask(im, args, 2, &reply, err) < 0)
        return -1;
    im->marked |= reply.integer > 0;
    import_values_free(&reply, 1);
    return 0;
}

static int64_t count_keys(struct import *im)
{
    const struct slice args[] = {SLICE_LIT("DBSIZE")};
    int64_t sum = 0;
    struct err err;
    for (unsigned i = 0; i < ask_node_count(im->ask); i++) {
        struct import_value reply;
        if (import_ask_node(im, (int)i, args, 1, &reply, &err) < 0)
            break;
        sum += reply.integer;
        import_values_free(&reply, 1);
    }
    return sum;
}

struct samples {
    struct buf *out;
    unsigned n;
};

/* -1: enough of them. */
static int on_sample(void *arg, const struct import_entry *keys, size_t n,
                     struct err *err)
{
    struct samples *s = arg;
    for (size_t i = 0; i < n && s->n < SAMPLES; i++) {
        struct slice key = keys[i].member;
        buf_add_str(s->out, s->n++ == 0 ? ", such as " : ", ");
        import_add_shown(
            s->out, (struct slice){key.p, key.n < SAMPLE_BYTES ? key.n : SAMPLE_BYTES});
    }
    return s->n < SAMPLES ? 0 : err_set(err, "enough");
}

/* "db3:keys=5,..." of INFO: the others, where this one may have been meant. */
static void add_databases(struct import *im, struct buf *out)
{
    const struct slice args[] = {SLICE_LIT("INFO"), SLICE_LIT("keyspace")};
    const char *comma = "; databases with keys: ";
    struct import_value reply;
    struct err err;
    if (ask_node_count(im->ask) > 1 || import_ask_node(im, 0, args, 2, &reply, &err) < 0)
        return;
    const char *text = reply.kind == IMPORT_TEXT ? reply.text.p : "";
    for (const char *at = strstr(text, "\ndb"); at; at = strstr(at + 1, "\ndb")) {
        buf_addf(out, "%s%d", comma, atoi(at + 3));
        comma = ", ";
    }
    import_values_free(&reply, 1);
}

static bool is_nothing(const struct import_counts *n)
{
    uint64_t sum = n->before + n->shelved + n->shelved_before;
    for (unsigned i = 0; i < IMPORT_STATES; i++)
        sum += n->moved[i];
    for (unsigned i = 0; i < IMPORT_SKIPS; i++)
        sum += n->skipped[i];
    return sum == 0;
}

bool import_found_nothing(struct import *im, struct err *err)
{
    struct buf there = {0};
    struct samples samples = {&there, 0};
    struct err enough;
    if (im->marked || !is_nothing(&im->counts))
        return false;
    buf_addf(&there, "%" PRId64 " keys", count_keys(im));
    import_each_key(im, "*", on_sample, &samples, &enough);
    add_databases(im, &there);
    err_set(err, "nothing of %s in %s, which has %s", im->order->type, im->place,
            buf_str(&there));
    buf_free(&there);
    return true;
}
