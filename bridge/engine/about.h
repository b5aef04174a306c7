/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * about.h - what a line of the log about a job says of it.
 */
#ifndef BRIDGE_ENGINE_ABOUT_H
#define BRIDGE_ENGINE_ABOUT_H

#include "bridge/base/log.h"

struct job;
struct route;

/* Its route, id and traceparent; borrowed. job: NULL where it can't be read. */
struct log_about about_job(const struct route *route, struct slice id,
                           const struct job *job);

#endif
