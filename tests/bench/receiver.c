/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receiver.c - answers every HTTP request with 200 and measures their rate.
 *
 *   receiver COUNT
 *
 * Prints its port, then a line for every COUNT requests: the microseconds from the first
 * of them to the answer to the last. Runs until it is killed.
 */
#include "tests/bench/load.h"

#include <stdio.h>
#include <stdlib.h>

static long long wanted, got;
static int64_t first_us;

static void on_request(struct conn *c, int status, const char *body, size_t n)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    (void)status, (void)body, (void)n;
    if (got++ == 0)
        first_us = now_us();
    conn_send_bytes(c, answer, sizeof(answer) - 1);
    if (got == wanted) {
        printf("%lld\n", (long long)(now_us() - first_us));
        fflush(stdout);
        got = 0;
    }
}

int main(int argc, char **argv)
{
    const bool never = false;
    wanted = argc == 2 ? atoll(argv[1]) : 0;
    if (wanted <= 0) {
        fprintf(stderr, "usage: receiver COUNT\n");
        return 2;
    }
    load_init();
    printf("%d\n", sink_open(on_request));
    fflush(stdout);
    for (;;)
        load_run(3600 * 1000000LL, &never);
}
