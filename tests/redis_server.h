/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_server.h - the server that a test starts: the Redis or Valkey in
 * TARRY_REDIS_SERVER, or the installed one.
 */
#ifndef TESTS_REDIS_SERVER_H
#define TESTS_REDIS_SERVER_H

#include <stdlib.h>

static const char *redis_server(void)
{
    const char *path = getenv("TARRY_REDIS_SERVER");
    return path && *path ? path : "redis-server";
}

#endif
