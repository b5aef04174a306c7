/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_stats.h - counts calls and deliveries by topic in windows of equal length: the
 * running window and the last complete one. This process only.
 *
 * A topic without a call in a whole window is dropped. Above a limit of topics, new
 * topics are not counted.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_STATS_H
#define SOURCES_CAMELLIA_CAMELLIA_STATS_H

#include "bridge/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum camellia_count {
    CAMELLIA_N_SEND,
    CAMELLIA_N_PULL, /* messages, not calls */
    CAMELLIA_N_DELETE,
    CAMELLIA_N_ACK,
    CAMELLIA_N_GET,
    CAMELLIA_N_READY,   /* became ready: due, sent without a delay, or released */
    CAMELLIA_N_END,     /* expired, or out of retries */
    CAMELLIA_N_TIMEOUT, /* not acknowledged in time */
    CAMELLIA_COUNTS
};
extern const char *const camellia_count_names[CAMELLIA_COUNTS];

struct camellia_gap {
    int64_t count, sum_ms, max_ms;
};
struct camellia_window {
    int64_t counts[CAMELLIA_COUNTS];
    struct camellia_gap pull;  /* ms from the trigger time to the pull */
    struct camellia_gap ready; /* ms from ready to the pull */
};
struct camellia_topic {
    UT_hash_handle hh;
    struct slice name; /* points to bytes */
    unsigned polls;    /* polls waiting now; while > 0 the topic is not dropped */
    struct camellia_window now, last;
    /* From the last survey: messages that are ready but not pulled. */
    int64_t unpulled_last;        /* those that became ready in the last window */
    struct camellia_gap unpulled; /* all of them, ms since they became ready */
    char bytes[];                 /* of the name */
};
struct camellia_stats { /* all zeros: valid and empty */
    int64_t from_ms,
        last_from_ms; /* start of the windows now and last, ms on Redis' clock; 0: none */
    struct camellia_topic *topics; /* by name */
};

/* Finds or adds a topic. Valid until camellia_stats_next_window(), and as long as polls >
 * 0. NULL: too many topics. */
struct camellia_topic *camellia_topic(struct camellia_stats *s, struct slice name);
/* Decrements polls after a poll. Frees a topic that existed only for its polls. */
void camellia_poll_ended(struct camellia_stats *s, struct camellia_topic *t);
/* Counts a call without a result, but only if the topic is known: invented names must not
 * fill the memory. */
void camellia_count_miss(struct camellia_stats *s, struct slice topic,
                         enum camellia_count what);
void camellia_count_calls(struct camellia_stats *s, struct slice topic,
                          enum camellia_count what, int64_t n);
/* Records a pull of a message that was ready since ready_ms. Times in ms since 1970. */
void camellia_count_pull(const struct camellia_stats *s, struct camellia_topic *t,
                         int64_t ready_ms, int64_t now_ms);
/* Return values of the last window, including messages that are ready but not pulled. */
int64_t camellia_count_of(const struct camellia_topic *t, enum camellia_count what);
struct camellia_gap camellia_ready_gap(const struct camellia_topic *t);
/* True if the last window has no calls and no pulls, and no message is ready. */
bool camellia_topic_is_quiet(const struct camellia_topic *t);
/* Clears the results of surveys. */
void camellia_clear_unpulled(struct camellia_stats *s);
void camellia_gap_add(struct camellia_gap *g, int64_t gap_ms);
double camellia_gap_avg(const struct camellia_gap *g);
/* Completes the running window and starts a new one. */
void camellia_stats_next_window(struct camellia_stats *s, int64_t now_ms);
void camellia_stats_free(struct camellia_stats *s);

#endif
