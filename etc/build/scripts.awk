# SPDX-License-Identifier: BSD-2-Clause
# scripts.awk - reads lua/scripts.def and prints, depending on -v mode=
#   h    build/bridge/store/calls.h: an enum of the scripts, one for each set of named values, the replies, the calls
#   c    build/bridge/store/calls.c: the calls, which write arguments and read replies
#   lua  the names at the top of the script given by -v script=
# The first comment of scripts.def explains its words.

function fail(why) { printf "scripts.def:%d: %s\n", FNR, why > "/dev/stderr"; failed = 1; exit 1 }
function add(list, name, type) { n[s, list]++; names[s, list, n[s, list]] = name; types[s, list, n[s, list]] = type }

/^#/ || NF == 0 { next }
$1 == "script" {
    s = $2
    order[++scripts] = s
    for (i = 3; $i ~ /^(bucket|queue|batcher|key)$/; i++)
        is[s, $i] = 1
    what[s] = substr($0, index($0, $(i)))
    next
}
$1 == "library" { s = $2; next }
s == "" { fail("no script") }
$1 == "arg" || $1 == "row" || $1 == "reply" || $1 == "each" { add($1, $2, $3); set = $2; next }
$1 == "is" { add("is", toupper(set) "_" $2, $3); next }
$1 == "answer" { add("answer", $2, $3); letter[s, $2] = $3; next }
$1 == "again" { pairs[s] = pairs[s] letter[s, $2] letter[s, $3]; next }
{ fail("unknown word " $1) }

END {
    if (failed)
        exit 1
    if (mode == "lua")
        lua(script)
    else if (mode == "h")
        header()
    else
        code()
}

# --- Lua ---

# Prints one "local" statement for a list of names and a list of values.
function locals(list, values,    i, left, right) {
    for (i = 1; i in list; i++) {
        left = left (i > 1 ? ", " : "") list[i]
        right = right (i > 1 ? ", " : "") values[i]
    }
    if (i > 1)
        printf "local %s =\n  %s\n", left, right
}
function from_text(type, at) {
    if (type ~ /^(int|opt|horizon|epoch|remember)$/)
        return "tonumber(ARGV[" at "])"
    return type == "flag" ? "ARGV[" at "] == '1'" : "ARGV[" at "]"
}
# Adds the names and values of the arguments of s, from ARGV[at] on.
function arguments(s,    i, type) {
    for (i = 1; i <= n[s, "arg"]; i++) {
        type = types[s, "arg", i]
        if (type ~ /^(now|clock)$/) {
            at++
            now = now || type == "now"
        } else if (type == "wake") {
            list[++listed] = "wake_channel, wake_text"
            values[listed] = "ARGV[" at++ "], ARGV[" at++ "]"
        } else if (type == "kind") {
            list[++listed] = "of_queue, by_key"
            values[listed] = "ARGV[" at "] == 'q', ARGV[" at++ "] == 'k'"
        } else if (type == "parts") {
            constant("PARTS", at++)
        } else {
            list[++listed] = names[s, "arg", i]
            values[listed] = from_text(type, at++)
        }
    }
}
function lua(s,    i, type, width) {
    at = 1
    if (is[s, "queue"])
        arguments("queue")
    arguments(s)
    print "local now_us, now" (now ? " = clock()" : "")
    locals(list, values)
    for (i = 1; i <= n[s, "row"]; i++) {
        type = types[s, "row", i]
        width += type !~ /^(group|stamp)$/ # optional columns
        constant(toupper(names[s, "row", i]), i - 1)
    }
    constant("FIRST_ROW", at)
    constant("ROW", width + 0)
    for (i = 1; i <= n[s, "is"]; i++)
        constant(names[s, "is", i], "'" types[s, "is", i] "'")
    for (i = 1; i <= n[s, "answer"]; i++)
        constant(names[s, "answer", i], "'" types[s, "answer", i] "'")
}
function constant(name, value) { print "local " name " = " value }

# --- C ---

function c_type(type) {
    if (type ~ /^(int|opt)$/)
        return "int64_t "
    return type ~ /^(letter|answer)$/ ? "char " : type == "flag" ? "bool " : "struct slice "
}
function by_caller(type) { return type !~ /^(now|clock|kind|wake|horizon|epoch)$/ }
function asks_by_struct(s,    i, k) {
    for (i = 1; i <= n[s, "arg"]; i++)
        k += by_caller(types[s, "arg", i])
    return k > 8
}
function fields(s, list, kind,    i) {
    for (i = 1; i <= n[s, list]; i++)
        if (kind == "all" || types[s, list, i] !~ /^(now|clock|kind|wake|horizon|epoch|head|slot)$/)
            printf "    %s%s;\n", c_type(types[s, list, i]), names[s, list, i]
}
function prototype(s,    i, text) {
    text = "void store_" s (is[s, "key"] ? "(struct store *st, struct slice key" : "(struct bucket *b")
    if (asks_by_struct(s))
        text = text ", const struct store_" s "_ask *ask"
    for (i = 1; i <= n[s, "arg"] && !asks_by_struct(s); i++)
        if (by_caller(types[s, "arg", i]))
            text = text ", " c_type(types[s, "arg", i]) names[s, "arg", i]
    if (n[s, "row"])
        text = text ", const struct store_" s "_want *wants, unsigned n"
    return text ", " (is[s, "key"] ? "redis_reply_cb" : "store_" s "_cb") " *cb, void *arg)"
}
function values_of(s, kind,    i) {
    if (!n[s, kind])
        return
    printf "enum %s_%s {\n", s, kind == "is" ? "value" : kind
    for (i = 1; i <= n[s, kind]; i++)
        printf "    %s_%s = '%s',\n", toupper(s), names[s, kind, i], types[s, kind, i]
    print "};"
}
function header(    i) {
    print "/* SPDX-License-Identifier: BSD-2-Clause */"
    print "/* Made by etc/build/scripts.awk of lua/scripts.def, where every name is explained. */"
    print "#ifndef CALLS_H\n#define CALLS_H\n"
    print "#include \"bridge/redis/redis.h\"\n\n#include <stdbool.h>\n#include <stdint.h>\n"
    print "struct batch;\nstruct bucket;\nstruct change;\nstruct resp;\nstruct store;\n\nenum script {"
    for (i = 1; i <= scripts; i++)
        printf "    SCRIPT_%s,\n", toupper(order[i])
    print "    SCRIPTS\n};"
    print "extern const char *const script_names[SCRIPTS];"
    print "extern const char *const script_texts[SCRIPTS]; /* made by etc/build/embed-lua.sh */"
    print "/* For a change that was sent again: pairs of letters, the answer of the second run and the lost answer of"
    print " * the first run. NULL: the script itself handles repeats. */"
    print "extern const char *const script_again[SCRIPTS];"
    for (i = 1; i <= scripts; i++) {
        s = order[i]
        printf "\n/* lua/%s.lua: %s */\n", s, what[s]
        values_of(s, "is")
        values_of(s, "answer")
        if (is[s, "batcher"])
            batcher_types()
        else
            call_types()
    }
    print "\n#endif"
}
function batcher_types() {
    if (!is[s, "queue"])
        printf "void %s_head(struct resp *a, const struct batch *batch);\n", s
    printf "void %s_row(struct resp *a, const struct batch *batch, const struct change *c);\n", s
}
function call_types() {
    if (n[s, "each"]) {
        printf "struct store_%s_item {\n", s
        fields(s, "each", "all")
        print "};"
    }
    if (n[s, "row"]) {
        printf "struct store_%s_want {\n", s
        fields(s, "row", "all")
        print "};"
    }
    if (asks_by_struct(s)) {
        printf "struct store_%s_ask {\n", s
        fields(s, "arg")
        print "};"
    }
    if (is[s, "key"]) {
        print prototype(s) ";"
        return
    }
    printf "struct store_%s_reply { /* borrowed */\n", s
    fields(s, "reply")
    if (n[s, "each"])
        printf "    const struct store_%s_item *items;\n    unsigned count;\n", s
    print "};"
    printf "typedef void store_%s_cb(void *arg, const struct store_%s_reply *reply); /* NULL: no answer */\n", s, s
    print prototype(s) ";"
}
function put(type, value) {
    if (type == "int")
        return "resp_add_number(a, (int64_t)" value ")"
    if (type == "opt")
        return "args_number_or_none(a, " value ")"
    if (type == "text")
        return "resp_add(a, " value ")"
    if (type == "flag")
        return "args_flag(a, " value ")"
    if (type == "letter")
        return "args_letter(a, " value ")"
    if (type ~ /^(now|clock)$/)
        return "resp_add(a, SLICE_LIT(\"\"))"
    if (type ~ /^(kind|wake|horizon|epoch)$/)
        return "put_" type "(a, b)"
    return ""
}
function code(    i) {
    print "/* SPDX-License-Identifier: BSD-2-Clause */"
    print "/* Made by etc/build/scripts.awk of lua/scripts.def. */"
    print "#include \"bridge/store/batcher.h\"\n#include \"bridge/base/mem.h\"\n"
    print "#include <stdlib.h>\n\n#include <hiredis/hiredis.h>\n"
    print "const char *const script_names[SCRIPTS] = {"
    for (i = 1; i <= scripts; i++)
        printf "    [SCRIPT_%s] = \"%s\",\n", toupper(order[i]), order[i]
    print "};\n\nstatic void call_cb_key(struct call *call, const struct redisReply *r)\n{"
    print "    if (call->cb)\n        ((redis_reply_cb *)call->cb)(call->arg, r);\n}"
    for (i = 1; i <= scripts; i++) {
        s = order[i]
        if (is[s, "batcher"])
            batcher()
        else if (is[s, "key"])
            send("key")
        else
            call()
    }
    print "\nconst char *const script_again[SCRIPTS] = {"
    for (i = 1; i <= scripts; i++)
        if (order[i] in pairs)
            printf "    [SCRIPT_%s] = \"%s\",\n", toupper(order[i]), pairs[order[i]]
    print "};"
}
# The member of struct change that a row of a batcher sends.
function member(name) {
    return name == "offset" ? "origin.offset" : name == "number" ? "seq" : name
}
function batcher(    i, type, line) {
    if (!is[s, "queue"]) {
        printf "\nvoid %s_head(struct resp *a, const struct batch *batch)\n{\n", s
        print "    const struct bucket *b = batch->batcher->bucket;\n    (void)b;"
        for (i = 1; i <= n[s, "arg"]; i++) {
            type = types[s, "arg", i]
            line = put(type, "")
            printf "    %s;\n", type == "flag" || line == "" ? "put_" names[s, "arg", i] "(a, batch)" : line
        }
        print "}"
    }
    printf "\nvoid %s_row(struct resp *a, const struct batch *batch, const struct change *c)\n{\n    (void)batch;\n", s
    for (i = 1; i <= n[s, "row"]; i++) {
        type = types[s, "row", i]
        line = put(type, "c->" member(names[s, "row", i]))
        printf "    %s;\n", line == "" ? "put_" type "(a, batch, c)" : line
    }
    print "}"
}
# Returns the C expression that reads a field of a reply.
function got(type, at) {
    if (type ~ /^(int)$/)
        return "redis_integer(" at ")"
    if (type ~ /^(letter|answer)$/)
        return "redis_letter(" at ")"
    return type == "flag" ? "redis_integer(" at ") != 0" : "redis_text(" at ")"
}
function call(    i, k, type, tail, value) {
    tail = is[s, "queue"] ? 4 : 0 # of lib/queue.lua
    printf "\nstatic void call_cb_%s(struct call *call, const struct redisReply *r)\n{\n", s
    printf "    enum { HEAD = %d, EACH = %d, TAIL = %d };\n", n[s, "reply"], n[s, "each"], tail
    printf "    store_%s_cb *cb = (store_%s_cb *)call->cb;\n", s, s
    printf "    if (r == NULL || (int)r->elements %s HEAD + TAIL) {\n", n[s, "each"] ? "<" : "!="
    print "        cb(call->arg, NULL);\n        return;\n    }"
    printf "    struct store_%s_reply reply = {0};\n", s
    for (i = 1; i <= n[s, "reply"]; i++) {
        type = types[s, "reply", i]
        value = "r->element[" (i - 1) "]"
        if (type != "head" && type != "slot")
            printf "    reply.%s = %s;\n", names[s, "reply", i], got(type, value)
    }
    if (tail)
        print "    queue_settled(call->bucket, r);"
    for (i = 1; i <= n[s, "reply"]; i++)
        if (types[s, "reply", i] == "head")
            printf "    call_report_head(call, redis_integer(r->element[%d]));\n", i - 1
        else if (types[s, "reply", i] == "slot")
            printf "    far_set_first(call->bucket, redis_integer(r->element[%d]));\n", i - 1
    if (n[s, "each"]) {
        print "    reply.count = (unsigned)((r->elements - HEAD - TAIL) / EACH);"
        printf "    struct store_%s_item *items = mem_alloc((reply.count + 1) * sizeof(*items));\n", s
        print "    for (unsigned i = 0; i < reply.count; i++) {"
        print "        struct redisReply *const *at = r->element + HEAD + (size_t)EACH * i;"
        for (i = 1; i <= n[s, "each"]; i++)
            printf "        items[i].%s = %s;\n", names[s, "each", i], got(types[s, "each", i], "at[" (i - 1) "]")
        print "    }\n    reply.items = items;\n    cb(call->arg, &reply);\n    free(items);\n}"
    } else {
        print "    cb(call->arg, &reply);\n}"
    }
    send(s)
}
# The C call of a script. answer: of its function call_cb_ANSWER().
function send(answer,    i) {
    printf "\n%s\n{\n", prototype(s)
    printf "    struct call *call = %s, SCRIPT_%s);\n", is[s, "key"] ? "call_begin_key(st, key" : "call_begin(b", toupper(s)
    printf "    struct resp *a = &call->store->args;\n"
    if (is[s, "queue"])
        print "    put_queue(a, b);"
    for (i = 1; i <= n[s, "arg"]; i++)
        printf "    %s;\n", put(types[s, "arg", i], (asks_by_struct(s) ? "ask->" : "") names[s, "arg", i])
    if (n[s, "row"]) {
        print "    for (unsigned i = 0; i < n; i++) {"
        for (i = 1; i <= n[s, "row"]; i++)
            printf "        %s;\n", put(types[s, "row", i], "wants[i]." names[s, "row", i])
        print "    }"
    }
    printf "    (void)a;\n    call_send(call, call_cb_%s, (void (*)(void))cb, arg);\n}\n", answer
}
