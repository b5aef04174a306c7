/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * about.h - the fields of a log line about a job.
 */
#ifndef BRIDGE_ENGINE_ABOUT_H
#define BRIDGE_ENGINE_ABOUT_H

#include "bridge/base/log.h"

struct job;
struct route;

/* Return the job's route, id and traceparent; borrowed. job: NULL if its record cannot be
 * read. */
struct log_about about_job(const struct route *route, struct slice id,
                           const struct job *job);

#endif
