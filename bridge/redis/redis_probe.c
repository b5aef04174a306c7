/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_probe.c - queries a server in one pipelined batch, interprets the replies, and
 * checks them against the options durability and memory_mark.
 */
#include "bridge/redis/redis_probe.h"
#include "bridge/base/log.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------- asking */

/* Each is a section of INFO, or a parameter of CONFIG GET. Redis 6 accepts only one
 * parameter per command. */
static const struct question {
    const char *info, *param;
} questions[] = {
    {"memory", NULL},
    {"replication", NULL},
    {"clients", NULL},
    {"keyspace", NULL},
    {"server", NULL},
    {"persistence", NULL},
    {NULL, "appendonly"},
    {NULL, "appendfsync"},
    {NULL, "no-appendfsync-on-rewrite"},
    {NULL, "save"},
    {NULL, "min-replicas-to-write"},
};
enum { QUESTIONS = sizeof(questions) / sizeof(questions[0]), USAGE_QUESTIONS = 4 };

struct probe {
    struct redis_facts *facts;
    size_t next, count; /* the question of the next reply; number of questions */
    bool lost;          /* a reply was lost, or Redis could not answer yet */
    redis_probe_cb *cb;
    void *arg;
};

static void on_answer(void *arg, const struct redisReply *reply)
{
    struct probe *p = arg;
    const struct question *q = &questions[p->next++];
    p->lost = p->lost || reply == NULL || redis_error(reply) == REDIS_WAIT;
    if (q->info && strcmp(q->info, "keyspace") == 0)
        p->facts->keys = p->facts->expiring_keys = 0; /* an empty database has no line */
    if (q->info)
        redis_facts_info(p->facts, redis_text(reply));
    else
        redis_facts_config(p->facts, slice_of(q->param),
                           redis_text(redis_item(reply, 1)));
    if (p->next < p->count)
        return;
    p->facts->persistence = redis_facts_persistence(p->facts);
    p->cb(p->arg, !p->lost);
    free(p);
}

static void probe(struct redis *r, struct redis_facts *facts, size_t count,
                  redis_probe_cb *cb, void *arg)
{
    struct probe *p = mem_alloc(sizeof(*p));
    *p = (struct probe){.facts = facts, .count = count, .cb = cb, .arg = arg};
    for (const struct question *q = questions; q < questions + count; q++) {
        const struct slice info[] = {SLICE_LIT("INFO"), slice_of(q->info)};
        const struct slice config[] = {SLICE_LIT("CONFIG"), SLICE_LIT("GET"),
                                       slice_of(q->param)};
        redis_command(r, q->info ? info : config, q->info ? 2 : 3, on_answer, p);
    }
}

void redis_probe(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                 void *arg)
{
    redis_facts_begin(facts);
    probe(r, facts, QUESTIONS, cb, arg);
}

void redis_probe_usage(struct redis *r, struct redis_facts *facts, redis_probe_cb *cb,
                       void *arg)
{
    probe(r, facts, USAGE_QUESTIONS, cb, arg);
}

enum { REPLICAS_MAX = 100, PERCENT_MAX = 100, REST_PERCENT = 95 };

/* ------------------------------------------------------------------------ reading */

/* The values of INFO and CONFIG GET that are read. */
static const struct fact {
    const char *name;
    enum { VERSION, NUMBER, IS, IS_NOT } type; /* IS, IS_NOT: compares with text */
    size_t offset;                             /* in struct redis_facts */
    const char *text;
} known[] = {
#define AT(field) offsetof(struct redis_facts, field)
    {"redis_version", VERSION, AT(version), NULL},
    {"used_memory", NUMBER, AT(used_bytes), NULL},
    {"maxmemory", NUMBER, AT(max_bytes), NULL},
    {"connected_clients", NUMBER, AT(clients), NULL},
    {"blocked_clients", NUMBER, AT(blocked_clients), NULL},
    {"maxmemory_policy", IS_NOT, AT(evicts), "noeviction"},
    {"aof_enabled", IS, AT(aof_enabled), "1"},
    {"appendonly", IS, AT(appends), "yes"},
    {"appendfsync", IS, AT(fsync_always), "always"},
    {"no-appendfsync-on-rewrite", IS, AT(no_fsync_on_rewrite), "yes"},
    {"save", IS_NOT, AT(saves), ""},
    {"min-replicas-to-write", NUMBER, AT(min_replicas), NULL},
#undef AT
};

void redis_facts_begin(struct redis_facts *facts)
{
    *facts = (struct redis_facts){.db = facts->db,
                                  .min_replicas = -1,
                                  .used_bytes = -1,
                                  .max_bytes = -1,
                                  .appends = -1,
                                  .fsync_always = -1,
                                  .aof_enabled = -1};
}

void redis_facts_config(struct redis_facts *facts, struct slice name, struct slice value)
{
    const struct fact *f = known, *end = known + sizeof(known) / sizeof(known[0]);
    while (f < end && !slice_is(name, f->name))
        f++;
    if (f == end || value.p == NULL)
        return;
    void *at = (char *)facts + f->offset;
    if (f->type == NUMBER)
        *(int64_t *)at = text_whole_number(value);
    else if (f->type != VERSION)
        *(int *)at = slice_is(value, f->text) == (f->type == IS);
    else
        snprintf(at, sizeof(facts->version), "%.*s", SLICE_ARG(value));
}

/* line: keys=12,expires=3,... */
static void take_keys(struct redis_facts *facts, struct slice line)
{
    text_cut(&line, '=');
    facts->keys = text_whole_number(text_cut(&line, ','));
    text_cut(&line, '=');
    facts->expiring_keys = text_whole_number(text_cut(&line, ','));
}

static void take_line(struct redis_facts *facts, struct slice name, struct slice value)
{
    char db[16];
    snprintf(db, sizeof(db), "db%u", facts->db);
    if (slice_is(name, "connected_slaves"))
        facts->replicas = 0; /* recounted: only online replicas count */
    else if (name.n > 5 && memcmp(name.p, "slave", 5) == 0 &&
             memmem(value.p, value.n, ",state=online,", 14))
        facts->replicas++;
    else if (slice_is(name, db))
        take_keys(facts, value);
    else
        redis_facts_config(facts, name, value);
}

void redis_facts_info(struct redis_facts *facts, struct slice text)
{
    while (text.n > 0) {
        struct slice line = text_cut(&text, '\n');
        line.n -= line.n > 0 && line.p[line.n - 1] == '\r';
        struct slice name = text_cut(&line, ':');
        if (line.p)
            take_line(facts, name, line);
    }
}

enum redis_persistence redis_facts_persistence(const struct redis_facts *facts)
{
    if (facts->appends < 0)
        return facts->aof_enabled == 0 ? PERSISTS_SNAPSHOTS : PERSISTS_UNKNOWN;
    if (facts->appends == 0)
        return facts->saves ? PERSISTS_SNAPSHOTS : PERSISTS_NOTHING;
    if (facts->fsync_always < 0)
        return PERSISTS_UNKNOWN;
    return facts->fsync_always && !facts->no_fsync_on_rewrite ? PERSISTS_EVERY_WRITE
                                                              : PERSISTS_EVERY_SECOND;
}

const char *redis_persistence_name(enum redis_persistence persistence)
{
    static const char *const names[] = {
        [PERSISTS_UNKNOWN] = "unknown",         [PERSISTS_NOTHING] = "memory",
        [PERSISTS_SNAPSHOTS] = "snapshots",     [PERSISTS_EVERY_SECOND] = "every-second",
        [PERSISTS_EVERY_WRITE] = "every-write",
    };
    return names[persistence];
}

/* ------------------------------------------------------------------------ options */

int durability_parse(const char *text, struct durability *out, struct err *err)
{
    static const char begin[] = "replicas:";
    *out = (struct durability){0};
    if (strcmp(text, "async") == 0)
        return 0;
    if (strcmp(text, "fsync") == 0) {
        out->fsync = true;
        return 0;
    }
    int64_t n = -1;
    if (strncmp(text, begin, strlen(begin)) == 0)
        n = text_whole_number(slice_of(text + strlen(begin)));
    if (n < 1 || n > REPLICAS_MAX)
        return err_set(err,
                       "must be \"async\", \"fsync\" or \"replicas:N\" with N from 1 to "
                       "%d, not \"%.40s\"",
                       REPLICAS_MAX, text);
    out->replicas = (unsigned)n;
    return 0;
}

int memory_mark_parse(const char *text, struct memory_mark *out, struct err *err)
{
    size_t n = strlen(text);
    *out = (struct memory_mark){0};
    if (n == 0)
        return 0;
    if (text[n - 1] == '%') {
        int64_t percent = text_whole_number((struct slice){text, n - 1});
        if (percent < 1 || percent > PERCENT_MAX)
            return err_set(err, "must be from \"1%%\" to \"100%%\", not \"%.40s\"", text);
        out->percent = (unsigned)percent;
        return 0;
    }
    if (text_parse_bytes(text, &out->bytes, err) < 0)
        return err_in(err,
                      "neither a percentage of maxmemory, such as \"90%\", nor a size");
    if (out->bytes == 0)
        return err_set(
            err, "a size of 0 would pause the sources for ever; write \"\" for no limit");
    return 0;
}

bool memory_mark_passed(const struct memory_mark *mark, const struct redis_facts *facts,
                        bool was)
{
    double limit = (double)mark->bytes;
    if (mark->percent > 0)
        limit = (double)facts->max_bytes * mark->percent / PERCENT_MAX;
    if (limit <= 0 || facts->used_bytes < 0) /* no mark, no maxmemory, or usage unknown */
        return false;
    return (double)facts->used_bytes > (was ? limit * REST_PERCENT / 100 : limit);
}

/* ------------------------------------------------------------------------ verdict */

/* 6.2 added ZMSCORE and HRANDFIELD. Without them every acknowledgement fails. */
enum { VERSION_MAJOR = 6, VERSION_MINOR = 2 };

static bool is_too_old(const char *version)
{
    char *end;
    unsigned long major = strtoul(version, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return major < VERSION_MAJOR || (major == VERSION_MAJOR && minor < VERSION_MINOR);
}

int redis_facts_fit(const struct redis_facts *facts, const struct durability *want,
                    struct err *err)
{
    if (facts->version[0] != '\0' && is_too_old(facts->version))
        return err_set(err,
                       "Redis %s is too old: tarry needs %d.%d or later, or Valkey; "
                       "upgrade the server",
                       facts->version, VERSION_MAJOR, VERSION_MINOR);
    if (!want->fsync || facts->persistence == PERSISTS_EVERY_WRITE)
        return 0;
    if (facts->persistence == PERSISTS_UNKNOWN)
        return err_set(
            err, "durability = \"fsync\": this user may not read the setting appendfsync "
                 "of Redis; allow it +config|get, or set durability = \"async\"");
    return err_set(err, "durability = \"fsync\" requires appendonly yes, appendfsync "
                        "always and no-appendfsync-on-rewrite no in Redis; set them "
                        "there, or set durability = \"async\" here");
}

static const char *persistence_text(enum redis_persistence persistence)
{
    switch (persistence) {
    case PERSISTS_NOTHING:
        return "Redis stores the jobs only in memory; a restart of Redis loses all of "
               "them: set appendonly yes in Redis";
    case PERSISTS_SNAPSHOTS:
        return "Redis has no append-only file; a crash of Redis loses all jobs since its "
               "last snapshot: set appendonly yes in Redis";
    default:
        return NULL;
    }
}

void redis_facts_judge(const struct redis_facts *facts, const struct durability *want,
                       redis_warn_cb *warn, void *arg)
{
    char text[256];
    const char *not_durable = persistence_text(facts->persistence);
    if (not_durable)
        warn(arg, false, not_durable);
    if (facts->evicts)
        warn(arg, true, "Redis may drop jobs: set maxmemory-policy noeviction in Redis");
    if (want->replicas > facts->replicas) {
        snprintf(text, sizeof(text),
                 "durability = \"replicas:%u\", but Redis has only %u connected "
                 "replicas: no job counts as stored until more connect",
                 want->replicas, facts->replicas);
        warn(arg, false, text);
    }
    if (facts->replicas > 0 && facts->min_replicas == 0)
        warn(arg, false,
             "Redis has replicas, but min-replicas-to-write is 0: a master that is cut "
             "off from them continues to accept jobs, and a failover loses these jobs: "
             "set it to 1 in Redis");
}

static void log_warning(void *arg, bool serious, const char *text)
{
    (void)arg;
    log_msg(serious ? LOG_ERROR : LOG_WARN, "redis", "%s", text);
}

void redis_facts_warn(const struct redis_facts *facts, const struct durability *want)
{
    if (facts->version[0] == '\0')
        log_warning(NULL, false,
                    "this user may not read the version of Redis: allow it +info; Redis "
                    "older than 6.2 could deliver jobs repeatedly");
    redis_facts_judge(facts, want, log_warning, NULL);
}

/* ----------------------------------------------------------------------- its clock */

void clock_sample(struct clock *c, int64_t sent_us, int64_t received_us, int64_t redis_us)
{
    c->low_us[c->next] = redis_us - received_us;
    c->high_us[c->next] = redis_us - sent_us;
    unsigned latest = c->next;
    c->next = (c->next + 1) % CLOCK_SAMPLES;
    if (c->count < CLOCK_SAMPLES)
        c->count++;

    int64_t low = c->low_us[0], high = c->high_us[0];
    for (unsigned i = 1; i < c->count; i++) {
        low = c->low_us[i] > low ? c->low_us[i] : low;
        high = c->high_us[i] < high ? c->high_us[i] : high;
    }
    if (low > high) { /* a clock jumped: only the latest sample counts */
        low = c->low_us[latest];
        high = c->high_us[latest];
        c->low_us[0] = low;
        c->high_us[0] = high;
        c->count = c->next = 1;
    }
    c->best_low_us = low;
    c->best_high_us = high;
}

bool clock_is_set(const struct clock *c)
{
    return c->count > 0;
}

int64_t clock_now_ms(const struct clock *c, int64_t mono_us)
{
    return (mono_us + c->best_high_us + 999) / 1000;
}

int64_t clock_until_us(const struct clock *c, int64_t mono_us, int64_t due_ms)
{
    if (due_ms > INT64_MAX / 2000) /* out of the range of microseconds: far away */
        return INT64_MAX / 2;
    if (due_ms < 0)
        return 0;
    int64_t wait_us = due_ms * 1000 - (mono_us + c->best_low_us);
    return wait_us > 0 ? wait_us : 0;
}
