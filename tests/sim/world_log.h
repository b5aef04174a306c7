/* SPDX-License-Identifier: BSD-2-Clause */
/* world_log.h - between the log (world_log.c) and its readers (world_group.c). */
#ifndef TESTS_SIM_WORLD_LOG_H
#define TESTS_SIM_WORLD_LOG_H

#include "tests/sim/world_jobs.h"

enum { PARTITIONS_MAX = GROUP_ROWS_MAX };

/* --- world_log.c --- */

unsigned log_partitions(void); /* 0: the topic does not exist */
int64_t log_low(int32_t partition);
int64_t log_end(int32_t partition);
/* Returns how many records from that offset on it has written to `to`. */
unsigned log_fetch(int32_t partition, int64_t from, const struct record **to,
                   unsigned max);
/* The group starts behind these records, as "latest" means. */
void log_skip(int32_t partition, int64_t until);
/* Whether the topic was made anew, and no record of the partition was stored since. */
bool log_is_unread(int32_t partition);

/* --- world_group.c --- */

void group_init(void);
int64_t group_committed(int32_t partition); /* -1: none */
void group_appended(void);                  /* there are new records */
void group_more_partitions(void);
void group_topic_gone(void);
bool group_knows_it_is_gone(void); /* each reader */
void group_topic_made(void);

#endif
