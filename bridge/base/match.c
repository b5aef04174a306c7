/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * match.c - topic filters, level by level; see match.h.
 */
#include "bridge/base/match.h"

/* Takes the first level off rest. False: there was none left. A topic or filter that ends
 * in a slash has an empty last level; p NULL marks that none is left. */
static bool take_level(struct slice *rest, struct slice *level)
{
    if (rest->p == NULL)
        return false;
    const char *slash = rest->n > 0 ? memchr(rest->p, '/', rest->n) : NULL;
    *level = *rest;
    if (slash == NULL) {
        *rest = (struct slice){NULL, 0};
        return true;
    }
    level->n = (size_t)(slash - rest->p);
    rest->p += level->n + 1;
    rest->n -= level->n + 1;
    return true;
}

int match_filter_check(const char *filter, struct err *err)
{
    struct slice rest = slice_of(filter), level;

    if (rest.n == 0)
        return err_set(err, "an empty topic filter; write # for every topic");
    while (take_level(&rest, &level)) {
        bool wild = memchr(level.p, '+', level.n) || memchr(level.p, '#', level.n);
        if (wild && level.n > 1)
            return err_set(err, "topic filter \"%s\": + and # must be a whole level",
                           filter);
        if (slice_is(level, "#") && rest.p != NULL)
            return err_set(err, "topic filter \"%s\": # must be the last level", filter);
    }
    return 0;
}

unsigned match_wildcards(const char *filter)
{
    unsigned n = 0;
    for (; *filter; filter++)
        n += *filter == '+' || *filter == '#';
    return n;
}

static void note(struct slice capture, struct slice *captures, unsigned *count)
{
    if (*count >= MATCH_CAPTURES_MAX)
        return;
    if (captures)
        captures[*count] = capture;
    ++*count;
}

static bool match_levels(struct slice filter, struct slice topic, struct slice *captures,
                         unsigned *count)
{
    const struct slice end = {topic.p + topic.n, 0};
    struct slice want, level;

    while (take_level(&filter, &want)) {
        if (slice_is(want, "#")) {
            note(topic.p ? topic : end, captures, count);
            return true;
        }
        if (!take_level(&topic, &level))
            return false;
        if (slice_is(want, "+"))
            note(level, captures, count);
        else if (!slice_eq(want, level))
            return false;
    }
    return topic.p == NULL;
}

bool match_topic(const char *filter, struct slice topic, struct slice *captures,
                 unsigned *capture_count)
{
    unsigned count = 0;

    if (topic.p == NULL)
        topic = SLICE_LIT("");
    bool hidden =
        topic.n > 0 && topic.p[0] == '$' && (filter[0] == '+' || filter[0] == '#');
    bool matches = !hidden && match_levels(slice_of(filter), topic, captures, &count);
    if (capture_count)
        *capture_count = matches ? count : 0;
    return matches;
}
