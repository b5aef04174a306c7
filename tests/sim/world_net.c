/* SPDX-License-Identifier: BSD-2-Clause */
/* world_net.c - connections between cores and the Redis servers: delays, cuts, lost
 * replies. */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <stdlib.h>
#include <sys/queue.h>

#define QUIET_CUT_US (20 * SECOND) /* the server notices it within */

struct conn {
    TAILQ_ENTRY(conn) link;
    struct sim_core *core;
    struct server *server; /* NULL: there is none at the address */
    unsigned life, number;
    bool listed;
    void *net;                /* of the core; NULL: the core has closed it */
    struct redis_conn *redis; /* NULL: not connected */
    int64_t latency_us;
    int64_t up_us,
        down_us; /* arrival of the last bytes, per direction: they stay in order */
    int64_t up_until_us, down_until_us; /* a cut: later bytes are lost */
    int64_t held_until_us;              /* the core's end receives nothing before */
};
static TAILQ_HEAD(conns, conn) conns = TAILQ_HEAD_INITIALIZER(conns);
static unsigned conn_numbers;
static int64_t blocked_until_us[CORES_MAX][SERVERS_MAX];

struct parcel {
    struct conn *conn;
    enum event_kind kind;
    size_t n;
    char bytes[];
};

/* ------------------------------------------------------------------- to the core */

static struct parcel *parcel_new(struct conn *conn, enum event_kind kind,
                                 struct slice bytes)
{
    struct parcel *p = mem_alloc(sizeof(*p) + bytes.n);
    p->conn = conn;
    p->kind = kind;
    p->n = bytes.n;
    slice_put(p->bytes, bytes);
    return p;
}

static void arrive_at_core(void *arg, int64_t number)
{
    (void)number;
    struct parcel *p = arg;
    struct conn *conn = p->conn;
    bool is_lost = conn->net == NULL || !conn->core->alive ||
                   conn->core->life != conn->life ||
                   (p->kind != EVENT_CLOSED && world.now_us > conn->down_until_us);
    if (!is_lost)
        core_event(
            conn->core,
            &(struct event){.kind = p->kind, .of = conn->net, .bytes = {p->bytes, p->n}});
    free(p);
}

static int64_t delay_of(const struct conn *conn)
{
    return conn->latency_us + skewed(1, 20 * conn->latency_us);
}

static void send_down(struct conn *conn, enum event_kind kind, struct slice bytes)
{
    int64_t us = world.now_us + delay_of(conn);
    us = us > conn->down_us ? us : conn->down_us;
    us = us > conn->held_until_us ? us : conn->held_until_us;
    conn->down_us = us;
    at(us, arrive_at_core, parcel_new(conn, kind, bytes), 0);
}

/* Sometimes in two parts, as a stream may. */
static void on_output(void *arg, struct slice bytes)
{
    struct conn *conn = arg;
    if (bytes.n > 1 && one_in(20)) {
        size_t n = (size_t)between(1, (int64_t)bytes.n - 1);
        send_down(conn, EVENT_DATA, (struct slice){bytes.p, n});
        bytes = (struct slice){bytes.p + n, bytes.n - n};
    }
    send_down(conn, EVENT_DATA, bytes);
}

/* ------------------------------------------------------------------ to the server */

static void disconnect(struct conn *conn)
{
    redis_model_disconnect(conn->redis);
    conn->redis = NULL;
}

static void arrive_at_server(void *arg, int64_t number)
{
    struct parcel *p = arg;
    struct conn *conn = p->conn;
    (void)number;
    if (conn->redis && world.now_us <= conn->up_until_us) {
        server_tick(conn->server);
        const struct redis_faults *faults = redis_model_faults(conn->server->redis);
        unsigned fails = faults->script_fails;
        redis_model_feed(conn->redis, (struct slice){p->bytes, p->n});
        if (faults->script_fails < fails)
            conn->server->script_failed_us = world.now_us;
        int64_t pausing_us = world.pausing_us;
        if (fails > 0 && faults->script_fails == 0 && !conn->server->fails_move)
            fault("Redis fails no more calls of a script");
        if (conn->server->pauses_nobody)
            world.pausing_us = pausing_us;
        replicas_note_command(conn->server);
        world.totals.redis_commands++;
    }
    free(p);
}

void conn_send(struct conn *conn, struct slice bytes)
{
    int64_t us = world.now_us + delay_of(conn);
    conn->up_us = us = us > conn->up_us ? us : conn->up_us;
    at(us, arrive_at_server, parcel_new(conn, EVENT_DATA, bytes), 0);
}

static void connect_now(void *arg, int64_t number)
{
    struct conn *conn = arg;
    (void)number;
    if (conn->net == NULL || !conn->core->alive || conn->core->life != conn->life)
        return;
    if (conn->server &&
        world.now_us < blocked_until_us[conn->core->index][conn->server->index])
        return;
    if (conn->server == NULL || conn->server->down) {
        send_down(conn, EVENT_CLOSED, SLICE_LIT("connect: Connection refused"));
        return;
    }
    conn->redis = redis_model_connect(conn->server->redis, on_output, conn);
    send_down(conn, EVENT_OPEN, (struct slice){"", 0});
}

struct conn *conn_open(struct sim_core *core, void *net, const char *host,
                       const char *port)
{
    struct conn *conn = mem_alloc(sizeof(*conn));
    conn->core = core;
    conn->server = server_at(host, port);
    conn->life = core->life;
    conn->net = net;
    conn->number = ++conn_numbers;
    conn->latency_us = between(20, world.plan.latency_max_us);
    conn->up_until_us = conn->down_until_us = NEVER;
    conn->listed = true;
    TAILQ_INSERT_TAIL(&conns, conn, link);
    after(delay_of(conn), connect_now, conn, 0);
    return conn;
}

/* The server sees the end after the bytes that were sent before it. */
static void end_at_server(void *arg, int64_t number)
{
    struct conn *conn = arg;
    (void)number;
    disconnect(conn);
    if (conn->net == NULL && conn->listed)
        TAILQ_REMOVE(&conns, conn, link);
    conn->listed = conn->listed && conn->net != NULL;
}

static void leave_server(struct conn *conn, int64_t after_us)
{
    int64_t us = world.now_us + after_us;
    at(us > conn->up_us ? us : conn->up_us, end_at_server, conn, 0);
}

void conn_close(struct conn *conn)
{
    if (conn == NULL || conn->net == NULL)
        return;
    core_forget(conn->core, conn->net);
    conn->net = NULL;
    leave_server(conn, 0);
}

/* -------------------------------------------------------------------------- faults */

/* An earlier cut remains: no bytes arrive behind lost ones. */
static void cut_at(int64_t *until_us, int64_t us)
{
    *until_us = us < *until_us ? us : *until_us;
}

/* What a process had written before its end still arrives, up to a point. */
void conns_of_dead(struct sim_core *core)
{
    struct conn *conn;
    TAILQ_FOREACH (conn, &conns, link) {
        if (conn->core != core || conn->net == NULL)
            continue;
        conn->net = NULL;
        cut_at(&conn->up_until_us, one_in(2) ? NEVER : world.now_us + between(0, 2 * MS));
        leave_server(conn, between(0, 3 * MS));
    }
}

void conns_cut(struct sim_core *core, bool quietly)
{
    struct conn *conn;
    fault_of(core, world.now_us + (quietly ? QUIET_CUT_US : 0),
             "the connections of core%u are cut%s", core->index,
             quietly ? ", and nobody is told" : "");
    TAILQ_FOREACH (conn, &conns, link) {
        if (conn->core != core || conn->net == NULL)
            continue;
        /* Either direction may still work for a moment, so a reply is lost though the
         * command was executed. */
        cut_at(&conn->up_until_us, world.now_us + between(0, 3 * MS));
        cut_at(&conn->down_until_us,
               world.now_us + (one_in(2) ? between(0, 2 * MS) : -1));
        leave_server(conn, quietly ? between(0, QUIET_CUT_US) : between(0, 5 * MS));
        if (!quietly)
            send_down(conn, EVENT_CLOSED, SLICE_LIT("Connection reset by peer"));
    }
}

void conns_block(struct sim_core *core, struct server *s, int64_t until_us)
{
    struct conn *conn;
    fault_of(core, until_us + QUIET_CUT_US, "core%u does not reach Redis %u for %lld ms",
             core->index, s->index, (long long)(until_us - world.now_us) / 1000);
    blocked_until_us[core->index][s->index] = until_us;
    TAILQ_FOREACH (conn, &conns, link) {
        if (conn->core != core || conn->server != s || conn->net == NULL)
            continue;
        cut_at(&conn->up_until_us, world.now_us - 1);
        cut_at(&conn->down_until_us, world.now_us - 1);
        leave_server(conn, between(0, QUIET_CUT_US));
    }
}

void conns_slow(struct sim_core *core, int64_t until_us)
{
    struct conn *conn;
    fault_of(core, until_us, "the replies to core%u are held for %lld ms", core->index,
             (long long)(until_us - world.now_us) / 1000);
    TAILQ_FOREACH (conn, &conns, link) {
        if (conn->core == core)
            conn->held_until_us = until_us;
    }
}

void conns_of_crashed(struct server *s)
{
    struct conn *conn;
    TAILQ_FOREACH (conn, &conns, link) {
        if (conn->server != s)
            continue;
        disconnect(conn);
        cut_at(&conn->up_until_us, -1);
        cut_at(&conn->down_until_us,
               world.now_us + (one_in(2) ? between(0, 2 * MS) : -1));
        send_down(conn, EVENT_CLOSED, SLICE_LIT("Connection reset by peer"));
    }
}
