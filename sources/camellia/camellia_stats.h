/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_stats.h - what was called and delivered, by topic, in windows of equal length:
 * the one that is running, and the last that is complete. Of this process only.
 *
 * A topic without a call in a whole window is forgotten; there is a limit, above which
 * new topics are not counted.
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
    CAMELLIA_N_READY,   /* became ready: due, sent without a delay, or came back */
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
    struct camellia_gap pull;  /* from the trigger time to the pull */
    struct camellia_gap ready; /* from being ready to the pull */
};
struct camellia_topic {
    UT_hash_handle hh;
    struct slice name; /* its own */
    unsigned polls;    /* that wait now; keeps it from being forgotten */
    struct camellia_window now, last;
    /* As Redis says at a survey: those that nobody has pulled. */
    int64_t unpulled_last;        /* became ready in the last window */
    struct camellia_gap unpulled; /* since they are ready, whenever that was */
    char bytes[];                 /* of the name */
};
struct camellia_stats { /* a zeroed one is ready */
    int64_t from_ms,
        last_from_ms; /* Redis' clock: begin of now, of last; 0: there is none */
    struct camellia_topic *topics; /* by name */
};

/* Good until the next turn of the window, or longer while polls > 0. NULL: too many. */
struct camellia_topic *camellia_topic(struct camellia_stats *s, struct slice name);
/* A poll has ended: polls is one less. Frees a topic that was kept for its polls only. */
void camellia_poll_ended(struct camellia_stats *s, struct camellia_topic *t);
/* Counts a call that found nothing, if the topic is known: names that clients make up
 * must not fill the memory. */
void camellia_counted_miss(struct camellia_stats *s, struct slice topic,
                           enum camellia_count what);
void camellia_counted(struct camellia_stats *s, struct slice topic,
                      enum camellia_count what, int64_t n);
/* One that was ready since then is pulled. */
void camellia_pulled(const struct camellia_stats *s, struct camellia_topic *t,
                     int64_t ready_ms, int64_t now_ms);
/* Of the last window, those that nobody has pulled included. */
int64_t camellia_count_of(const struct camellia_topic *t, enum camellia_count what);
struct camellia_gap camellia_ready_gap(const struct camellia_topic *t);
/* Nothing was pulled or called in the last window, and nothing waits to be pulled. */
bool camellia_topic_is_quiet(const struct camellia_topic *t);
/* Forgets what surveys said. */
void camellia_forget_unpulled(struct camellia_stats *s);
void camellia_gap_add(struct camellia_gap *g, int64_t gap_ms);
double camellia_gap_avg(const struct camellia_gap *g);
/* The running window is complete, and a new one begins. */
void camellia_stats_turn(struct camellia_stats *s, int64_t now_ms);
void camellia_stats_free(struct camellia_stats *s);

#endif
