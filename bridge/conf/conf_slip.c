/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_slip.c - explains a syntax error: the token, and the probable slip, from a table.
 *
 * libconfig reports only "syntax error" and a line, which is the last one if a brace is
 * missing. A value of a setting with a secret's name is not shown.
 */
#include "bridge/base/log.h"
#include "bridge/conf/conf_internal.h"
#include "bridge/conf/conf_syntax.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 60 };

/* --- questions about the token that does not fit --- */

static bool is_sign(const struct token *t, const char *signs)
{
    return t->kind == TOKEN_SIGN && strchr(signs, *t->text.p) != NULL;
}

static bool is_word(const struct token *t)
{
    return t->kind == TOKEN_NAME || t->kind == TOKEN_ODD;
}

/* Returns the length of a quotation mark other than " at p, or 0. */
static size_t odd_quote(const char *p)
{
    static const char *const marks[] = {"'",      "`",      "\u2018", "\u2019", "\u201a",
                                        "\u201c", "\u201d", "\u201e", "\u00ab", "\u00bb"};
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
        if (strncmp(p, marks[i], strlen(marks[i])) == 0)
            return strlen(marks[i]);
    return 0;
}

static bool is_broken_string(const struct syntax *s)
{
    return s->broken.kind == TOKEN_TEXT;
}

static bool is_twice(const struct syntax *s)
{
    return s->first_line > 0;
}

static bool is_unclosed(const struct syntax *s)
{
    return s->at.kind == TOKEN_END && s->depth > 0;
}

static bool is_stray_end(const struct syntax *s)
{
    return s->depth == 0 && is_sign(&s->at, "}])");
}

static bool is_wrong_end(const struct syntax *s)
{
    return is_sign(&s->at, "}])") && *s->at.text.p != syntax_top(s)->close;
}

static bool is_last_comma(const struct syntax *s)
{
    return is_sign(&s->at, "}])") && is_sign(&s->before, ",");
}

static bool is_second_assign(const struct syntax *s)
{
    return is_sign(&s->at, "=:");
}

static bool is_empty(const struct syntax *s)
{
    return s->at.kind == TOKEN_END || is_sign(&s->at, ";,");
}

static bool is_group_in_array(const struct syntax *s)
{
    return is_sign(&s->at, "{[(") && syntax_top(s)->open == '[';
}

static bool is_mixed(const struct syntax *s)
{
    return syntax_top(s)->open == '[' && s->at.kind >= TOKEN_TRUTH &&
           s->at.kind <= TOKEN_TEXT;
}

static bool is_yaml(const struct syntax *s)
{
    bool dash = is_word(&s->at) && s->at.first && slice_is(s->at.text, "-");
    return dash || slice_is(s->at.text, "---") ||
           (s->want == WANT_VALUE && s->at.kind == TOKEN_NAME && s->at.first &&
            is_sign(&s->before, ":"));
}

/* Returns the next byte after the token that is not a blank. */
static char next_byte(const struct syntax *s)
{
    return s->p[strspn(s->p, " \t")];
}

static bool is_json(const struct syntax *s)
{
    return (s->at.kind == TOKEN_TEXT && next_byte(s) == ':') || is_sign(&s->at, "{");
}

static bool is_ini(const struct syntax *s)
{
    return is_sign(&s->at, "[");
}

static bool is_yes(const struct syntax *s)
{
    return slice_is_nocase(s->at.text, "yes") || slice_is_nocase(s->at.text, "on");
}

static bool is_no(const struct syntax *s)
{
    return slice_is_nocase(s->at.text, "no") || slice_is_nocase(s->at.text, "off");
}

static bool is_null(const struct syntax *s)
{
    return slice_is_nocase(s->at.text, "null") || slice_is_nocase(s->at.text, "none");
}

static bool is_odd_quote(const struct syntax *s)
{
    return is_word(&s->at) && odd_quote(s->at.text.p) > 0;
}

static bool is_quoted_name(const struct syntax *s)
{
    return s->at.kind == TOKEN_TEXT && next_byte(s) == '=';
}

static bool is_member(const struct syntax *s)
{
    return s->at.kind == TOKEN_NAME && next_byte(s) == '=';
}

static bool is_byte_order_mark(const struct syntax *s)
{
    return is_word(&s->at) && strncmp(s->at.text.p, "\ufeff", strlen("\ufeff")) == 0;
}

static bool is_unquoted(const struct syntax *s)
{
    return is_word(&s->at);
}

static bool is_dotted(const struct syntax *s)
{
    return s->at.kind == TOKEN_ODD && memchr(s->at.text.p, '.', s->at.text.n) &&
           isalpha((unsigned char)*s->at.text.p);
}

static bool is_bare_group(const struct syntax *s)
{
    return is_sign(&s->at, "{");
}

/* 10 s: a setting "s" without a value, behind a number. */
static bool is_unit(const struct syntax *s)
{
    return s->before.kind == TOKEN_NAME &&
           (s->second_before.kind == TOKEN_WHOLE ||
            s->second_before.kind == TOKEN_REAL) &&
           s->second_before.line == s->before.line;
}

static bool is_value(const struct syntax *s)
{
    return s->at.kind >= TOKEN_TRUTH && s->at.kind <= TOKEN_TEXT;
}

static bool is_open_list(const struct syntax *s)
{
    return syntax_top(s)->open != '{' && !is_value(s) && !is_word(&s->at);
}

static bool is_item(const struct syntax *s)
{
    return syntax_top(s)->open != '{';
}

static bool is_any(const struct syntax *s)
{
    (void)s;
    return true;
}

/* --- the table --- */

/* In text and hint:
 *   {t} the token           {n} the name of the setting
 *   {v} the text at the token up to the end of the value, without quotes
 *   {b} the value before    {m} and the name of its setting
 *   {o} {c} the bracket that is open, and its end   {g} the name of its setting
 *   {l} its line            {f} the line of the first setting of the name */
static const struct slip {
    unsigned want; /* bits of enum syntax_want */
    bool (*is)(const struct syntax *s);
    const char *text, *hint;
} slips[] = {
    {WANT_ANY, is_broken_string, "a string contains a line break",
     "its closing \" may be missing; close it on this line"},
    {WANT_ANY, is_twice, "{g} contains {t} twice, first on line {f}",
     "remove one of them"},
    {WANT_ANY, is_unclosed, "the {o} of {g} is not closed", "add the missing {c}"},
    {WANT_ANY, is_stray_end, "{t} closes nothing",
     "remove it, or look for an earlier {t} that closes too much"},
    {WANT_VALUE, is_last_comma, "a comma before {t}", "remove the comma"},
    {WANT_VALUE | WANT_SETTING, is_yaml, "this looks like YAML",
     "libconfig writes groups in braces: redis: { url = \"...\"; }; and lists in "
     "brackets: "
     "[ \"a\", \"b\" ]"},
    {WANT_SETTING | WANT_END, is_json, "this looks like JSON",
     "libconfig writes names without quotes, and no braces around the file: redis: { url "
     "= "
     "\"...\"; };"},
    {WANT_SETTING | WANT_END, is_ini, "this looks like INI or TOML",
     "libconfig writes sections as groups: redis: { url = \"...\"; };"},
    {WANT_SETTING | WANT_VALUE | WANT_END, is_wrong_end,
     "{t} does not close the {o} of line {l}", "write {c}"},
    {WANT_VALUE, is_second_assign, "a second {t} after {n}", "remove it"},
    {WANT_VALUE, is_empty, "{n} has no value", "write {n} = VALUE;"},
    {WANT_VALUE, is_group_in_array, "{t} in a list in brackets",
     "a list contains only texts or numbers: [ \"a\", \"b\" ]"},
    {WANT_VALUE, is_mixed, "the list of {n} mixes texts, numbers or truth values: {t}",
     "put every entry in quotes, durations with their unit: [ \"10s\", \"60s\" ]"},
    {WANT_VALUE, is_yes, "{n}: {t} is not a value", "write {n} = true;"},
    {WANT_VALUE, is_no, "{n}: {t} is not a value", "write {n} = false;"},
    {WANT_VALUE, is_null, "{n}: {t} is not a value",
     "leave out the option, then its default applies"},
    {WANT_VALUE, is_odd_quote,
     "{n}: the quotes around {v} are not straight double quotes", "write \"{v}\""},
    {WANT_VALUE, is_member, "{n} must be a group", "write {n}: { {t} = ...; };"},
    {WANT_VALUE, is_unquoted, "{n}: {v} is not in quotes", "write \"{v}\""},
    {WANT_SETTING | WANT_END, is_odd_quote, "the name {t} is in quotes",
     "write names without quotes"},
    {WANT_SETTING | WANT_END, is_quoted_name, "the name {t} is in quotes",
     "write names without quotes"},
    {WANT_SETTING, is_byte_order_mark, "the file begins with a byte order mark",
     "save it as UTF-8 without this mark (BOM)"},
    {WANT_SETTING | WANT_END, is_dotted, "the name {t} contains a dot",
     "in kafka: { } write _ for each dot, elsewhere a group: redis: { url = \"...\"; };"},
    {WANT_ASSIGN, is_unit, "{m}: a number and its unit must be in quotes",
     "write {m} = \"{b}{n}\";"},
    {WANT_ASSIGN, is_bare_group, "a \":\" is missing between {n} and {t}",
     "write {n}: {"},
    {WANT_ASSIGN, is_value, "a \"=\" is missing after {n}", "write {n} = {v};"},
    {WANT_ASSIGN, is_odd_quote, "a \"=\" is missing after {n}", "write {n} = \"{v}\";"},
    {WANT_ASSIGN, is_unquoted, "a \"=\" is missing after {n}", "write {n} = \"{v}\";"},
    {WANT_ASSIGN, is_any, "{n} has no value", "write {n} = VALUE;"},
    {WANT_END, is_open_list, "the {o} of {g} is not closed before {t}",
     "add {c} before {t}"},
    {WANT_END, is_item, "a comma is missing before {t}",
     "write a comma between two items"},
    {WANT_SETTING, is_empty, "{t} without a setting before it", "remove it"},
    {WANT_END, is_any, "{t} does not fit here", "a setting ends with \";\""},
    {WANT_ANY, is_any, "{t} does not fit here", "expected NAME = VALUE;"},
};

/* --- rendering --- */

struct slip_place { /* an error */
    const struct syntax *s;
    const struct conf_lines *lines;
    struct syntax_open open; /* the bracket that the text is about */
};

static void add_shown(struct buf *out, struct slice text)
{
    bool cut = text.n > SHOWN_MAX;
    if (cut)
        for (text.n = SHOWN_MAX;
             text.n > 0 && ((unsigned char)text.p[text.n] & 0xc0) == 0x80;)
            text.n--;
    buf_add_slice(out, text);
    buf_add_str(out, cut ? "..." : "");
}

/* Returns the text of a value without quotes, from the token to its end in this line. */
static struct slice whole_value(const struct syntax *s)
{
    const char *p = s->at.text.p;
    bool quoted = s->at.kind == TOKEN_TEXT;
    size_t left = quoted ? 0 : odd_quote(p);
    p += left;
    struct slice v = {
        p, quoted ? s->at.text.n
                  : strcspn(p, syntax_top(s)->open == '{' ? ";#\n\r" : ",])#\n\r")};
    for (size_t i = 0; left > 0 && i < v.n; i++)
        if (odd_quote(&v.p[i]) > 0)
            v.n = i;
    bool refers = v.n > 1 && v.p[0] == '$' && v.p[1] == '{';
    const char *end = refers ? NULL : memchr(v.p, '}', v.n);
    if (!quoted && end)
        v.n = (size_t)(end - v.p);
    while (v.n > 0 && isspace((unsigned char)v.p[v.n - 1]))
        v.n--;
    return v;
}

/* Returns whether the token may be a part of a secret: password = two words; */
static bool may_be_secret(const struct syntax *s)
{
    bool behind = s->want == WANT_ASSIGN && s->second_before.text.p == s->value.text.p;
    return redact_is_secret_name(behind ? s->value_name : s->name);
}

static void add_value(struct buf *out, const struct syntax *s, struct slice value)
{
    struct buf shown = {0};
    char plain[4 * SHOWN_MAX];
    add_shown(&shown, value);
    if (may_be_secret(s))
        buf_add_str(out, "...");
    else
        buf_add_str(out, redact_text(plain, sizeof(plain), buf_str(&shown)));
    buf_free(&shown);
}

static int line_of(const struct slip_place *at, int merged)
{
    int line;
    (void)conf_lines_find(at->lines, merged, &line);
    return line;
}

static void add_field(struct buf *out, const struct slip_place *at, char field)
{
    const struct syntax *s = at->s;
    switch (field) {
    case 't':
        if (s->at.kind == TOKEN_END)
            buf_add_str(out, "the end of the file");
        else if (s->at.kind == TOKEN_SIGN)
            buf_addf(out, "\"%c\"", *s->at.text.p);
        else
            add_value(out, s, s->at.text);
        return;
    case 'n':
        if (s->want == WANT_ASSIGN)
            add_value(out, s, s->name);
        else
            add_shown(out, s->name);
        return;
    case 'v':
        add_value(out, s, whole_value(s));
        return;
    case 'b':
        add_value(out, s, s->value.text);
        return;
    case 'm':
        add_shown(out, s->value_name);
        return;
    case 'g':
        add_shown(out, at->open.name.n > 0    ? at->open.name
                       : at->open.serial == 0 ? SLICE_LIT("the file")
                                              : SLICE_LIT("a list"));
        return;
    case 'l':
        buf_addf(out, "%d", line_of(at, at->open.line));
        return;
    case 'f':
        buf_addf(out, "%d", line_of(at, s->first_line));
        return;
    default:
        buf_addf(out, "\"%c\"", field == 'o' ? at->open.open : at->open.close);
    }
}

static void add_text(struct buf *out, const struct slip_place *at, const char *text)
{
    for (; *text != '\0'; text++)
        if (text[0] == '{' && islower((unsigned char)text[1]) && text[2] == '}') {
            add_field(out, at, text[1]);
            text += 2;
        } else {
            buf_add(out, text, 1);
        }
}

static const struct slip *slip_of(const struct syntax *s)
{
    const struct slip *slip = slips;
    while (!(slip->want & s->want) || !slip->is(s))
        slip++;
    return slip;
}

void conf_slip_report(const char *text, int line, const char *why,
                      const struct conf_lines *lines, struct conf_errors *errors)
{
    struct syntax s = {.duplicate_line = strstr(why, "duplicate") ? line : 0};
    struct slip_place at = {.s = &s, .lines = lines};
    struct buf out = {0};

    if (syntax_find(&s, text)) {
        const struct slip *slip = slip_of(&s);
        at.open = is_unclosed(&s) && s.unclosed.serial > 0 ? s.unclosed : *syntax_top(&s);
        line = slip->is == is_unclosed        ? at.open.line
               : slip->is == is_broken_string ? s.broken.line
                                              : s.at.line;
        buf_addf(&out, "%s: ", is_twice(&s) ? "duplicate setting" : "syntax error");
        add_text(&out, &at, slip->text);
        buf_add_str(&out, "; ");
        add_text(&out, &at, slip->hint);
        why = buf_str(&out);
    }
    const char *file = conf_lines_find(lines, line, &line);
    conf_error(errors, file, line, "%s", why);
    buf_free(&out);
    free(s.names);
}
