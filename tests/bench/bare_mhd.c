/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bare_mhd.c - the limit of libmicrohttpd on this machine. It reads a request with its
 * body and answers as tarry does for a stored job, without storing anything.
 *
 *   bare_mhd
 *
 * Prints the port that it listens on, and serves until its standard input ends.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

#define ID "01jd9c7m3x0000000000000001"
static char answer[] = "{\"id\":\"" ID "\",\"due\":\"2026-11-22T05:15:10.000Z\"}\n";
static char taken; /* the body of this request has been read */

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mc, const char *url,
                                  const char *method, const char *version,
                                  const char *bytes, size_t *n, void **context)
{
    (void)arg, (void)url, (void)method, (void)version, (void)bytes;
    if (*context == NULL) {
        *context = &taken;
        return MHD_YES;
    }
    if (*n > 0) {
        *n = 0;
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof(answer) - 1, answer, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "Location", "/v1/routes/bench/jobs/" ID);
    enum MHD_Result queued = MHD_queue_response(mc, MHD_HTTP_CREATED, response);
    MHD_destroy_response(response);
    return queued;
}

int main(void)
{
    struct MHD_Daemon *mhd = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL,
                                              NULL, on_request, NULL, MHD_OPTION_END);
    if (mhd == NULL)
        return 1;
    printf("%d\n", MHD_get_daemon_info(mhd, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    char end;
    while (read(STDIN_FILENO, &end, 1) > 0)
        ;
    MHD_stop_daemon(mhd);
    return 0;
}
