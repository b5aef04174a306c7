/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_slots.c - limits the number of connections.
 *
 * Above connections_max each new connection closes the longest idle one. If none is idle,
 * the new connection is marked over_limit: it gets one response, a 503 except for rows
 * open to everybody (health probes). At most OVER_LIMIT_MAX such connections are open. A
 * further one closes the oldest connection that has not sent a complete request.
 */
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"
#include "bridge/http/httpd_internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    OVER_LIMIT_MAX = 16,
    CLOSING_MAX = 48, /* in addition: connections that the library is about to close */
    KEY_BYTES = 16,
    NET_BYTES = 8 /* IPv6: a /64 network counts as one client */
};

struct httpd_address {
    unsigned char key[KEY_BYTES];
    unsigned n;
    UT_hash_handle hh;
};

unsigned httpd_slots_max(const struct httpd_opts *opts)
{
    return (unsigned)opts->connections_max + OVER_LIMIT_MAX + CLOSING_MAX;
}

/* --- per address --- */

/* Returns false for a connection without address (Unix socket). */
static bool key_of(const struct sockaddr *addr, unsigned char key[KEY_BYTES])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    memset(key, 0, KEY_BYTES);
    if (addr && addr->sa_family == AF_INET) {
        memcpy(key, mapped, sizeof(mapped));
        memcpy(key + sizeof(mapped), &((const struct sockaddr_in *)addr)->sin_addr, 4);
        return true;
    }
    if (addr == NULL || addr->sa_family != AF_INET6)
        return false;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)addr)->sin6_addr;
    memcpy(key, a, IN6_IS_ADDR_V4MAPPED(a) ? KEY_BYTES : NET_BYTES);
    return true;
}

static struct httpd_address *enter(struct httpd *h, struct MHD_Connection *mc)
{
    unsigned char key[KEY_BYTES];
    struct httpd_address *address;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!key_of(info ? info->client_addr : NULL, key))
        return NULL;
    HASH_FIND(hh, h->addresses, key, KEY_BYTES, address);
    if (address == NULL) {
        address = mem_alloc(sizeof(*address));
        memcpy(address->key, key, KEY_BYTES);
        HASH_ADD(hh, h->addresses, key, KEY_BYTES, address);
    }
    address->n++;
    return address;
}

static void log_crowded(struct httpd *h, const struct httpd_address *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, address->key, text, sizeof(text));
    log_limited(&h->too_many, LOG_WARN, h->name,
                "%s has %lld connections, the limit connections_per_address: tarry "
                "refuses further connections from it",
                text, (long long)h->opts.connections_per_address);
}

/* --- in total --- */

static unsigned in_use(const struct httpd *h)
{
    unsigned n = 0;
    for (int state = 0; state < CONN_STATES; state++)
        n += state == CLOSING ? 0 : h->conns[state].n;
    return n;
}

bool httpd_slots_full(const struct httpd *h)
{
    return in_use(h) > (unsigned)h->opts.connections_max;
}

static void reject_and_close(struct httpd_conn *conn, enum httpd_refusal what)
{
    httpd_refuse_raw(conn, what);
    httpd_conn_close(conn);
}

/* Closes the connection that has waited longest without sending a complete request. */
static void end_oldest(struct httpd *h, const struct httpd_conn *but)
{
    struct httpd_conn *oldest = h->conns[NEW].first;
    if (oldest == but)
        oldest = h->conns[READING].first;
    if (oldest)
        reject_and_close(oldest, CONNECTIONS_FULL);
}

static void make_room(struct httpd_conn *conn)
{
    struct httpd *h = conn->h;
    struct httpd_conn *idle = h->conns[IDLE].first;
    if (!httpd_slots_full(h))
        return;
    log_limited(&h->full, LOG_WARN, h->name,
                "all %lld connections of connections_max are in use: %s",
                (long long)h->opts.connections_max,
                idle ? "tarry closes idle connections to accept new ones"
                     : "tarry answers only probes, and other requests with 503");
    if (idle) {
        httpd_count(IDLE_CLOSED);
        httpd_conn_close(idle);
        return;
    }
    conn->over_limit = true;
    if (in_use(h) > (unsigned)h->opts.connections_max + OVER_LIMIT_MAX)
        end_oldest(h, conn);
}

void httpd_slots_enter(struct httpd_conn *conn, struct MHD_Connection *mc)
{
    struct httpd *h = conn->h;
    int64_t most = h->opts.connections_per_address;
    conn->address = enter(h, mc);
    if (most > 0 && conn->address && conn->address->n > most) {
        log_crowded(h, conn->address);
        reject_and_close(conn, TOO_MANY_CONNECTIONS);
    } else {
        make_room(conn);
    }
}

void httpd_slots_leave(struct httpd_conn *conn)
{
    struct httpd_address *address = conn->address;
    if (address == NULL || --address->n > 0)
        return;
    HASH_DELETE(hh, conn->h->addresses, address);
    free(address);
}
