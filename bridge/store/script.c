/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/script.h"
#include "bridge/base/text.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

static const char *const names[SCRIPTS] = {
    [SCRIPT_ENQUEUE] = "enqueue",   [SCRIPT_CLAIM] = "claim",
    [SCRIPT_ACK] = "ack",           [SCRIPT_RETRY] = "retry",
    [SCRIPT_BURY] = "bury",         [SCRIPT_CANCEL] = "cancel",
    [SCRIPT_REAP] = "reap",         [SCRIPT_FIND] = "find",
    [SCRIPT_COUNT] = "count",       [SCRIPT_PULL] = "pull",
    [SCRIPT_FINISH] = "finish",     [SCRIPT_RELEASE] = "release",
    [SCRIPT_TOUCH] = "touch",       [SCRIPT_LOOK] = "look",
    [SCRIPT_MEASURE] = "measure",   [SCRIPT_RESPAWN] = "respawn",
    [SCRIPT_DROP] = "drop",         [SCRIPT_TALLY] = "tally",
    [SCRIPT_UNLIST] = "unlist",     [SCRIPT_DEAD] = "dead",
    [SCRIPT_PACE] = "pace",         [SCRIPT_ALIVE] = "alive",
    [SCRIPT_META] = "meta",         [SCRIPT_AUDIT] = "audit",
    [SCRIPT_MOVE] = "move",         [SCRIPT_LIST] = "list",
    [SCRIPT_MOVE_DUE] = "move_due", [SCRIPT_RENEW] = "renew",
};

const char *script_name(enum script s)
{
    return names[s];
}

static const char *script_text(const char *name)
{
    for (const struct lua_file *f = lua_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->text;
    return NULL;
}

struct one_load {
    struct script_load *load;
    enum script which;
};

static void on_loaded(void *arg, const struct redisReply *reply)
{
    struct one_load *one = arg;
    struct script_load *load = one->load;
    if (reply && reply->type == REDIS_REPLY_STRING && reply->len == 40)
        memcpy(load->scripts->sha[one->which], reply->str, 41);
    else
        load->failed++;
    free(one);
    if (--load->open == 0)
        load->done(load->arg, load->failed == 0);
}

void scripts_load(struct script_load *load, struct scripts *s, struct redis *r,
                  void (*done)(void *arg, bool ok), void *arg)
{
    must(load->open == 0);
    *load = (struct script_load){s, SCRIPTS, 0, done, arg};
    for (int i = 0; i < SCRIPTS; i++) {
        const char *text = script_text(names[i]);
        must(text != NULL);
        struct one_load *one = mem_alloc(sizeof(*one));
        *one = (struct one_load){load, (enum script)i};
        const struct slice args[] = {SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
                                     slice_of(text)};
        redis_command(r, args, 3, on_loaded, one);
    }
}

void args_free(struct args *a)
{
    resp_free(&a->command);
}

void args_slice(struct args *a, struct slice s)
{
    resp_add(&a->command, s);
}

void args_number(struct args *a, int64_t n)
{
    resp_add_number(&a->command, n);
}

void args_letter_number(struct args *a, char letter, int64_t n)
{
    char text[1 + TEXT_DECIMAL_MAX] = {letter};
    resp_add(&a->command, (struct slice){text, 1 + text_put_decimal(text + 1, n)});
}

void args_begin(struct args *a, const struct scripts *s, enum script script,
                const struct slice *keys, unsigned key_count)
{
    resp_begin(&a->command);
    args_slice(a, SLICE_LIT("EVALSHA"));
    args_slice(a, slice_of(s->sha[script]));
    args_number(a, key_count);
    for (unsigned i = 0; i < key_count; i++)
        args_slice(a, keys[i]);
}

void args_send(struct args *a, struct scripts *s, enum script script, struct redis *r,
               redis_reply_cb *cb, void *arg)
{
    s->calls[script]++;
    redis_whole_command(r, resp_end(&a->command), &s->took[script], cb, arg);
}
