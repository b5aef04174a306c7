/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/daemon.h"
#include "bridge/admin.h"
#include "bridge/bridge.h"
#include "bridge/drain.h"
#include "bridge/embedded.h"
#include "bridge/httpd.h"
#include "bridge/inst.h"
#include "bridge/route.h"
#include "bridge/sched.h"
#include "bridge/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
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

/* --- what the store tells --- */

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
    for (size_t i = 0; i < bridge->route_count; i++)
        for (int64_t b = 0; b < bridge->routes[i].conf->buckets; b++)
            sched_start(&bridge->routes[i].scheds[b]);
}

static void on_store_down(void *arg, const char *why)
{
    (void)arg;
    (void)why; /* the turn hook holds the sources back */
}

static void on_head(void *arg, struct bucket *b, int64_t head_ms)
{
    (void)arg;
    sched_head(bucket_owner(b), head_ms);
}

static void on_woken(void *arg, struct bucket *b)
{
    (void)arg;
    sched_look(bucket_owner(b));
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
        sched_credit(&bridge->sinks[i]);
    bool pause = bridge->draining ||
                 flow_wants_pause(&bridge->flow, store_takes_jobs(bridge->store));
    if (pause != bridge->flow.paused)
        tell_pause(bridge, pause);
    bridge->flow.paused = pause;
    inst_pause_sources(bridge, pause); /* also those that started meanwhile */
}

static void on_tick(void *arg)
{
    struct bridge *bridge = arg;
    for (size_t i = 0; i < bridge->route_count; i++)
        for (int64_t b = 0; b < bridge->routes[i].conf->buckets; b++)
            sched_tick(&bridge->routes[i].scheds[b]);
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

static int set_redis_url(struct daemon *daemon, struct redis_url *url, struct err *err)
{
    const struct conf_redis *conf = &daemon->bridge.conf->redis;
    if (strcmp(conf->url, "embedded") != 0)
        return redis_url_parse(conf->url, url, err);
    daemon->bridge.embedded = embedded_start(conf->server, conf->dir, err);
    if (daemon->bridge.embedded == NULL)
        return -1;
    return redis_url_parse(embedded_url(daemon->bridge.embedded), url, err);
}

static int start_store(struct daemon *daemon, struct err *err)
{
    static const struct store_events events = {on_store_up, on_store_down, on_head,
                                               on_woken};
    struct bridge *bridge = &daemon->bridge;
    const struct conf_redis *c = &bridge->conf->redis;
    char instance[32];
    snprintf(instance, sizeof(instance), "%010llx", (unsigned long long)bridge->instance);
    struct store_conf conf = {
        .redis = {.ca_file = c->ca_file,
                  .cert_file = c->cert_file,
                  .key_file = c->key_file,
                  .connect_timeout_ms = c->connect_timeout_ms,
                  .command_timeout_ms = c->command_timeout_ms,
                  .backoff_first_ms = c->backoff_first_ms,
                  .backoff_max_ms = c->backoff_max_ms,
                  .client_name = "tarry"},
        .prefix = c->prefix,
        .instance = instance,
        .batch_max = (unsigned)bridge->conf->daemon.batch_max_jobs,
    };
    if (set_redis_url(daemon, &conf.redis.url, err) < 0)
        return err_in(err, "redis");
    bridge->store = store_new(&conf, &events, daemon);
    redis_url_free(&conf.redis.url);
    return 0;
}

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
    struct bridge *bridge = &daemon->bridge;
    struct conf *conf = bridge->conf;
    bridge->claiming = true;
    bridge->flow.max_jobs = conf->daemon.queue_max_jobs;
    bridge->flow.max_bytes = conf->daemon.queue_max_bytes;
    if (getrandom(&bridge->instance, 5, 0) != 5)
        return err_set(err, "getrandom: %s", strerror(errno));
    srand((unsigned)bridge->instance);
    inst_init(bridge);
    if (start_store(daemon, err) < 0)
        return -1;
    bridge->route_count = conf->route_count;
    bridge->routes = mem_alloc(conf->route_count * sizeof(*bridge->routes));
    for (size_t i = 0; i < conf->route_count; i++)
        if (route_init(&bridge->routes[i], bridge, &conf->routes[i], err) < 0)
            return -1;
    if (start_httpd(bridge, err) < 0)
        return -1;
    bridge->hook = loop_each_turn(on_turn, bridge);
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
    store_free(bridge->store);
    httpd_stop(bridge->httpd);
    for (size_t i = 0; bridge->routes && i < bridge->route_count; i++)
        route_fini(&bridge->routes[i]);
    free(bridge->routes);
    inst_fini(bridge);
    if (bridge->embedded) {
        embedded_stop(bridge->embedded, on_embedded_stopped, NULL);
        loop_run();
    }
}

int daemon_run(const char *conf_file)
{
    struct daemon daemon = {0};
    struct buf errors = {0};
    struct err err;
    daemon.bridge.conf = conf_read(conf_file, &errors);
    if (daemon.bridge.conf == NULL) {
        fputs(buf_str(&errors), stderr);
        buf_free(&errors);
        return EXIT_CONF;
    }
    buf_free(&errors);
    log_set_level((enum log_level)daemon.bridge.conf->daemon.log_level);
    log_info("daemon", "tarry %s, %s", TARRY_VERSION, conf_file);
    loop_init();
    if (start(&daemon, &err) < 0) {
        log_error("daemon", "%s", err.text);
        daemon.exit_code = EXIT_UNAVAILABLE;
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
