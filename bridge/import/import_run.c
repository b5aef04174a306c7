/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_run.c - one import from configuration to summary: tarry's store, routes without
 * sources, sinks or claims, the original's Redis, and the importer. If no data of the
 * original is found, it reports what that Redis contains instead.
 */
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/core.h"
#include "bridge/import/import_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

enum { EXIT_LEFT_OVER = 1, UP_MAX_MS = 10 * 1000 };
enum { TIMEOUT_MS = 60 * 1000, LAST_TIMEOUT_MS = 3 * 1000 };

/* --- the table --- */

static const struct {
    const char *text;
    bool unreadable; /* invalid data in the place of a job */
} skips[IMPORT_SKIPS] = {
    [IMPORT_NO_BODY] = {"gone", false},
    [IMPORT_EXPIRED] = {"expired", false},
    [IMPORT_ENDED] = {"ended", false},
    [IMPORT_UNREADABLE] = {"unreadable", true},
    [IMPORT_WRONG_TYPE] = {"a key of another type", true},
    [IMPORT_NO_ROUTE] = {"no route accepts it", true},
    [IMPORT_TOO_LARGE] = {"larger than daemon.job_max", true},
    [IMPORT_BAD_NAME] = {"its id or topic is empty, too long or contains NUL", true},
};

static void print_row(const char *text, uint64_t n)
{
    printf("%-40s %10" PRIu64 "\n", text, n);
}

static uint64_t print_table(const struct import *im)
{
    static const char *const moved[IMPORT_STATES] = {"pending", "in flight",
                                                     "lost there, recovered", "dead"};
    const struct import_counts *n = &im->counts;
    uint64_t unreadable = 0;
    puts(im->order->dry_run ? "would be imported" : "moved");
    for (unsigned i = 0; i < IMPORT_STATES; i++)
        print_row(moved[i], n->moved[i]);
    if (n->kv_stored > 0)
        print_row("tokens and limits", n->kv_stored);
    if (!im->order->dry_run)
        print_row("already imported", n->before + n->kv_before);
    for (unsigned i = 0; i < IMPORT_SKIPS; i++) {
        char text[64];
        snprintf(text, sizeof(text), "skipped: %s", skips[i].text);
        if (n->skipped[i] > 0)
            print_row(text, n->skipped[i]);
        unreadable += skips[i].unreadable ? n->skipped[i] : 0;
    }
    return unreadable;
}

/* Print the noted keys of unreadable jobs. */
static void print_names(const struct import_counts *n)
{
    for (unsigned i = 0; i < IMPORT_SKIPS; i++) {
        uint64_t shown = 0;
        struct slice rest = buf_slice(&n->named[i]);
        while (skips[i].unreadable && rest.n > 0) {
            struct slice line = text_cut(&rest, '\n');
            fprintf(stderr, "tarry import: skipped, %s: %.*s\n", skips[i].text,
                    SLICE_ARG(line));
            shown++;
        }
        if (shown > 0 && n->skipped[i] > shown)
            fprintf(stderr, "tarry import: skipped, %s: %" PRIu64 " more\n",
                    skips[i].text, n->skipped[i] - shown);
    }
}

/* --- is this the original's Redis at all? --- */

enum { SAMPLES = 3, SAMPLE_BYTES = 80 };

int import_find_key(struct import *im, struct slice key, struct err *err)
{
    const struct slice args[] = {SLICE_LIT("EXISTS"), key};
    struct import_value reply;
    if (import_ask(im, -1, args, 2, &reply, err) < 0)
        return -1;
    im->has_key |= reply.integer > 0;
    import_values_free(&reply, 1);
    return 0;
}

static int64_t count_keys(struct import *im)
{
    const struct slice args[] = {SLICE_LIT("DBSIZE")};
    int64_t sum = 0;
    struct err err;
    for (unsigned i = 0; i < import_redis_node_count(im->original); i++) {
        struct import_value reply;
        if (import_ask(im, (int)i, args, 1, &reply, &err) < 0)
            break;
        sum += reply.integer;
        import_values_free(&reply, 1);
    }
    return sum;
}

struct samples {
    struct buf *out;
    unsigned n;
};

/* Returns -1 to stop the scan after SAMPLES keys. */
static int on_sample(void *arg, struct slice key, struct err *err)
{
    struct samples *s = arg;
    buf_add_str(s->out, s->n++ == 0 ? ", such as " : ", ");
    import_add_shown(s->out,
                     (struct slice){key.p, key.n < SAMPLE_BYTES ? key.n : SAMPLE_BYTES});
    return s->n < SAMPLES ? 0 : err_set(err, "enough");
}

/* Add the other databases with keys ("db3:keys=5,..." of INFO keyspace), in case the URL
 * names the wrong database. */
static void add_databases(struct import *im, struct buf *out)
{
    const struct slice args[] = {SLICE_LIT("INFO"), SLICE_LIT("keyspace")};
    const char *comma = "; databases with keys: ";
    struct import_value reply;
    struct err err;
    if (import_redis_node_count(im->original) > 1 ||
        import_ask(im, 0, args, 2, &reply, &err) < 0)
        return;
    const char *text = reply.kind == IMPORT_TEXT ? reply.text.p : "";
    for (const char *at = strstr(text, "\ndb"); at; at = strstr(at + 1, "\ndb")) {
        buf_addf(out, "%s%d", comma, atoi(at + 3));
        comma = ", ";
    }
    import_values_free(&reply, 1);
}

static bool has_no_data(const struct import_counts *n)
{
    uint64_t sum = n->before + n->kv_stored + n->kv_before;
    for (unsigned i = 0; i < IMPORT_STATES; i++)
        sum += n->moved[i];
    for (unsigned i = 0; i < IMPORT_SKIPS; i++)
        sum += n->skipped[i];
    return sum == 0;
}

/* True if that Redis contains no data of the original, not even the keys that remain
 * after an import. Then err says what it contains. */
static bool report_no_data(struct import *im, struct err *err)
{
    struct buf there = {0};
    struct samples samples = {&there, 0};
    struct err enough;
    char place[256];
    if (im->has_key || !has_no_data(&im->counts))
        return false;
    buf_addf(&there, "%" PRId64 " keys", count_keys(im));
    import_each_key(im, "*", on_sample, &samples, &enough);
    add_databases(im, &there);
    err_set(err, "no data of %s in %s, which contains %s", im->order->type,
            redact_text(place, sizeof(place), im->order->url), buf_str(&there));
    buf_free(&there);
    return true;
}

/* --- start and end --- */

/* Return the source of the type, or the named source; NULL: err says why not. */
static const struct conf_source *find_source(const struct import_order *order,
                                             const struct conf *conf, struct err *err)
{
    const struct conf_source *found = NULL;
    for (size_t i = 0; i < conf->source_count; i++) {
        const struct conf_source *c = conf->sources[i];
        if (strcmp(c->ops->name, order->type) != 0 ||
            (order->source && strcmp(c->name, order->source) != 0))
            continue;
        if (found) {
            err_set(err,
                    "several sources have the type \"%s\"; choose one with --source NAME",
                    order->type);
            return NULL;
        }
        found = c;
    }
    if (found == NULL)
        err_set(err, "%s has no source%s%.60s of type \"%.60s\"", order->conf_file,
                order->source ? " " : "", order->source ? order->source : "",
                order->type);
    else if (found->ops->import == NULL)
        err_set(err, "sources of type \"%s\" do not support import", order->type);
    return found && found->ops->import ? found : NULL;
}

/* Returns an exit code. */
static int start(struct import *im, struct err *err)
{
    const struct conf_source *source = find_source(im->order, im->bridge->conf, err);
    if (source == NULL)
        return EX_CONFIG;
    int code = tool_start(&im->tool, UP_MAX_MS, err);
    if (code == EX_OK)
        im->src = inst_source_named(im->bridge, source->name);
    return code;
}

/* Connect to the original's Redis. TLS and the login at sentinels are those of tarry's
 * own. */
static int connect_original(struct import *im, struct err *err)
{
    const struct conf_redis *own = &im->bridge->conf->redis;
    struct redis_conf conf = core_redis_conf(own, "tarry import");
    if (redis_url_parse(im->order->url, &conf.url, err) < 0) {
        im->usage_error = true;
        return err_in(err, "the original's Redis");
    }
    im->original =
        import_redis_open(&conf, own->sentinel_user, own->sentinel_password, err);
    redis_url_free(&conf.url);
    return im->original ? 0 : err_in(err, "the original's Redis");
}

/* Undo start() and connect_original(), also if they failed. */
static void release(struct import *im)
{
    import_redis_close(im->original);
    g_hash_table_destroy(im->seen);
    for (unsigned i = 0; i < IMPORT_SKIPS; i++)
        buf_free(&im->counts.named[i]);
    for (unsigned i = 0; i < im->set_count; i++)
        free((char *)im->sets[i].p);
    free(im->sets);
    tool_end(&im->tool);
}

static int move(struct import *im, struct err *err)
{
    im->started_ms = import_now_ms(im);
    im->last_reply_ms = loop_mono_ms();
    im->timeout_ms = TIMEOUT_MS;
    if (im->src->ops->import(im->src, im->src->self, im, err) < 0)
        return -1;
    return import_flush(im, err);
}

static int run(struct import *im)
{
    struct err err = {""};
    int code = start(im, &err);
    if (code == 0 && connect_original(im, &err) < 0)
        code = im->usage_error ? EX_USAGE : EX_UNAVAILABLE;
    if (code != 0) {
        fprintf(stderr, "tarry import: %s\n", err.text);
        return code;
    }
    bool whole = move(im, &err) == 0;
    if (im->usage_error) {
        fprintf(stderr, "tarry import: %s\n", err.text);
        return EX_USAGE;
    }
    struct err second;
    im->timeout_ms = LAST_TIMEOUT_MS;
    if (!whole)
        import_flush(im, &second); /* include the jobs still unanswered in the counts */
    uint64_t unreadable = print_table(im);
    fflush(stdout);
    print_names(&im->counts);
    if (whole && report_no_data(im, &err)) {
        fprintf(stderr, "tarry import: %s\n", err.text);
        return EX_NOINPUT;
    }
    if (whole)
        return unreadable > 0 ? EXIT_LEFT_OVER : EX_OK;
    fprintf(stderr, "tarry import: incomplete: %s\n", err.text);
    return EX_UNAVAILABLE;
}

int import_run(const struct import_order *order)
{
    struct bridge bridge = {.read_only = order->dry_run};
    struct import im = {.order = order,
                        .bridge = &bridge,
                        .tool = {.bridge = &bridge},
                        .seen = g_hash_table_new(NULL, NULL)};
    bridge.conf = conf_open(order->conf_file);
    if (bridge.conf == NULL)
        return EX_CONFIG;
    log_set_level(LOG_WARN);
    loop_init();
    int code = run(&im);
    release(&im);
    conf_free(bridge.conf);
    loop_fini();
    return code;
}
