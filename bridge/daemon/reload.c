/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload.c - requests for a reload, the order of its steps, and its result, also over
 * HTTP: POST /v1/admin/reload is answered when the configuration is in use or was
 * rejected.
 */
#include "bridge/daemon/reload.h"
#include "bridge/admin/admin.h"
#include "bridge/base/notify.h"
#include "bridge/base/text.h"
#include "bridge/engine/core.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LOOK_MS = 5, LEAVE_MS = 50, SHOWN_BYTES = 600 };

static void next_step(struct reload *r);

/* --- answers --- */

static void answer_all(struct reload *r, bool ok)
{
    struct reload_asker *asker, *next;
    for (asker = r->asking; asker; asker = next) {
        next = asker->next;
        if (asker->cb)
            asker->cb(asker->arg, r, ok);
        free(asker);
    }
    r->asking = NULL;
}

/* Free the next configuration and the plan. */
static void forget(struct reload *r)
{
    conf_free(r->next);
    r->next = NULL;
    free(r->sources);
    free(r->sinks);
    free(r->routes);
    r->sources = NULL;
    r->sinks = NULL;
    r->routes = NULL;
    conf_diff_free(&r->diff);
    buf_clear(&r->errors);
    r->step = NULL;
}

static void end(struct reload *r, bool ok)
{
    r->last_ms = loop_wall_ms();
    buf_clear(&r->last_errors);
    buf_add_slice(&r->last_errors, buf_slice(&r->errors));
    answer_all(r, ok);
    forget(r);
    if (r->bridge->started)
        notify_ready();
    if (r->waiting)
        timer_set(r->timer, 0);
}

static void log_errors(struct reload *r)
{
    for (struct slice left = buf_slice(&r->errors); left.n > 0;) {
        struct slice line = text_cut(&left, '\n');
        log_error("reload", "%.*s", SLICE_ARG(line));
    }
}

static void refuse(struct reload *r)
{
    r->refused++;
    log_errors(r);
    log_error("reload", "%s is refused; the configuration in use stays (%" PRIu64 ")",
              r->file, r->generation);
    end(r, false);
}

static void done(struct reload *r)
{
    struct buf names = {0};
    struct slice changed = buf_slice(&r->diff.changed);
    buf_add(&names, changed.p, changed.n < SHOWN_BYTES ? changed.n : SHOWN_BYTES);
    for (size_t i = 0; i < names.n; i++)
        if (names.p[i] == '\n')
            names.p[i] = ' ';
    r->good++;
    r->generation++;
    r->loaded_ms = loop_wall_ms();
    log_info("reload", "%s is in use (%" PRIu64 "): %s%s", r->file, r->generation,
             names.n > 0 ? buf_str(&names) : "nothing differs",
             changed.n > SHOWN_BYTES ? "..." : "");
    marks_add(&r->bridge->marks, store_now_ms(r->bridge->store), MARK_RELOAD, NULL,
              names.n > 0 ? buf_slice(&names) : SLICE_LIT("nothing differs"));
    buf_free(&names);
    end(r, true);
}

/* --- the steps --- */

static void fail(struct reload *r, const char *why)
{
    buf_addf(&r->errors, "%s: %s\n", r->file, why);
}

/* daemon.stop_timeout has passed, but the step cannot be undone. */
static void log_wait(struct reload *r, const char *who)
{
    log_warn("reload", "still waiting for %s: %s", r->step->what, who);
    r->logged_ms = loop_mono_ms();
    timer_set(r->timer, LOOK_MS);
}

/* Run the steps until one must wait; then the timer calls it again. */
static void enter(struct reload *r, const struct reload_step *step)
{
    struct err err;
    bool begins = r->step != step;
    r->step = step;
    if (begins) {
        r->begun_ms = r->logged_ms = loop_mono_ms();
        if (step->begin && step->begin(r, &err) < 0) {
            fail(r, err.text);
            enter(r, reload_undo);
            return;
        }
    }
    const char *who = step->waits_for ? step->waits_for(r) : NULL;
    const char *refused = step->has_time_limit ? reload_refused(r) : NULL;
    if (refused) {
        fail(r, refused);
        enter(r, reload_undo);
    } else if (who == NULL) {
        next_step(r);
    } else if (loop_mono_ms() - r->logged_ms < r->bridge->conf->daemon.stop_timeout_ms) {
        timer_set(r->timer, LOOK_MS);
    } else if (!step->has_time_limit) {
        log_wait(r, who);
    } else {
        buf_addf(&r->errors,
                 "%s: not applied: after daemon.stop_timeout the reload still waited for "
                 "%s: %s\n",
                 r->file, step->what, who);
        enter(r, reload_undo);
    }
}

static void next_step(struct reload *r)
{
    const struct reload_step *next = r->step + 1;
    if (next->what) {
        enter(r, next);
    } else if (next->undoes) {
        refuse(r);
    } else {
        reload_swap(r);
        timer_set(r->leave, 0);
        conf_log_warnings(r->bridge->conf);
        done(r);
    }
}

static bool read_next(struct reload *r)
{
    struct err err;
    r->next = conf_read(r->file, &r->errors);
    if (r->next == NULL)
        return false;
    core_choose_buckets(r->next);
    reload_plan(r);
    for (struct slice left = buf_slice(&r->diff.refused); left.n > 0;) {
        struct slice line = text_cut(&left, '\n');
        buf_addf(&r->errors, "%s: %.*s\n", r->file, SLICE_ARG(line));
    }
    if (r->errors.n == 0 && listeners_check(r->bridge->conf, r->next, &err) < 0)
        fail(r, err.text);
    return r->errors.n == 0;
}

/* Reject the reload; the configuration in use remains. */
static void reject_while_draining(struct reload *r)
{
    fail(r, "the daemon is stopping");
    log_errors(r);
    answer_all(r, false);
    buf_clear(&r->errors);
}

static void begin(struct reload *r)
{
    r->asking = r->waiting;
    r->waiting = NULL;
    if (r->bridge->draining) {
        reject_while_draining(r);
        return;
    }
    notify_reloading();
    if (read_next(r))
        enter(r, reload_steps);
    else
        refuse(r);
}

static void look(void *arg)
{
    struct reload *r = arg;
    if (r->step)
        enter(r, r->step);
    else if (r->waiting)
        begin(r);
}

static void on_leave(void *arg)
{
    struct reload *r = arg;
    bool may_return = r->step && !r->step->undoes;
    if (!r->bridge->draining && (may_return || leave_look(r->bridge)))
        timer_set(r->leave, LEAVE_MS);
}

/* --- from outside --- */

struct reload *reload_new(struct bridge *bridge, const char *file)
{
    struct reload *r = mem_alloc(sizeof(*r));
    r->bridge = bridge;
    r->file = mem_strdup(file);
    r->timer = timer_new(look, r);
    r->leave = timer_new(on_leave, r);
    r->generation = 1;
    r->loaded_ms = r->last_ms = loop_wall_ms();
    return r;
}

void reload_free(struct reload *r)
{
    answer_all(r, false);
    forget(r);
    timer_del(r->timer);
    timer_del(r->leave);
    buf_free(&r->errors);
    buf_free(&r->last_errors);
    free(r->file);
    free(r);
}

void reload_ask(struct reload *r, reload_cb *cb, void *arg)
{
    struct reload_asker *asker = mem_alloc(sizeof(*asker));
    *asker = (struct reload_asker){r->waiting, cb, arg};
    r->waiting = asker;
    if (r->step == NULL)
        timer_set(r->timer, 0);
}

void reload_end(struct reload *r)
{
    timer_stop(r->timer);
    r->step = NULL;
    fail(r, "the daemon is stopping");
    answer_all(r, false);
    r->asking = r->waiting;
    r->waiting = NULL;
    answer_all(r, false);
    buf_clear(&r->errors); /* reject_while_draining() answers later requests */
}

/* --- over HTTP --- */

/* ["...", "..."] of lines. */
static void add_lines(struct buf *json, struct slice lines)
{
    const char *comma = "";
    buf_add_str(json, "[");
    while (lines.n > 0) {
        buf_add_str(json, comma);
        text_add_json(json, text_cut(&lines, '\n'));
        comma = ",";
    }
    buf_add_str(json, "]");
}

static void on_reloaded(void *arg, const struct reload *r, bool ok)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (ok) {
        buf_addf(&json, "{\"generation\":%" PRIu64 ",\"changed\":", r->generation);
        add_lines(&json, buf_slice(&r->diff.changed));
    } else {
        buf_addf(&json,
                 "{\"error\":\"bad-configuration\",\"message\":\"the configuration was "
                 "refused; the one in use stays\",\"generation\":%" PRIu64 ",\"errors\":",
                 r->generation);
        add_lines(&json, buf_slice(&r->errors));
    }
    buf_add_str(&json, "}\n");
    httpd_answer_json(req, ok ? 200 : 422, &json);
}

/* It accepts no parameters: a request with one that means "only check" must not
 * reload. */
static void post_reload(void *arg, struct httpd_req *req)
{
    const struct bridge *bridge = arg;
    reload_ask(bridge->reload, on_reloaded, req);
}

static void add_config(const struct bridge *bridge, struct buf *out)
{
    const struct reload *r = bridge->reload;
    bool ok = r->last_errors.n == 0;
    buf_add_str(out, ",\"config\":{\"file\":");
    text_add_json(out, slice_of(r->file));
    buf_addf(out,
             ",\"generation\":%" PRIu64 ",\"loaded_ms\":%" PRId64
             ",\"last\":{\"ok\":%s,\"at_ms\":%" PRId64 ",\"error\":",
             r->generation, r->loaded_ms, ok ? "true" : "false", r->last_ms);
    text_add_json(out, ok ? (struct slice){NULL, 0} : buf_slice(&r->last_errors));
    buf_add_str(out, "}}");
}

static void print_metrics(const struct bridge *bridge, struct buf *out)
{
    const struct reload *r = bridge->reload;
    static const char count[] = "tarry_config_reloads_total";
    static const char loaded[] = "tarry_config_last_reload_success_timestamp_seconds";
    static const char last[] = "tarry_config_last_reload_successful";
    static const char generation[] = "tarry_config_generation";
    metric_head(out, generation, "gauge",
                "Number of the configuration in use, from 1 at the start.");
    metric_count(out, generation, NO_LABELS, r->generation);
    metric_head(out, last, "gauge",
                "1: the last configuration that was read is in use; 0: it was refused.");
    metric_count(out, last, NO_LABELS, r->last_errors.n == 0);
    metric_head(out, loaded, "gauge",
                "When the configuration in use was taken over, since 1970.");
    metric_real(out, loaded, NO_LABELS, (double)r->loaded_ms / 1000);
    metric_head(out, count, "counter", "Reloads by result.");
    metric_count(out, count, LABELS({"result", "ok"}), r->good);
    metric_count(out, count, LABELS({"result", "refused"}), r->refused);
}

static const struct http_param none[] = {{0}};
static const struct httpd_route rows[] = {
    {"POST", "/v1/admin/reload", post_reload, HTTPD_ADMIN, HTTP_ARGS(char, none)},
    {0},
};
const struct admin_more reload_admin = {rows, add_config, print_metrics};
