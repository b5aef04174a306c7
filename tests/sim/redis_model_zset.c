/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_zset.c - the commands of sorted sets. */
#include "tests/sim/redis_model_internal.h"

#include <math.h>
#include <stdlib.h>

/* A limit of a range: a position between members. */
struct limit {
    double score;
    bool open; /* without the members of this score */
};

static bool parse_score(struct slice text, double *score)
{
    char copy[64], *end;
    int64_t n;
    if (parse_digits(text, &n)) {
        *score = (double)n;
        return true;
    }
    if (text.n == 0 || text.n >= sizeof(copy))
        return false;
    *slice_put(copy, text) = '\0';
    *score = strtod(copy, &end);
    return *end == '\0' && copy[0] != ' ' && !isnan(*score);
}

static bool arg_score(struct call *c, unsigned i, double *score)
{
    if (parse_score(c->args[i], score))
        return true;
    reply_error(c, "ERR value is not a valid float");
    return false;
}

static bool arg_limit(struct call *c, unsigned i, struct limit *limit)
{
    struct slice text = c->args[i];
    limit->open = text.n > 0 && text.p[0] == '(';
    if (limit->open)
        text = (struct slice){text.p + 1, text.n - 1};
    if (parse_score(text, &limit->score))
        return true;
    reply_error(c, "ERR min or max is not a float");
    return false;
}

static int by_place(gconstpointer a, gconstpointer b, gpointer arg)
{
    const struct member *x = a, *y = b;
    (void)arg;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->edge - y->edge;
}

/* Returns the rank of the first member behind a position. */
static int64_t rank_at(const struct value *v, double score, int edge)
{
    struct member probe = {.score = score, .edge = edge};
    return v ? g_sequence_iter_get_position(
                   g_sequence_search(v->order, &probe, by_place, NULL))
             : 0;
}

/* Sets the ranks of a range by scores: from the first member to before `end`. */
static void ranks_by_score(const struct value *v, const struct limit *low,
                           const struct limit *high, int64_t *from, int64_t *end)
{
    *from = rank_at(v, low->score, low->open ? 1 : -1);
    *end = rank_at(v, high->score, high->open ? -1 : 1);
    if (low->score > high->score || *end < *from)
        *end = *from;
}

static int64_t size_of(const struct value *v)
{
    return v ? g_hash_table_size(v->table) : 0;
}

/* Sets the ranks of a range by ranks, whose negative ones count from the end. */
static bool arg_ranks(struct call *c, unsigned i, const struct value *v, int64_t *from,
                      int64_t *end)
{
    int64_t to, size = size_of(v);
    if (!arg_int(c, i, from) || !arg_int(c, i + 1, &to))
        return false;
    *from = *from < 0 ? *from + size : *from;
    *from = *from < 0 ? 0 : *from;
    to = to < 0 ? to + size : to;
    *end = to >= size ? size : to + 1;
    if (*end < *from)
        *end = *from;
    return true;
}

static void reply_member(struct call *c, GSequenceIter *at, bool scores)
{
    const struct member *m = g_sequence_get(at);
    reply_bulk(c, *m->name);
    if (scores)
        reply_score(c, m->score);
}

/* Replies with the members from..end-1, or backwards. */
static void reply_ranks(struct call *c, const struct value *v, int64_t from, int64_t end,
                        bool scores, bool reverse)
{
    reply_array(c, (size_t)(end - from) << scores);
    if (from == end)
        return;
    GSequenceIter *at =
        g_sequence_get_iter_at_pos(v->order, (gint)(reverse ? end - 1 : from));
    for (int64_t n = end - from; n > 0; n--) {
        reply_member(c, at, scores);
        at = reverse ? g_sequence_iter_prev(at) : g_sequence_iter_next(at);
    }
}

static void remove_ranks(struct call *c, struct value *v, int64_t from, int64_t end)
{
    reply_int(c, end - from);
    for (int64_t n = end - from; n > 0; n--) {
        const struct member *m =
            g_sequence_get(g_sequence_get_iter_at_pos(v->order, (gint)from));
        zset_remove(v, *m->name);
    }
    call_tidy(c, 1, v);
}

static void run_zadd(struct call *c)
{
    int64_t added = 0;
    double score;
    if (c->count % 2 != 0) {
        reply_error(c, "ERR syntax error");
        return;
    }
    for (unsigned i = 2; i < c->count; i += 2)
        if (!arg_score(c, i, &score))
            return;
    struct value *v = call_make(c, 1, VALUE_ZSET);
    if (v == NULL)
        return;
    for (unsigned i = 2; i < c->count; i += 2) {
        parse_score(c->args[i], &score);
        added += g_hash_table_lookup(v->table, &c->args[i + 1]) == NULL;
        zset_put(v, c->args[i + 1], score);
    }
    reply_int(c, added);
}

static void run_zrem(struct call *c)
{
    int64_t removed = 0;
    bool failed;
    struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed)
        return;
    for (unsigned i = 2; v && i < c->count; i++)
        removed += zset_remove(v, c->args[i]);
    call_tidy(c, 1, v);
    reply_int(c, removed);
}

static void run_zcard(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (!failed)
        reply_int(c, size_of(v));
}

static void run_zscore(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    const struct member *m = v ? g_hash_table_lookup(v->table, &c->args[2]) : NULL;
    if (m)
        reply_score(c, m->score);
    else if (!failed)
        reply_bulk(c, (struct slice){NULL, 0});
}

static void run_zmscore(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed)
        return;
    reply_array(c, c->count - 2);
    for (unsigned i = 2; i < c->count; i++) {
        const struct member *m = v ? g_hash_table_lookup(v->table, &c->args[i]) : NULL;
        if (m)
            reply_score(c, m->score);
        else
            reply_bulk(c, (struct slice){NULL, 0});
    }
}

static void run_zcount(struct call *c)
{
    struct limit low, high;
    int64_t from, end;
    bool failed;
    if (!arg_limit(c, 2, &low) || !arg_limit(c, 3, &high))
        return;
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed)
        return;
    ranks_by_score(v, &low, &high, &from, &end);
    reply_int(c, end - from);
}

/* By rank only. */
static void run_zrange(struct call *c)
{
    bool failed, scores = false, reverse = false;
    int64_t from, end;
    for (unsigned i = 4; i < c->count; i++) {
        must(arg_is(c, i, "WITHSCORES") || arg_is(c, i, "REV"));
        scores |= arg_is(c, i, "WITHSCORES");
        reverse |= arg_is(c, i, "REV");
    }
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed || !arg_ranks(c, 2, v, &from, &end))
        return;
    if (reverse) {
        int64_t first = size_of(v) - end;
        end = size_of(v) - from;
        from = end < first ? end : first;
    }
    reply_ranks(c, v, from, end, scores, reverse);
}

/* Reads the options behind a range by scores or names, and limits it. */
static bool options(struct call *c, int64_t *from, int64_t *end, bool *scores)
{
    int64_t skip = 0, most = -1;
    for (unsigned i = 4; i < c->count; i++) {
        if (arg_is(c, i, "WITHSCORES")) {
            *scores = true;
        } else if (arg_is(c, i, "LIMIT") && i + 2 < c->count) {
            if (!arg_int(c, i + 1, &skip) || !arg_int(c, i + 2, &most))
                return false;
            i += 2;
        } else {
            reply_error(c, "ERR syntax error");
            return false;
        }
    }
    if (skip < 0 || skip > *end - *from)
        skip = *end - *from;
    if (most < 0 || most > *end - *from - skip)
        most = *end - *from - skip;
    *from += skip;
    *end = *from + most;
    return true;
}

static void run_zrangebyscore(struct call *c)
{
    struct limit low, high;
    int64_t from, end;
    bool failed, scores = false;
    if (!arg_limit(c, 2, &low) || !arg_limit(c, 3, &high))
        return;
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed)
        return;
    ranks_by_score(v, &low, &high, &from, &end);
    if (options(c, &from, &end, &scores))
        reply_ranks(c, v, from, end, scores, false);
}

/* Returns the rank of the first member behind a limit of names: "-", "+", "[NAME",
 * "(NAME". All scores are equal. */
static int64_t rank_by_name(const struct value *v, struct slice text, bool is_high)
{
    if (slice_is(text, "-") || slice_is(text, "+"))
        return text.p[0] == '-' ? 0 : size_of(v);
    bool behind_equal = (text.p[0] == '[') == is_high;
    struct slice name = {text.p + 1, text.n - 1};
    int64_t low = 0, high = size_of(v);
    while (low < high) {
        int64_t middle = (low + high) / 2;
        const struct member *m =
            g_sequence_get(g_sequence_get_iter_at_pos(v->order, (gint)middle));
        int order = by_bytes(*m->name, name);
        if (order < 0 || (order == 0 && behind_equal))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_name_limit(struct slice text)
{
    return slice_is(text, "-") || slice_is(text, "+") ||
           (text.n > 0 && (text.p[0] == '[' || text.p[0] == '('));
}

static void run_zrangebylex(struct call *c)
{
    bool failed, scores = false;
    if (!is_name_limit(c->args[2]) || !is_name_limit(c->args[3])) {
        reply_error(c, "ERR min or max not valid string range item");
        return;
    }
    const struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed)
        return;
    int64_t from = rank_by_name(v, c->args[2], false),
            end = rank_by_name(v, c->args[3], true);
    end = end < from ? from : end;
    if (options(c, &from, &end, &scores))
        reply_ranks(c, v, from, end, scores, false);
}

static void run_zremrangebyrank(struct call *c)
{
    bool failed;
    int64_t from, end;
    struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed || !arg_ranks(c, 2, v, &from, &end))
        return;
    remove_ranks(c, v, from, end);
}

static void run_zremrangebyscore(struct call *c)
{
    struct limit low, high;
    int64_t from, end;
    bool failed;
    if (!arg_limit(c, 2, &low) || !arg_limit(c, 3, &high))
        return;
    struct value *v = call_find(c, 1, VALUE_ZSET, &failed);
    if (failed)
        return;
    ranks_by_score(v, &low, &high, &from, &end);
    remove_ranks(c, v, from, end);
}

static void add_member(struct call *c, const struct slice *name, void *data)
{
    reply_bulk(c, *name);
    reply_score(c, ((struct member *)data)->score);
}

static void run_zscan(struct call *c)
{
    call_scan(c, VALUE_ZSET, add_member);
}

const struct command zset_commands[] = {
    {"ZADD", -4, COMMAND_WRITE | COMMAND_DENY_OOM, run_zadd},
    {"ZREM", -3, COMMAND_WRITE, run_zrem},
    {"ZCARD", 2, 0, run_zcard},
    {"ZSCORE", 3, 0, run_zscore},
    {"ZMSCORE", -3, 0, run_zmscore},
    {"ZCOUNT", 4, 0, run_zcount},
    {"ZRANGE", -4, 0, run_zrange},
    {"ZRANGEBYSCORE", -4, 0, run_zrangebyscore},
    {"ZRANGEBYLEX", -4, 0, run_zrangebylex},
    {"ZREMRANGEBYRANK", 4, COMMAND_WRITE, run_zremrangebyrank},
    {"ZREMRANGEBYSCORE", 4, COMMAND_WRITE, run_zremrangebyscore},
    {"ZSCAN", -3, 0, run_zscan},
    {NULL, 0, 0, NULL},
};
