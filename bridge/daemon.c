/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/daemon.h"
#include "bridge/admin.h"
#include "bridge/alive.h"
#include "bridge/bridge.h"
#include "bridge/core.h"
#include "bridge/drain.h"
#include "bridge/embedded.h"
#include "bridge/httpd.h"
#include "bridge/inst.h"
#include "bridge/meta_keep.h"
#include "bridge/pace.h"
#include "bridge/queue_place.h"
#include "bridge/sched.h"
#include "bridge/shelf_told.h"
#include "bridge/version.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_UNAVAILABLE = 69, EXIT_BY_FORCE = 70, EXIT_CONF = 78 };
enum { SECOND_SIGNAL_MS = 200 };

struct daemon {
    struct bridge bridge;
    bool started; /* sources and sinks are */
    int exit_code;
    int64_t stop_begun_ms; /* monotonic */
};

static void on_drained(void *arg, int outcome)
{
    struct daemon *daemon = arg;
    if (outcome < 0)
        daemon->exit_code = EXIT_BY_FORCE;
    log_info("daemon", "stopped");
    loop_stop();
}

static void each_sched(struct bridge *bridge, void (*what)(struct sched *s))
{
    for (size_t i = 0; i < bridge->route_count; i++)
        for (int64_t b = 0; b < bridge->routes[i]->bucket_count; b++)
            what(bridge->routes[i]->scheds[b]);
}

/* --- what the store and the other instances tell --- */

static void on_instances(void *arg)
{
    each_sched(arg, sched_moved);
}

static void on_store_up(void *arg)
{
    struct daemon *daemon = arg;
    struct bridge *bridge = &daemon->bridge;
    struct err err;
    if (!daemon->started) {
        daemon->started = true;
        if (inst_start(bridge, &err) < 0) {
            log_error("daemon", "%s", err.text);
            daemon->exit_code = EXIT_UNAVAILABLE;
            drain_start(bridge, on_drained, daemon);
            return;
        }
        log_info("daemon", "started: %zu sources, %zu sinks, %zu routes",
                 bridge->source_count, bridge->sink_count, bridge->route_count);
    }
    alive_join(bridge->alive); /* before the buckets are looked at */
    each_sched(bridge, sched_start);
    for (size_t i = 0; i < bridge->route_count; i++)
        if (bridge->routes[i]->pace)
            pace_start(bridge->routes[i]->pace);
    queue_look_all(bridge);
}

static void on_store_down(void *arg, const char *why)
{
    (void)arg;
    (void)why; /* the turn hook holds the sources back */
}

static void on_told(void *arg, struct slice name)
{
    struct daemon *daemon = arg;
    alive_told(daemon->bridge.alive, name);
    shelf_told(&daemon->bridge, name);
    pace_told(&daemon->bridge, name);
}

static void on_unfit(void *arg, const char *why)
{
    struct daemon *daemon = arg;
    log_error("daemon", "%s", why);
    daemon->exit_code = EXIT_CONF;
    if (!daemon->bridge.draining)
        drain_start(&daemon->bridge, on_drained, daemon);
}

static void on_pool_up(void *arg)
{
    struct daemon *daemon = arg;
    if (!daemon->started)
        return;
    queue_look_all(&daemon->bridge);
}

/* --- every turn, every second --- */

static void tell_pause(struct bridge *bridge, bool pause)
{
    const char *why = store_trouble(bridge->store);
    if (pause && !bridge->draining)
        log_limited(&bridge->complain_paused, LOG_WARN, "daemon", "sources held back: %s",
                    *why ? why : "too many jobs on their way");
    else if (!pause)
        log_limited(&bridge->complain_resumed, LOG_INFO, "daemon", "sources go on");
}

static void on_turn(void *arg)
{
    struct bridge *bridge = arg;
    for (size_t i = 0; i < bridge->sink_count; i++)
        sched_credit(bridge->sinks[i]);
    queue_turn(bridge);
    bool pause = bridge->draining ||
                 flow_wants_pause(&bridge->flow, store_takes_jobs(bridge->store) &&
                                                     meta_is_ready(bridge->meta));
    if (pause != bridge->flow.paused)
        tell_pause(bridge, pause);
    bridge->flow.paused = pause;
    inst_pause_sources(bridge, pause); /* also those that started meanwhile */
}

static void on_tick(void *arg)
{
    struct bridge *bridge = arg;
    alive_beat(bridge->alive);
    each_sched(bridge, sched_tick);
    queue_tick(bridge);
    meta_tick(bridge->meta);
    for (size_t i = 0; i < bridge->pool_count; i++)
        meta_tick(bridge->pools[i].meta);
}

/* --- signals --- */

static void on_stop_signal(void *arg, int signo)
{
    struct daemon *daemon = arg;
    if (daemon->bridge.draining) {
        /* timeout(1) and a terminal send the same signal twice at once */
        if (loop_mono_ms() - daemon->stop_begun_ms < SECOND_SIGNAL_MS)
            return;
        log_warn("daemon", "second signal: leaving at once");
        _exit(EXIT_BY_FORCE);
    }
    log_info("daemon", "signal %d: stopping", signo);
    daemon->stop_begun_ms = loop_mono_ms();
    drain_start(&daemon->bridge, on_drained, daemon);
}

/* --- start --- */

static int start_httpd(struct bridge *bridge, struct err *err)
{
    const struct conf_http *c = &bridge->conf->http;
    if (c->listen == NULL || *c->listen == '\0')
        return 0;
    const struct httpd_conf conf = {.listen = c->listen,
                                    .body_max = c->body_max_bytes,
                                    .bodies_max = bridge->conf->daemon.queue_max_bytes,
                                    .deadline_ms = c->deadline_ms,
                                    .idle_ms = c->idle_ms,
                                    .connections_max = (unsigned)c->connections_max};
    bridge->httpd = httpd_start(&conf, err);
    if (bridge->httpd == NULL)
        return err_in(err, "http");
    admin_serve(bridge);
    log_info("http", "listens on %s", c->listen);
    return 0;
}

static int start(struct daemon *daemon, struct err *err)
{
    static const struct core_events events = {on_store_up, on_store_down, on_told,
                                              on_pool_up, on_unfit};
    struct bridge *bridge = &daemon->bridge;
    struct conf *conf = bridge->conf;
    bridge->claiming = bridge->serves = true;
    bridge->flow.max_jobs = conf->daemon.queue_max_jobs;
    bridge->flow.max_bytes = conf->daemon.queue_max_bytes;
    if (core_start(bridge, &events, daemon, err) < 0)
        return -1;
    bridge->alive = alive_new(bridge, on_instances, bridge);
    /* Before the listeners: what their hooks bring is seen to in the same turn. */
    bridge->hook = loop_each_turn(on_turn, bridge);
    if (start_httpd(bridge, err) < 0)
        return -1;
    httpd_set_bodies_max(conf->daemon.queue_max_bytes);
    /* Who asks is told that Redis is away, rather than that nobody is there. */
    if (inst_start_answering(bridge, err) < 0)
        return -1;
    bridge->flow.paused = true;
    bridge->tick = timer_every(SCHED_TICK_MS, on_tick, bridge);
    loop_on_signal(SIGTERM, on_stop_signal, daemon);
    loop_on_signal(SIGINT, on_stop_signal, daemon);
    return 0;
}

static void on_embedded_stopped(void *arg)
{
    (void)arg;
    loop_stop();
}

/* Undoes any part of start(). */
static void release(struct bridge *bridge)
{
    turn_hook_del(bridge->hook);
    timer_del(bridge->tick);
    core_release(bridge);
    alive_free(bridge->alive);
    httpd_stop(bridge->httpd);
    if (bridge->embedded) {
        embedded_stop(bridge->embedded, on_embedded_stopped, NULL);
        loop_run();
    }
}

int daemon_run(const char *conf_file)
{
    struct daemon daemon = {0};
    struct err err;
    daemon.bridge.conf = conf_open(conf_file);
    if (daemon.bridge.conf == NULL)
        return EXIT_CONF;
    log_set_level((enum log_level)daemon.bridge.conf->daemon.log_level);
    log_info("daemon", "tarry %s, %s", TARRY_VERSION, conf_file);
    loop_init();
    if (start(&daemon, &err) < 0) {
        log_error("daemon", "%s", err.text);
        daemon.exit_code = EXIT_UNAVAILABLE;
        inst_stop_sources(&daemon.bridge);
    } else {
        loop_run();
    }
    if (daemon.exit_code == EXIT_BY_FORCE)
        _exit(
            EXIT_BY_FORCE); /* plugins still run: nothing can be taken from under them */
    release(&daemon.bridge);
    conf_free(daemon.bridge.conf);
    loop_fini();
    return daemon.exit_code;
}
