/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reached.c - counts what the seeds reach: answers of the scripts, errors of Redis,
 * faults, log lines of the cores. The table is shared by the processes of all seeds.
 */
#include "tests/sim/shorten.h"

#include "bridge/store/calls.h"

#include <ctype.h>
#include <glib.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { NAME_MAX_BYTES = 120, COUNTS_MAX = 4096 };

static struct reached {
    int64_t scripts[SCRIPTS], answers[SCRIPTS]['z' + 1];
    struct count {
        char name[NAME_MAX_BYTES];
        int64_t n;
    } others[COUNTS_MAX];
} * tables, *counts; /* of all processes, of this one */
static const char *shas[SCRIPTS];

/* Its text begins with "-- NAME.lua". */
const char *reached_script(int script)
{
    static char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(script_texts[script] + 3, "."),
             script_texts[script] + 3);
    return name;
}

static void add(const char *name, int64_t n)
{
    size_t i = g_str_hash(name) % COUNTS_MAX, tries = 0;
    struct count *others = counts->others;
    for (; others[i].n > 0 && strcmp(others[i].name, name) != 0; i = (i + 1) % COUNTS_MAX)
        if (++tries == COUNTS_MAX) /* the table is full */
            return;
    g_strlcpy(others[i].name, name, sizeof(others[i].name));
    others[i].n += n;
}

void reached(const char *fmt, ...)
{
    char name[NAME_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    if (world.counts)
        add(name, 1);
}

/* One letter for each change or job, in the first text of the reply; of alter a text for
 * each. */
static void reached_answers(int script, struct slice reply)
{
    const char *at = reply.p, *end = reply.p + reply.n;
    while ((at = memchr(at, '$', (size_t)(end - at))) != NULL) {
        const char *text = memchr(at, '\n', (size_t)(end - at));
        long n = strtol(at + 1, NULL, 10);
        if (text++ == NULL || n < 0 || n + 2 > end - text)
            return;
        bool is_one =
            script == SCRIPT_ALTER || script == SCRIPT_TOUCH || script == SCRIPT_LOOK;
        for (long i = 0; i < n && (!is_one || n == 1); i++)
            if (isalpha((unsigned char)text[i]))
                counts->answers[script][(unsigned char)text[i]] += world.counts;
        if (script != SCRIPT_ALTER)
            return;
        at = text + n;
    }
}

/* Of a batcher, or of a script with one answer: etc/build/scripts.awk generates no list.
 */
static bool has_answers(int script)
{
    static const int with[] = {
        SCRIPT_ENQUEUE, SCRIPT_ACK,   SCRIPT_RETRY, SCRIPT_CANCEL, SCRIPT_FINISH,
        SCRIPT_RELEASE, SCRIPT_RENEW, SCRIPT_TOUCH, SCRIPT_LOOK,   SCRIPT_ALTER};
    for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++)
        if (with[i] == script)
            return true;
    return false;
}

static void on_command(void *arg, const struct slice *args, unsigned count,
                       struct slice reply)
{
    (void)arg;
    if (reply.n > 1 && reply.p[0] == '-')
        reached("error %.*s", (int)strcspn(reply.p + 1, " \r"), reply.p + 1);
    if (count < 2 || !slice_is(args[0], "EVALSHA") || args[1].n != 40)
        return;
    for (int s = 0; s < SCRIPTS; s++)
        if (memcmp(shas[s], args[1].p, 40) == 0) {
            counts->scripts[s] += world.counts;
            if (s == SCRIPT_META)
                reconf_meta(false);
            if (reply.p[0] != '-' && has_answers(s))
                reached_answers(s, reply);
        }
}

void reached_line(struct slice line)
{
    char text[NAME_MAX_BYTES];
    size_t to = 0;
    const char *msg = g_strstr_len(line.p, (gssize)line.n, "msg=");
    for (const char *p = msg ? msg + 4 : line.p + line.n;
         p < line.p + line.n && to < sizeof(text) - 1; p++)
        if (!isdigit((unsigned char)*p))
            text[to++] = *p;
        else if (to == 0 || text[to - 1] != '0')
            text[to++] = '0';
    text[to] = '\0';
    reached("log %s", text);
}

const char *reached_sha(int script)
{
    return shas[script];
}

void reached_open(void)
{
    tables = mmap(NULL, CHILDREN_MAX * sizeof(*tables), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(tables != MAP_FAILED);
    for (int s = 0; s < SCRIPTS; s++)
        shas[s] = redis_model_prepare(slice_of(script_texts[s]));
}

void reached_watch(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        redis_model_watch(servers[i].redis, on_command, NULL);
}

void reached_use(unsigned child)
{
    counts = &tables[child];
}

static void add_table(const struct reached *table)
{
    for (int s = 0; s < SCRIPTS; s++) {
        counts->scripts[s] += table->scripts[s];
        for (int letter = 0; letter <= 'z'; letter++)
            counts->answers[s][letter] += table->answers[s][letter];
    }
    for (size_t i = 0; i < COUNTS_MAX; i++)
        if (table->others[i].n > 0)
            add(table->others[i].name, table->others[i].n);
}

void reached_write(const char *path)
{
    FILE *out = fopen(path, "w");
    must(out != NULL);
    reached_use(0);
    for (int i = 1; i < CHILDREN_MAX; i++)
        add_table(&tables[i]);
    for (int s = 0; s < SCRIPTS; s++) {
        if (counts->scripts[s] > 0)
            fprintf(out, "%lld script %s\n", (long long)counts->scripts[s],
                    reached_script(s));
        for (int letter = 0; letter <= 'z'; letter++)
            if (counts->answers[s][letter] > 0)
                fprintf(out, "%lld answer %s %c\n", (long long)counts->answers[s][letter],
                        reached_script(s), letter);
    }
    for (size_t i = 0; i < COUNTS_MAX; i++)
        if (counts->others[i].n > 0)
            fprintf(out, "%lld %s\n", (long long)counts->others[i].n,
                    counts->others[i].name);
    must(fclose(out) == 0);
}
