/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/script.h"
#include "bridge/base/text.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

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
        const char *text = script_text(script_name((enum script)i));
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

void args_number_or_none(struct args *a, int64_t n)
{
    if (n)
        args_number(a, n);
    else
        args_slice(a, SLICE_LIT(""));
}

void args_letter(struct args *a, char letter)
{
    args_slice(a, (struct slice){&letter, letter ? 1 : 0});
}

void args_flag(struct args *a, bool on)
{
    args_slice(a, on ? SLICE_LIT("1") : SLICE_LIT(""));
}

void args_how(struct args *a, char letter, bool again, int64_t number)
{
    char text[2 + TEXT_DECIMAL_MAX];
    size_t n = 0;
    if (letter)
        text[n++] = letter;
    if (again)
        text[n++] = '+';
    if (number)
        n += text_put_decimal(text + n, number);
    resp_add(&a->command, (struct slice){text, n});
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
