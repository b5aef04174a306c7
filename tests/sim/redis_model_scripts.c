/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_scripts.c - which scripts a server has. Their texts are compiled once for
 * all servers of the process. */
#include "tests/sim/redis_model_internal.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>

static GPtrArray *sources; /* struct source; NULL: none yet */

static void load(lua_State *l, struct slice code)
{
    if (luaL_loadbuffer(l, code.p, code.n, "@user_script") == 0)
        return;
    fprintf(stderr, "redis model: %s\n", lua_tostring(l, -1));
    must(!"a script of tarry compiles");
}

static int add_code(lua_State *l, const void *bytes, size_t n, void *code)
{
    (void)l;
    buf_add(code, bytes, n);
    return 0;
}

static struct source *source_new(struct slice text)
{
    struct source *source = mem_alloc(sizeof(*source));
    char *sha =
        g_compute_checksum_for_data(G_CHECKSUM_SHA1, (const guchar *)text.p, text.n);
    lua_State *l = luaL_newstate();
    must(l != NULL);
    load(l, text);
    lua_dump(l, add_code, &source->code);
    lua_close(l);
    g_strlcpy(source->sha, sha, sizeof(source->sha));
    g_free(sha);
    source->text = bytes_new(text);
    return source;
}

static const struct source *source_of(struct slice text)
{
    sources = sources ? sources : g_ptr_array_new();
    for (guint i = 0; i < sources->len; i++) {
        const struct source *source = sources->pdata[i];
        if (slice_eq(*source->text, text))
            return source;
    }
    struct source *source = source_new(text);
    g_ptr_array_add(sources, source);
    return source;
}

const char *redis_model_prepare(struct slice text)
{
    return source_of(text)->sha;
}

static struct script *find(const struct redis_model *m, struct slice sha)
{
    for (guint i = 0; i < m->scripts->len; i++) {
        struct script *s = m->scripts->pdata[i];
        if (slice_is(sha, s->source->sha))
            return s;
    }
    return NULL;
}

void model_script_load(struct call *c, struct slice text)
{
    lua_State *l = c->m->lua;
    const struct source *source = source_of(text);
    struct script *s = find(c->m, slice_of(source->sha));
    if (s == NULL) {
        s = mem_alloc(sizeof(*s));
        s->source = source;
        load(l, buf_slice(&source->code));
        s->reference = luaL_ref(l, LUA_REGISTRYINDEX);
        g_ptr_array_add(c->m->scripts, s);
    }
    s->loaded = true;
    reply_bulk(c, slice_of(source->sha));
}

void model_scripts_flush(struct redis_model *m)
{
    for (guint i = 0; i < m->scripts->len; i++)
        ((struct script *)m->scripts->pdata[i])->loaded = false;
}

const struct script *model_find_script(const struct redis_model *m, struct slice sha)
{
    const struct script *s = find(m, sha);
    return s && (s->loaded || m->replays) ? s : NULL;
}
