/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_check.c - the commands that need no daemon, and `tarry check`, which checks the
 * configuration. --connect also connects to Redis, brokers and callback hosts, but writes
 * nothing.
 */
#include "bridge/base/log.h"
#include "bridge/engine/bridge.h"
#include "bridge/cli/cli.h"
#include "bridge/engine/core.h"
#include "bridge/daemon/daemon.h"
#include "bridge/http/httpd.h"
#include "bridge/job/tmpl.h"
#include "bridge/base/version.h"

#include <sysexits.h>
#include <unistd.h>

int cli_run(struct cli_args *o)
{
    return daemon_run(o->arg[0]);
}

int cli_options(struct cli_args *o)
{
    struct conf *conf = o->arg_count > 0 ? conf_open(o->arg[0]) : NULL;
    if (o->arg_count > 0 && conf == NULL)
        return EX_CONFIG;
    conf_print_options(stdout);
    conf_free(conf);
    return EX_OK;
}

int cli_version(struct cli_args *o)
{
    (void)o;
    version_print(stdout);
    return EX_OK;
}

int cli_worker(struct cli_args *o)
{
    return plugins_worker(o->argc, o->argv);
}

/* --- check --connect --- */

enum { REDIS_TIMEOUT_MS = 5000, LINE_TEXT = 2048 };

struct report {
    bool human;
    unsigned failed;
};

/* --- output --- */

/* Convert to JSON without secrets. Brokers and configurations may contain any bytes. */
static json_t *text_of(const char *text)
{
    char shown[LINE_TEXT];
    json_t *v = json_string(redact_text(shown, sizeof(shown), text));
    return v ? v : json_string("(not UTF-8)");
}

static void add_text(struct buf *line, const char *text)
{
    char shown[LINE_TEXT];
    ctl_text_add(line, slice_of(redact_text(shown, sizeof(shown), text)));
}

/* why: the error; "": success, then said is shown. */
static void report_result(struct report *report, const char *kind, const char *name,
                          const char *what, const char *said, const char *why)
{
    bool good = *why == '\0';
    struct buf line = {0};
    report->failed += !good;
    if (!report->human) {
        json_t *v = json_pack("{ss, ss, so, sb, so, so}", "kind", kind, "name", name,
                              "what", text_of(what), "ok", good, "said", text_of(said),
                              "error", text_of(why));
        ctl_print_json(v, JSON_COMPACT);
        json_decref(v);
        return;
    }
    buf_addf(&line, "%-6s %-6s %s%s", good ? "ok" : "FAILED", kind, name,
             *what ? " " : "");
    add_text(&line, what);
    buf_add_str(&line, ": ");
    add_text(&line, good ? said : why);
    puts(buf_str(&line));
    buf_free(&line);
}

static void show_progress(const char *kind, const char *name)
{
    struct buf text = {0};
    buf_addf(&text, "connecting to %s%s%s ...", kind, *name ? " " : "", name);
    ctl_progress(buf_str(&text));
    buf_free(&text);
}

/* --- Redis --- */

static void report_store(struct report *report, const char *name,
                         const struct conf_redis *c, const struct store *st,
                         const struct err *err)
{
    const char *why = st == NULL || err->text[0] != '\0' ? err->text
                      : store_is_up(st)                  ? ""
                                                         : store_trouble(st);
    report_result(report, "redis", name, c->url, "it responds", why);
}

/* Skip the embedded server: only the daemon starts it. */
static void probe_redis(struct report *report, struct conf *conf)
{
    struct bridge bridge = {.conf = conf, .read_only = true};
    struct tool tool = {.bridge = &bridge};
    struct err err = {""};
    if (strcmp(conf->redis.url, "embedded") == 0) {
        report_result(report, "redis", "redis", "embedded", "the daemon starts it", "");
        return;
    }
    show_progress("redis", "");
    loop_init();
    int code = tool_start(&tool, REDIS_TIMEOUT_MS, &err);
    if (code == EX_UNAVAILABLE && bridge.store)
        err.text[0] = '\0'; /* report_store() shows the error of each store instead */
    ctl_progress(NULL);
    EACH_POOL (&bridge, pool)
        report_store(report, pool->name, pool->conf, pool->store, &err);
    tool_end(&tool);
    loop_fini();
}

/* --- our own listeners --- */

/* Do not bind the address, because the daemon may be running. Check only the files. */
static void probe_listener(struct report *report, const char *name,
                           const struct httpd_opts *opts)
{
    struct err err = {""};
    if (*opts->listen == '\0' || opts->tls_cert == NULL)
        return;
    int bad = httpd_check(opts, &err);
    report_result(report, "listen", name, opts->listen, "its certificate is valid",
                  bad < 0 ? err.text : "");
}

/* --- sources and sinks --- */

static void probe_source(struct report *report, const struct conf_source *source)
{
    struct buf said = {0};
    struct err err = {""};
    if (source->ops->probe == NULL)
        return;
    show_progress("source", source->name);
    int bad = source->ops->probe(source->self, &said, &err);
    ctl_progress(NULL);
    report_result(report, "source", source->name, source->ops->name, buf_str(&said),
                  bad < 0 ? err.text : "");
    buf_free(&said);
}

static void probe_target(struct report *report, const struct conf_sink *sink,
                         const char *text)
{
    struct buf said = {0};
    struct err err = {""};
    struct tmpl *tmpl = text && *text ? tmpl_compile(text, &err) : NULL;
    const struct probe_target target = {.text = tmpl ? tmpl_prefix(tmpl) : SLICE_LIT(""),
                                        .whole = tmpl && tmpl_is_constant(tmpl)};
    show_progress("sink", sink->name);
    int bad = sink->ops->probe(sink->self, &target, &said, &err);
    ctl_progress(NULL);
    report_result(report, "sink", sink->name, text && *text ? text : sink->ops->name,
                  buf_str(&said), bad < 0 ? err.text : "");
    tmpl_free(tmpl);
    buf_free(&said);
}

/* Return the target to which the route, or its dead letters, go in this sink; NULL:
 * none. */
static const char *target_of(const struct conf_route *route, bool dead,
                             const struct conf_sink *sink)
{
    const char *to = dead ? route->dead : route->to;
    const char *topic = dead ? route->dead_topic : route->topic;
    if (to == NULL || strcmp(to, sink->name) != 0)
        return NULL;
    return topic ? topic : sink->ops->target ? sink->ops->target : "";
}

/* True if an earlier route has the same target. Index nth belongs to route nth / 2. */
static bool was_named(const struct conf *conf, const struct conf_sink *sink, size_t nth,
                      const char *target)
{
    for (size_t i = 0; i < nth; i++) {
        const char *earlier = target_of(conf->routes[i / 2], i % 2 == 1, sink);
        if (earlier && strcmp(earlier, target) == 0)
            return true;
    }
    return false;
}

static void probe_sink(struct report *report, const struct conf *conf,
                       const struct conf_sink *sink)
{
    bool used = false;
    if (sink->ops->probe == NULL)
        return;
    for (size_t i = 0; i < 2 * conf->route_count; i++) {
        const char *target = target_of(conf->routes[i / 2], i % 2 == 1, sink);
        if (target == NULL || was_named(conf, sink, i, target))
            continue;
        used = true;
        probe_target(report, sink, target);
    }
    if (!used)
        probe_target(report, sink, NULL);
}

/* Print one line for each check, as a table or as JSON. Returns the number of failures.
 * Modifies conf like a start of the daemon. */
static unsigned probe_all(struct conf *conf, bool human)
{
    struct report report = {.human = human};
    log_set_level(LOG_ERROR);
    probe_listener(&report, "http", &conf->http);
    probe_listener(&report, "admin", &conf->admin);
    probe_redis(&report, conf);
    for (size_t i = 0; i < conf->source_count; i++)
        probe_source(&report, conf->sources[i]);
    for (size_t i = 0; i < conf->sink_count; i++)
        probe_sink(&report, conf, conf->sinks[i]);
    return report.failed;
}

/* --- check --- */

struct check_run {
    const struct cli_args *args;
    unsigned warnings;
};

static json_t *json_of(struct slice text)
{
    struct buf copy = {0};
    buf_add_slice(&copy, text);
    json_t *v = text_of(buf_str(&copy));
    buf_free(&copy);
    return v;
}

/* file:line: text; hint, with "warning: " before the text of a warning. */
static void print_finding(const struct conf_finding *found)
{
    struct buf line = {0}, text = {0};
    struct conf_finding shown = *found;
    buf_addf(&text, "%s%.*s", found->warning ? "warning: " : "", SLICE_ARG(found->text));
    shown.text = buf_slice(&text);
    conf_finding_add(&line, &shown);
    fprintf(stderr, "%s\n", buf_str(&line));
    buf_free(&text);
    buf_free(&line);
}

static void on_finding(void *arg, const struct conf_finding *found)
{
    struct check_run *run = arg;
    run->warnings += found->warning;
    if (run->args->human) {
        print_finding(found);
        return;
    }
    json_t *v =
        json_pack("{so, so, ss, so, so}", "file", text_of(found->file), "line",
                  found->line > 0 ? json_integer(found->line) : json_null(), "severity",
                  found->warning ? "warning" : "error", "text", json_of(found->text),
                  "hint", found->hint.n > 0 ? json_of(found->hint) : json_null());
    ctl_print_json(v, JSON_COMPACT);
    json_decref(v);
}

int cli_check(struct cli_args *o)
{
    struct check_run run = {.args = o};
    struct conf *conf = conf_read_each(o->arg[0], on_finding, &run);
    int code = EX_OK;
    if (conf == NULL)
        return EX_CONFIG;
    if (run.warnings > 0 && o->strict) {
        fprintf(stderr, "%s: %u warnings, which --strict treats as errors\n", o->arg[0],
                run.warnings);
        conf_free(conf);
        return EX_CONFIG;
    }
    fprintf(o->human ? stdout : stderr,
            "%s: valid; sources: %zu, sinks: %zu, routes: %zu\n", o->arg[0],
            conf->source_count, conf->sink_count, conf->route_count);
    if (o->connect)
        code = probe_all(conf, o->human) == 0 ? EX_OK : EX_UNAVAILABLE;
    conf_free(conf);
    return code;
}
