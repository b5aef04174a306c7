/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_lua.c - scripts: redis.call(), struct and bit, and the conversions between
 * RESP and Lua. */
#include "tests/sim/redis_model_internal.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ RESP to Lua */

/* Sets the field of the new table on the stack. */
static void set_text(lua_State *l, const char *field, const char *text, size_t n)
{
    lua_newtable(l);
    lua_pushlstring(l, text, n);
    lua_setfield(l, -2, field);
}

/* Returns the end of the line at p. *n: its number; of a text anything. */
static const char *read_line(const char *p, int64_t *n)
{
    uint64_t digits = 0;
    bool negative = *p == '-';
    for (p += negative; *p != '\r'; p++)
        digits = digits * 10 + (uint64_t)(*p - '0');
    *n = (int64_t)(negative ? -digits : digits);
    return p + 2;
}

/* Pushes the reply at p; returns its end. */
static const char *push_reply(lua_State *l, const char *p)
{
    int64_t n;
    const char *line = p + 1, *end = read_line(line, &n);
    luaL_checkstack(l, 8, NULL);
    switch (*p) {
    case ':':
        lua_pushnumber(l, (lua_Number)n);
        break;
    case '+':
        set_text(l, "ok", line, (size_t)(end - line) - 2);
        break;
    case '-':
        set_text(l, "err", line, (size_t)(end - line) - 2);
        break;
    case '$':
        if (n < 0) {
            lua_pushboolean(l, 0);
            break;
        }
        lua_pushlstring(l, end, (size_t)n);
        end += n + 2;
        break;
    default:
        must(*p == '*' && n >= 0);
        lua_createtable(l, (int)n, 0);
        for (int i = 1; i <= n; i++) {
            end = push_reply(l, end);
            lua_rawseti(l, -2, i);
        }
    }
    return end;
}

/* ------------------------------------------------------------------ Lua to RESP */

/* Of the table on top of the stack: up to the first nil. */
static size_t list_length(lua_State *l)
{
    for (int n = 0;; n++) {
        lua_rawgeti(l, -1, n + 1);
        bool ends = lua_isnil(l, -1);
        lua_pop(l, 1);
        if (ends)
            return (size_t)n;
    }
}

/* Appends the value on top of the stack, and pops it. */
static void put_value(lua_State *l, struct call *c)
{
    size_t n;
    const char *text;
    switch (lua_type(l, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(l, -1, &n);
        reply_bulk(c, (struct slice){text, n});
        break;
    case LUA_TNUMBER:
        reply_int(c, (long long)lua_tonumber(l, -1));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(l, -1))
            reply_int(c, 1);
        else
            reply_bulk(c, (struct slice){NULL, 0});
        break;
    case LUA_TTABLE:
        luaL_checkstack(l, 4, NULL);
        for (size_t i = 0; i < 2; i++) {
            lua_pushstring(l, i ? "ok" : "err");
            lua_rawget(l, -2);
            if (lua_type(l, -1) == LUA_TSTRING) {
                buf_addf(c->out, "%c%s\r\n", i ? '+' : '-', lua_tostring(l, -1));
                lua_pop(l, 2);
                return;
            }
            lua_pop(l, 1);
        }
        n = list_length(l);
        reply_array(c, n);
        for (size_t i = 1; i <= n; i++) {
            lua_rawgeti(l, -1, (int)i);
            put_value(l, c);
        }
        break;
    default:
        reply_bulk(c, (struct slice){NULL, 0});
    }
    lua_pop(l, 1);
}

/* ------------------------------------------------------------------ redis.call() */

/* Reads the arguments of the call. numbers: receives the texts of the numbers. */
static void read_args(lua_State *l, struct slice *args, int count, char *numbers)
{
    for (int i = 0; i < count; i++) {
        if (lua_type(l, i + 1) != LUA_TNUMBER) {
            args[i].p = lua_tolstring(l, i + 1, &args[i].n);
            continue;
        }
        char *text = numbers + (size_t)i * NUMBER_BYTES;
        args[i].p = text;
        args[i].n = number_text(text, lua_tonumber(l, i + 1));
    }
}

static int run_call(lua_State *l, bool raises)
{
    struct redis_model *m = lua_touserdata(l, lua_upvalueindex(1));
    int count = lua_gettop(l);
    struct buf *out = &m->call_reply;
    for (int i = 1; i <= count; i++)
        if (lua_type(l, i) != LUA_TNUMBER && lua_type(l, i) != LUA_TSTRING)
            count = 0;
    if (count == 0) {
        static const char text[] =
            "ERR Lua redis lib command arguments must be strings or integers";
        set_text(l, "err", text, sizeof(text) - 1);
        return raises ? lua_error(l) : 1;
    }
    struct slice *args = (struct slice *)buf_room(
        &m->call_args, (size_t)count * (sizeof(*args) + NUMBER_BYTES));
    read_args(l, args, count, (char *)(args + count));
    struct call c = {.m = m, .args = args, .count = (unsigned)count, .out = out};
    buf_clear(out);
    model_execute(&c, true);
    push_reply(l, out->p);
    return out->p[0] == '-' && raises ? lua_error(l) : 1;
}

static int redis_call(lua_State *l)
{
    return run_call(l, true);
}

static int redis_pcall(lua_State *l)
{
    return run_call(l, false);
}

static int redis_error_reply(lua_State *l)
{
    size_t n;
    const char *text = luaL_checklstring(l, 1, &n);
    set_text(l, "err", text, n);
    return 1;
}

/* -------------------------------------------------------------- struct and bit */

/* Reads the next letter of a format: ">I<size>" or "B". Returns the size of the number;
 * 0: the format has ended. */
static unsigned next_size(lua_State *l, const char **format)
{
    while (**format == '>')
        (*format)++;
    char letter = **format;
    if (letter == '\0')
        return 0;
    (*format)++;
    if (letter == 'B')
        return 1;
    unsigned size = (unsigned)strtoul(*format, (char **)format, 10);
    if (letter != 'I' || size < 1 || size > 8)
        luaL_error(l, "the model does not know this format of struct");
    return size;
}

static int struct_pack(lua_State *l)
{
    const char *format = luaL_checkstring(l, 1);
    luaL_Buffer b;
    luaL_buffinit(l, &b);
    luaL_argcheck(l, *format == '>', 1, "the model packs big endian only");
    int arg = 2;
    for (unsigned size; (size = next_size(l, &format)) > 0; arg++) {
        lua_Number n = luaL_checknumber(l, arg);
        uint64_t bits = n < 0 ? (uint64_t)(int64_t)n : (uint64_t)n;
        for (unsigned i = size; i-- > 0;)
            luaL_addchar(&b, (char)(bits >> (8 * i)));
    }
    luaL_pushresult(&b);
    return 1;
}

static int struct_unpack(lua_State *l)
{
    size_t n, at = 0;
    const char *format = luaL_checkstring(l, 1), *text = luaL_checklstring(l, 2, &n);
    luaL_argcheck(l, *format == '>', 1, "the model unpacks big endian only");
    if (!lua_isnoneornil(l, 3))
        at = (size_t)luaL_checkinteger(l, 3) - 1;
    lua_settop(l, 2);
    for (unsigned size; (size = next_size(l, &format)) > 0;) {
        uint64_t bits = 0;
        luaL_argcheck(l, at + size <= n, 2, "data string too short");
        for (unsigned i = 0; i < size; i++)
            bits = bits << 8 | (unsigned char)text[at++];
        lua_pushnumber(l, (lua_Number)bits);
    }
    lua_pushinteger(l, (lua_Integer)at + 1);
    return lua_gettop(l) - 2;
}

static int bit_band(lua_State *l)
{
    uint32_t bits = UINT32_MAX;
    for (int i = 1; i <= lua_gettop(l); i++)
        bits &= (uint32_t)(int64_t)luaL_checknumber(l, i);
    lua_pushnumber(l, (int32_t)bits);
    return 1;
}

/* ------------------------------------------------------------------------ life */

static int no_global(lua_State *l)
{
    return luaL_error(l, "Script attempted to access nonexistent global variable '%s'",
                      luaL_checkstring(l, 2));
}

static int no_new_global(lua_State *l)
{
    return luaL_error(l, "Attempt to modify a readonly table");
}

static void *lua_memory(void *arg, void *p, size_t old, size_t n)
{
    (void)arg;
    return block_resize(p, old, n);
}

void model_lua_open(struct redis_model *m)
{
    static const luaL_Reg redis[] = {{"call", redis_call},
                                     {"pcall", redis_pcall},
                                     {"error_reply", redis_error_reply},
                                     {NULL, NULL}};
    static const luaL_Reg structs[] = {
        {"pack", struct_pack}, {"unpack", struct_unpack}, {NULL, NULL}};
    static const luaL_Reg bits[] = {{"band", bit_band}, {NULL, NULL}};
    static const luaL_Reg globals[] = {
        {"__index", no_global}, {"__newindex", no_new_global}, {NULL, NULL}};
    lua_State *l = m->lua = lua_newstate(lua_memory, NULL);
    must(l != NULL);
    luaL_openlibs(l);
    lua_pushlightuserdata(l, m);
    luaL_openlib(l, "redis", redis, 1);
    luaL_register(l, "struct", structs);
    luaL_register(l, "bit", bits);
    lua_settop(l, 0);
    for (size_t i = 0; i < 2; i++) {
        lua_newtable(l);
        lua_setglobal(l, i ? "KEYS" : "ARGV");
    }
    lua_newtable(l);
    luaL_register(l, NULL, globals);
    lua_setmetatable(l, LUA_GLOBALSINDEX);
    m->scripts = g_ptr_array_new_with_free_func(free);
}

void model_lua_close(struct redis_model *m)
{
    g_ptr_array_unref(m->scripts);
    lua_close(m->lua);
    buf_free(&m->call_args);
    buf_free(&m->call_reply);
}

/* --------------------------------------------------------------------- scripts */

static void set_list(lua_State *l, const char *name, const struct slice *texts,
                     unsigned count)
{
    lua_pushstring(l, name);
    lua_createtable(l, (int)count, 0);
    for (unsigned i = 0; i < count; i++) {
        lua_pushlstring(l, texts[i].p ? texts[i].p : "", texts[i].n);
        lua_rawseti(l, -2, (int)i + 1);
    }
    lua_rawset(l, LUA_GLOBALSINDEX);
}

/* Adds to an error of a script what Redis adds: the script and the line. */
static int on_error(lua_State *l)
{
    lua_Debug at = {0};
    int level = 1; /* the function that failed; of redis.call() its caller */
    if (lua_getstack(l, level, &at) && lua_getinfo(l, "S", &at) && at.what &&
        *at.what == 'C')
        lua_getstack(l, ++level, &at);
    lua_getinfo(l, "Sl", &at);
    lua_pushvalue(l, 1);
    if (lua_istable(l, 1))
        lua_getfield(l, 1, "err");
    else
        lua_pushfstring(l, "ERR %s", lua_tostring(l, 1));
    lua_pushfstring(l, "%s script: %s, on @user_script:%d.", lua_tostring(l, -1),
                    lua_tostring(l, lua_upvalueindex(1)), at.currentline);
    lua_newtable(l);
    lua_pushvalue(l, -2);
    lua_setfield(l, -2, "err");
    return 1;
}

/* EVALSHA sha numkeys key... arg... */
void model_evalsha(struct call *c)
{
    struct redis_model *m = c->m;
    lua_State *l = m->lua;
    int64_t keys;
    if (!arg_int(c, 2, &keys))
        return;
    if (keys < 0 || keys > (int64_t)c->count - 3) {
        reply_error(c, keys < 0
                           ? "ERR Number of keys can't be negative"
                           : "ERR Number of keys can't be greater than number of args");
        return;
    }
    const struct script *script = model_find_script(m, c->args[1]);
    if (script == NULL) {
        reply_error(c, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    lua_pushstring(l, script->source->sha);
    lua_pushcclosure(l, on_error, 1);
    set_list(l, "KEYS", c->args + 3, (unsigned)keys);
    set_list(l, "ARGV", c->args + 3 + keys, c->count - 3 - (unsigned)keys);
    lua_rawgeti(l, LUA_REGISTRYINDEX, script->reference);
    m->script_wrote = false;
    m->script_oom = m->faults.oom;
    lua_pcall(l, 0, 1, 1);
    put_value(l, c);
    lua_settop(l, 0);
}
