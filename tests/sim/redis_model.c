/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model.c - connections, the commands of the server, faults, and the disk of the
 * Redis model. */
#include "tests/sim/redis_model_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum { JOURNAL_ARGS_MIN = 2000 };

/* A command that the disk does not have yet. */
struct entry {
    int64_t now_us;
    struct redis_faults faults;
    unsigned count;
    struct slice args[]; /* their bytes follow */
};

uint64_t model_random(struct redis_model *m)
{
    m->random = m->random * 6364136223846793005U + 1442695040888963407U;
    return m->random >> 33;
}

/* -------------------------------------------------------------------- executing */

static const char READONLY[] = "READONLY You can't write against a read only replica.";
static const char MISCONF[] =
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
    "persist to disk. Commands that "
    "may modify the data set are disabled, because this instance is configured to report "
    "errors during writes if RDB "
    "snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis "
    "logs for details about the RDB "
    "error.";
static const char OOM[] = "OOM command not allowed when used memory > 'maxmemory'.";

/* Returns the error of a write that the server rejects now; NULL: none. */
static const char *rejection(const struct redis_model *m, unsigned flags, bool by_script)
{
    bool oom = by_script ? m->script_oom : m->faults.oom;
    if (by_script && m->script_wrote) /* Redis cannot stop in the middle of a script */
        return NULL;
    if (flags & COMMAND_WRITE && m->faults.readonly)
        return READONLY;
    if (flags & COMMAND_WRITE && m->faults.misconf)
        return MISCONF;
    return flags & COMMAND_DENY_OOM && oom ? OOM : NULL;
}

void model_execute(struct call *c, bool by_script)
{
    char text[128];
    const struct command *command =
        c->count ? g_hash_table_lookup(c->m->commands, &c->args[0]) : NULL;
    if (command == NULL) {
        snprintf(text, sizeof(text),
                 by_script ? "ERR Unknown Redis command called from script"
                           : "ERR unknown command '%.*s'",
                 SLICE_ARG(c->args[0]));
        reply_error(c, text);
        return;
    }
    if (command->arity < 0 ? c->count < (unsigned)-command->arity
                           : c->count != (unsigned)command->arity) {
        char *lower = g_ascii_strdown(command->name, -1);
        snprintf(text, sizeof(text),
                 by_script ? "ERR Wrong number of args calling Redis command from script"
                           : "ERR wrong number of arguments for '%s' command",
                 lower);
        g_free(lower);
        reply_error(c, text);
        return;
    }
    if (by_script && command->flags & COMMAND_NO_SCRIPT) {
        reply_error(c, "ERR This Redis command is not allowed from script");
        return;
    }
    if (by_script && c->m->serves && model_redirects(c, true))
        return;
    const char *why = rejection(c->m, command->flags, by_script);
    if (why) {
        reply_error(c, why);
        return;
    }
    if (command->flags & COMMAND_WRITE)
        c->m->wrote = c->m->script_wrote = true;
    command->run(c);
}

static void add_entry(struct redis_model *m, const struct call *c)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < c->count; i++)
        bytes += c->args[i].n;
    struct entry *e = mem_alloc(sizeof(*e) + c->count * sizeof(e->args[0]) + bytes);
    char *to = (char *)(e->args + c->count);
    e->now_us = m->now_us;
    e->faults = m->faults;
    e->faults.script_fails = 0; /* it did not fail */
    e->count = c->count;
    for (unsigned i = 0; i < c->count; i++) {
        e->args[i] = (struct slice){to, c->args[i].n};
        to = slice_put(to, c->args[i]);
    }
    g_ptr_array_add(m->journal, e);
    m->uncopied_args += c->count;
}

/* Whether this is a call of the script that fails now. */
static bool fails_script(struct redis_model *m, const struct call *c)
{
    if (m->faults.script_fails == 0 || c->count < 2 || !arg_is(c, 0, "EVALSHA") ||
        !slice_is(c->args[1], m->faults.script_sha))
        return false;
    m->faults.script_fails--;
    return !m->faults.script_fails_half || m->faults.script_fails % 2 == 0;
}

static void execute_command(struct call *c)
{
    struct redis_model *m = c->m;
    m->random = (uint64_t)m->now_us;
    if (m->faults.loading) {
        reply_error(c, "LOADING Redis is loading the dataset in memory");
        return;
    }
    if (m->faults.busy) {
        reply_error(c, "BUSY Redis is busy running a script. You can only call SCRIPT "
                       "KILL or SHUTDOWN NOSAVE.");
        return;
    }
    if (fails_script(m, c)) {
        reply_error(c, m->faults.script_error);
        return;
    }
    m->wrote = false;
    model_execute(c, false);
    m->offset += m->wrote;
    if (m->records && m->wrote)
        add_entry(m, c);
}

void redis_model_execute(struct redis_model *m, const struct slice *args, unsigned count,
                         struct buf *out)
{
    execute_command(
        &(struct call){.m = m, .args = (struct slice *)args, .count = count, .out = out});
}

void redis_model_command(struct redis_model *m, const struct slice *args, unsigned count,
                         struct buf *out)
{
    struct redis_faults faults = m->faults;
    struct call c = {.m = m, .args = (struct slice *)args, .count = count, .out = out};
    m->faults = (struct redis_faults){0};
    model_execute(&c, false);
    m->faults = faults;
}

void redis_model_watch(struct redis_model *m, redis_command_cb *cb, void *arg)
{
    m->on_command = cb;
    m->on_command_arg = arg;
}

/* ------------------------------------------------------------------ connections */

static void send_out(struct redis_conn *c)
{
    if (c->out.n > 0)
        c->output(c->arg, buf_slice(&c->out));
    buf_clear(&c->out);
}

unsigned model_publish(struct redis_model *m, struct slice channel, struct slice message)
{
    unsigned receivers = 0;
    for (guint i = 0; i < m->conns->len; i++) {
        struct redis_conn *conn = m->conns->pdata[i];
        struct call push = {.m = m, .out = &conn->out};
        if (conn->channels == NULL || !g_hash_table_contains(conn->channels, &channel))
            continue;
        reply_array(&push, 3);
        reply_bulk(&push, SLICE_LIT("message"));
        reply_bulk(&push, channel);
        reply_bulk(&push, message);
        receivers++;
    }
    return receivers;
}

void redis_model_on_publish(struct redis_model *m, redis_publish_cb *cb, void *arg)
{
    m->on_publish = cb;
    m->on_publish_arg = arg;
}

void redis_model_publish(struct redis_model *m, struct slice channel,
                         struct slice message)
{
    model_publish(m, channel, message);
    for (guint i = 0; i < m->conns->len; i++)
        send_out(m->conns->pdata[i]);
}

static void subscribe(struct redis_conn *c, const struct slice *args, unsigned count)
{
    struct call reply = {.m = c->m, .out = &c->out};
    if (c->channels == NULL)
        c->channels = g_hash_table_new_full(bytes_hash, bytes_equal, bytes_free, NULL);
    for (unsigned i = 1; i < count; i++) {
        g_hash_table_add(c->channels, bytes_new(args[i]));
        reply_array(&reply, 3);
        reply_bulk(&reply, SLICE_LIT("subscribe"));
        reply_bulk(&reply, args[i]);
        reply_int(&reply, g_hash_table_size(c->channels));
    }
}

struct redis_conn *redis_model_connect(struct redis_model *m, redis_output_cb *output,
                                       void *arg)
{
    struct redis_conn *c = mem_alloc(sizeof(*c));
    c->m = m;
    c->output = output;
    c->arg = arg;
    g_ptr_array_add(m->conns, c);
    return c;
}

void redis_model_disconnect(struct redis_conn *c)
{
    if (c == NULL)
        return;
    g_ptr_array_remove(c->m->conns, c); /* keeps the order of the others */
    if (c->channels)
        g_hash_table_unref(c->channels);
    buf_free(&c->in);
    buf_free(&c->out);
    free(c);
}

/* Reads "*N\r\n" or "$N\r\n" at *at. Returns false if it is not complete. */
static bool read_count(const struct buf *in, size_t *at, char letter, size_t *n)
{
    const char *end = *at < in->n ? memchr(in->p + *at, '\n', in->n - *at) : NULL;
    if (end == NULL)
        return false;
    must(in->p[*at] == letter);
    *n = 0;
    for (const char *p = in->p + *at + 1; *p >= '0' && *p <= '9'; p++)
        *n = *n * 10 + (size_t)(*p - '0');
    *at = (size_t)(end - in->p) + 1;
    return true;
}

/* Reads one command at *at. Returns false if it is not complete. */
static bool read_command(struct buf *in, size_t *at, GArray *args)
{
    size_t count, n, to = *at;
    g_array_set_size(args, 0);
    if (!read_count(in, &to, '*', &count))
        return false;
    while (count-- > 0) {
        if (!read_count(in, &to, '$', &n) || in->n - to < n + 2)
            return false;
        const struct slice arg = {in->p + to, n};
        g_array_append_val(args, arg);
        to += n + 2;
    }
    *at = to;
    return true;
}

void model_report(const struct call *c, struct slice reply)
{
    if (c->m->on_command)
        c->m->on_command(c->m->on_command_arg, c->args, c->count, reply);
}

static void execute_of(struct redis_conn *c, struct call *call)
{
    struct redis_model *m = c->m;
    size_t before = c->out.n;
    bool answers = !m->faults.loading && !m->faults.busy;
    m->wrote = false;
    if (answers && model_wait(c, call))
        return;
    m->is_asking = c->is_asking;
    c->is_asking = arg_is(call, 0, "ASKING");
    m->serves = m->view != NULL;
    if (m->view && model_redirects(call, false))
        ;
    else if (answers && arg_is(call, 0, "SUBSCRIBE"))
        subscribe(c, call->args, call->count);
    else
        execute_command(call);
    m->serves = false;
    if (m->wrote)
        c->wrote_at = m->offset;
    model_report(call, (struct slice){c->out.p + before, c->out.n - before});
}

void model_continue(struct redis_conn *c)
{
    struct redis_model *m = c->m;
    GArray *args = g_array_new(FALSE, FALSE, sizeof(struct slice));
    size_t at = 0;
    while (!c->wait.is_open && read_command(&c->in, &at, args)) {
        struct call call = {.m = m,
                            .args = (struct slice *)args->data,
                            .count = args->len,
                            .out = &c->out};
        execute_of(c, &call);
        for (guint i = 0; i < m->conns->len; i++)
            send_out(m->conns->pdata[i]);
    }
    buf_drop(&c->in, at);
    g_array_unref(args);
}

void redis_model_feed(struct redis_conn *c, struct slice bytes)
{
    buf_add_slice(&c->in, bytes);
    model_continue(c);
}

/* -------------------------------------------------------------------- the disk */

static void drop_later(struct redis_model *m)
{
    if (m->later_at > 0)
        db_fini(&m->later);
    m->later_at = 0;
}

/* Begins the journal with the copy `later`, if no replica lacks anything before it. */
static void use_later(struct redis_model *m)
{
    if (m->later_at == 0 || model_replicated(m) < m->later_at)
        return;
    db_fini(&m->synced);
    m->synced = m->later;
    g_ptr_array_remove_range(m->journal, 0, (guint)(m->later_at - m->synced_at));
    m->synced_at = m->later_at;
    m->later_at = 0;
}

static void sync_all(struct redis_model *m)
{
    m->records = true;
    m->uncopied_args = 0;
    drop_later(m);
    db_fini(&m->synced);
    db_copy(&m->db, &m->synced);
    m->durable = m->synced_at = m->offset;
    g_ptr_array_set_size(m->journal, 0);
}

/* Copies the data only now and then: the journal leads from the copy to the disk, and to
 * what the replicas have. So copying costs less than the commands do. */
void redis_model_sync(struct redis_model *m)
{
    if (!m->records) {
        sync_all(m);
        return;
    }
    m->durable = m->offset;
    if (m->later_at == 0 && m->uncopied_args >= JOURNAL_ARGS_MIN &&
        m->uncopied_args >= db_size(&m->db)) {
        db_copy(&m->db, &m->later);
        m->uncopied_args = 0;
        m->later_at = m->offset;
    }
    use_later(m);
}

size_t redis_model_unsynced(const struct redis_model *m)
{
    return (size_t)(m->offset - m->durable);
}

/* Makes the data what it was after that many commands. */
static void rebuild(struct redis_model *m, uint64_t offset)
{
    must(m->records && m->conns->len == 0 && offset >= m->synced_at &&
         offset <= m->offset);
    struct redis_faults faults = m->faults;
    int64_t now_us = m->now_us;
    struct buf out = {0};
    m->durable = offset;
    if (offset == m->offset)
        return;
    if (offset < m->later_at)
        drop_later(m);
    g_ptr_array_set_size(m->journal, (gint)(offset - m->synced_at));
    db_fini(&m->db);
    db_copy(&m->synced, &m->db);
    m->records = false;
    m->replays = true;
    for (guint i = 0; i < m->journal->len; i++) {
        struct entry *e = m->journal->pdata[i];
        struct call c = {.m = m, .args = e->args, .count = e->count, .out = &out};
        m->now_us = e->now_us;
        m->faults = e->faults;
        execute_command(&c);
        buf_clear(&out);
    }
    buf_free(&out);
    m->records = true;
    m->replays = false;
    m->now_us = now_us;
    m->faults = faults;
    m->offset = offset;
}

void redis_model_crash(struct redis_model *m, size_t lost)
{
    must(lost <= redis_model_unsynced(m));
    rebuild(m, m->offset - lost);
    redis_model_flush_scripts(m);
}

void redis_model_fail_over(struct redis_model *m, uint64_t offset, bool keeps_scripts)
{
    rebuild(m, offset);
    if (!keeps_scripts)
        redis_model_flush_scripts(m);
}

/* -------------------------------------------------------------------------- life */

static void add_commands(struct redis_model *m, const struct command *commands)
{
    for (; commands->name; commands++)
        g_hash_table_insert(m->commands, bytes_new(slice_of(commands->name)),
                            (void *)commands);
}

struct redis_model *redis_model_new(void)
{
    struct redis_model *m = mem_alloc(sizeof(*m));
    db_init(&m->db);
    m->conns = g_ptr_array_new();
    m->journal = g_ptr_array_new_with_free_func(free);
    m->commands = g_hash_table_new_full(bytes_hash, bytes_equal, bytes_free, NULL);
    add_commands(m, server_commands);
    add_commands(m, replica_commands);
    add_commands(m, cluster_commands);
    add_commands(m, key_commands);
    add_commands(m, hash_commands);
    add_commands(m, zset_commands);
    model_lua_open(m);
    return m;
}

void redis_model_free(struct redis_model *m)
{
    while (m->conns->len > 0)
        redis_model_disconnect(m->conns->pdata[m->conns->len - 1]);
    model_lua_close(m);
    free(m->view);
    db_fini(&m->db);
    db_fini(&m->synced);
    drop_later(m);
    g_ptr_array_unref(m->conns);
    g_ptr_array_unref(m->journal);
    g_hash_table_unref(m->commands);
    free(m);
}

void redis_model_set_time(struct redis_model *m, int64_t now_us)
{
    m->now_us = now_us;
}

struct redis_faults *redis_model_faults(struct redis_model *m)
{
    return &m->faults;
}

void redis_model_flush_scripts(struct redis_model *m)
{
    model_scripts_flush(m);
}
