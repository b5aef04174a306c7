/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/daemon/daemon.h"
#include "bridge/admin/admin.h"
#include "bridge/engine/membership.h"
#include "bridge/base/notify.h"
#include "bridge/engine/bridge.h"
#include "bridge/conf/conf.h"
#include "bridge/engine/core.h"
#include "bridge/engine/deliver.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/meta.h"
#include "bridge/engine/pace.h"
#include "bridge/queue/queue_place.h"
#include "bridge/redis/embedded.h"
#include "bridge/daemon/reload.h"
#include "bridge/engine/sched.h"
#include "bridge/engine/kv.h"
#include "bridge/base/version.h"
#include "bridge/trace/trace.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXIT_UNAVAILABLE = 69, EXIT_BY_FORCE = 70, EXIT_CONF = 78 };
enum { SECOND_SIGNAL_MS = 200, LOADING_MS = 30000 };
_Static_assert((int)SCHED_TICK_MS == (int)NOTIFY_WATCHDOG_MS,
               "each tick pings the watchdog");

struct daemon {
    struct bridge bridge;
    bool ready; /* READY was sent to the service manager */
    int exit_code;
    int64_t stop_asked_ms; /* monotonic time of the first stop signal; 0: none */
};

static void on_drained(void *arg, int outcome)
{
    struct daemon *daemon = arg;
    if (outcome < 0)
        daemon->exit_code = EXIT_BY_FORCE;
    log_info("daemon", "stopped");
    loop_stop();
}

static void stop(struct daemon *daemon)
{
    if (daemon->bridge.draining)
        return;
    drain_start(&daemon->bridge, on_drained, daemon);
    reload_end(daemon->bridge.reload);
}

/* Stops in order after a required part failed to start. */
static void fail_start(struct daemon *daemon, const struct err *err)
{
    log_error("daemon", "%s", err->text);
    notify_status(err->text);
    daemon->exit_code = EXIT_UNAVAILABLE;
    stop(daemon);
}

/* --- events from the store and other instances --- */

static void on_store_up(void *arg)
{
    struct daemon *daemon = arg;
    struct bridge *bridge = &daemon->bridge;
    struct err err;
    if (bridge->draining)
        return; /* nothing was started, so nothing must stop */
    if (!bridge->started) {
        bridge->started = true;
        if (inst_start(bridge, &err) < 0) {
            fail_start(daemon, &err);
            return;
        }
        bridge->claiming = true; /* only once the sinks exist */
        log_info("daemon", "started: %zu sources, %zu sinks, %zu routes",
                 bridge->conf->source_count, bridge->conf->sink_count,
                 bridge->conf->route_count);
        past_read(bridge);
    } else {
        marks_add(&bridge->marks, store_now_ms(bridge->store), MARK_RECONNECTION, NULL,
                  SLICE_LIT("Redis is reachable again"));
    }
    membership_routes_changed(
        bridge->membership);             /* the numbers of buckets are known now */
    membership_join(bridge->membership); /* before looking at the buckets */
    route_states_read(bridge->states);
    EACH_ROUTE (bridge, route)
        route_start(route);
    queue_look_all(bridge);
}

static void on_notified(void *arg, struct slice name)
{
    struct daemon *daemon = arg;
    membership_notified(daemon->bridge.membership, name);
    route_states_notified(daemon->bridge.states, name);
    kv_notified(&daemon->bridge, name);
    pace_notified(&daemon->bridge, name);
}

static void on_incompatible(void *arg, const char *why)
{
    struct daemon *daemon = arg;
    log_error("daemon", "%s", why);
    daemon->exit_code = EXIT_CONF;
    stop(daemon);
}

static void on_pool_up(void *arg)
{
    struct daemon *daemon = arg;
    if (!daemon->bridge.started)
        return;
    marks_add(&daemon->bridge.marks, store_now_ms(daemon->bridge.store),
              MARK_RECONNECTION, NULL, SLICE_LIT("a Redis of pools is reachable again"));
    queue_look_all(&daemon->bridge);
}

/* --- every turn, every second --- */

static const char *why_paused(const struct bridge *bridge)
{
    const char *why = store_trouble(bridge->store);
    return *why ? why
                : "too many jobs are waiting for Redis (daemon.queue_max_jobs, "
                  "daemon.queue_max)";
}

static void log_pause(struct bridge *bridge, bool pause)
{
    if (pause && !bridge->draining)
        log_limited(&bridge->complain_paused, LOG_WARN, "daemon", "sources paused: %s",
                    why_paused(bridge));
    else if (!pause)
        log_limited(&bridge->complain_resumed, LOG_INFO, "daemon", "sources resumed");
}

/* Not in on_store_up(): a job that arrives immediately after it would be rejected with
 * "try again". */
static void notify_when_ready(struct daemon *daemon)
{
    const struct bridge *bridge = &daemon->bridge;
    if (daemon->ready || !bridge->started || !route_states_known(bridge->states))
        return;
    daemon->ready = true;
    notify_ready();
}

static void on_turn(void *arg)
{
    struct daemon *daemon = arg;
    struct bridge *bridge = &daemon->bridge;
    EACH_SINK (bridge, sink)
        sched_credit(sink);
    queue_turn(bridge);
    bool pause = bridge->draining || !route_states_known(bridge->states) ||
                 flow_wants_pause(&bridge->flow, store_accepts_jobs(bridge->store) &&
                                                     meta_is_ready(bridge->meta));
    if (pause != bridge->flow.paused)
        log_pause(bridge, pause);
    bridge->flow.paused = pause;
    inst_pause_sources(bridge, pause); /* also sources started in the meantime */
    notify_when_ready(daemon);
}

/* The service manager shows the status line and kills a daemon that sends no watchdog
 * ping. */
static void notify_manager(const struct daemon *daemon)
{
    const struct bridge *bridge = &daemon->bridge;
    const char *why = store_trouble(bridge->store);
    char text[256];
    if (bridge->draining)
        snprintf(text, sizeof(text), "stopping: finishing open work");
    else if (!daemon->bridge.started)
        snprintf(text, sizeof(text), "waiting for Redis: %s", why);
    else if (bridge->flow.paused)
        snprintf(text, sizeof(text), "sources paused: %s", why_paused(bridge));
    else
        snprintf(text, sizeof(text), "%zu sources, %zu sinks, %zu routes",
                 bridge->conf->source_count, bridge->conf->sink_count,
                 bridge->conf->route_count);
    if (!daemon->bridge.started && strstr(why, "LOADING"))
        notify_extend(LOADING_MS); /* Redis is loading: do not time out and restart */
    notify_status(text);
    notify_watchdog();
}

static void on_tick(void *arg)
{
    struct daemon *daemon = arg;
    struct bridge *bridge = &daemon->bridge;
    membership_report(bridge->membership);
    route_states_tick(bridge->states);
    deliver_tick(bridge);
    EACH_ROUTE (bridge, route) {
        EACH_SCHED (route, s)
            sched_tick(s);
        recent_tick(&route->recent, &route->stats.lateness, loop_mono_ms());
    }
    queue_tick(bridge);
    past_tick(bridge);
    EACH_POOL (bridge, pool)
        meta_tick(pool->meta);
    notify_manager(daemon); /* last, after all other ticks succeeded */
}

/* --- signals --- */

static void on_stop_signal(void *arg, int signo)
{
    struct daemon *daemon = arg;
    if (daemon->stop_asked_ms > 0) {
        /* timeout(1) and terminals may send the same signal twice at once */
        if (loop_mono_ms() - daemon->stop_asked_ms < SECOND_SIGNAL_MS)
            return;
        log_warn("daemon", "second signal: exiting immediately");
        _exit(EXIT_BY_FORCE);
    }
    log_info("daemon", "signal %d: stopping", signo);
    daemon->stop_asked_ms = loop_mono_ms();
    stop(daemon);
}

/* Blocks SIGHUP outside the loop: an early or late reload request stays pending instead
 * of killing the daemon. */
static void block_reload_signal(bool held)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(held ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void on_reload_signal(void *arg, int signo)
{
    struct daemon *daemon = arg;
    (void)signo;
    reload_ask(daemon->bridge.reload, NULL, NULL);
}

/* --- start --- */

/* Opens the daemon's own listeners. Sources add their rows later. */
static int start_listeners(struct bridge *bridge, struct err *err)
{
    if (listeners_start(&bridge->listeners, bridge->conf, err) < 0)
        return -1;
    if (bridge->listeners.first)
        admin_serve(bridge, &reload_admin);
    return 0;
}

static int start(struct daemon *daemon, struct err *err)
{
    static const struct core_events events = {on_store_up, on_notified, on_pool_up,
                                              on_incompatible};
    struct bridge *bridge = &daemon->bridge;
    struct conf *conf = bridge->conf;
    bridge->serves = true;
    bridge->flow.max_jobs = conf->daemon.queue_max_jobs;
    bridge->flow.max_bytes = conf->daemon.queue_max_bytes;
    if (core_start(bridge, &events, daemon, err) < 0)
        return -1;
    bridge->membership = membership_new(bridge);
    bridge->states = route_states_new(bridge);
    /* Before the listeners: work that their hooks submit is handled in the same turn. */
    bridge->hook = loop_each_turn(on_turn, daemon);
    bridge->started_ms = loop_mono_ms();
    past_start(bridge);
    bridge->tracer = tracer_new(&conf->otlp, bridge->instance);
    if (start_listeners(bridge, err) < 0)
        return -1;
    bridge->flow.paused = true;
    bridge->tick = timer_every(SCHED_TICK_MS, on_tick, daemon);
    loop_on_signal(SIGTERM, on_stop_signal, daemon);
    loop_on_signal(SIGINT, on_stop_signal, daemon);
    loop_on_signal(SIGHUP, on_reload_signal, daemon);
    block_reload_signal(false);
    /* Start answering now: clients receive "Redis is unreachable" instead of a refused
     * connection. */
    if (inst_start_answering(bridge, err) < 0)
        fail_start(daemon, err);
    return 0;
}

static void on_embedded_stopped(void *arg)
{
    (void)arg;
    loop_stop();
}

/* Undoes start(), also a partial one. */
static void release(struct bridge *bridge)
{
    turn_hook_del(bridge->hook);
    timer_del(bridge->tick);
    core_release(bridge);
    membership_free(bridge->membership);
    route_states_free(bridge->states);
    ahead_free(bridge->ahead);
    past_free(bridge->past);
    marks_free(&bridge->marks);
    listeners_stop(&bridge->listeners);
    tracer_free(bridge->tracer, true); /* last: it may wait for the collector */
    if (bridge->embedded) {
        embedded_stop(bridge->embedded, on_embedded_stopped, NULL);
        loop_run();
    }
}

static void prepare_process(void)
{
    struct err err;
    block_reload_signal(true);
    if (notify_open(&err) < 0)
        log_warn("daemon", "cannot notify the service manager: %s", err.text);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* children need no privileges either */
}

/* Warns only, because many containers have no other user. */
static void warn_root(void)
{
    if (geteuid() == 0)
        log_warn("daemon",
                 "running as root, which is not necessary; run tarry as its own user");
}

int daemon_run(const char *conf_file)
{
    struct daemon daemon = {0};
    struct err err;
    prepare_process();
    daemon.bridge.conf = conf_open(conf_file);
    if (daemon.bridge.conf == NULL) {
        notify_status("invalid configuration; see the log");
        return EXIT_CONF;
    }
    log_set_level((enum log_level)daemon.bridge.conf->daemon.log_level);
    log_set_format((enum log_format)daemon.bridge.conf->daemon.log_format);
    if (!daemon.bridge.conf->daemon.core_dumps)
        prctl(PR_SET_DUMPABLE, 0); /* our memory contains secrets */
    log_info("daemon", "tarry %s, %s", TARRY_VERSION, conf_file);
    warn_root();
    conf_log_warnings(daemon.bridge.conf);
    loop_init();
    daemon.bridge.reload = reload_new(&daemon.bridge, conf_file);
    if (start(&daemon, &err) < 0) {
        log_error("daemon", "%s", err.text);
        notify_status(err.text);
        daemon.exit_code = EXIT_UNAVAILABLE;
    } else {
        loop_run();
    }
    if (daemon.exit_code == EXIT_BY_FORCE)
        _exit(EXIT_BY_FORCE); /* plugins still run: free nothing that they use */
    release(&daemon.bridge);
    reload_free(daemon.bridge.reload);
    conf_free(daemon.bridge.conf);
    block_reload_signal(true);
    loop_fini();
    notify_close();
    return daemon.exit_code;
}
