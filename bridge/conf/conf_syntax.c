/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_syntax.c - the tokens and the grammar of libconfig; see conf_syntax.h. It accepts
 * what libconfig 1.5 accepts, and does not convert values.
 */
#include "bridge/conf/conf_syntax.h"
#include "bridge/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct syntax_name { /* a setting, to find duplicates */
    struct slice name;
    unsigned group; /* serial of its bracket */
    int line;
};

/* --- tokens --- */

static void skip_byte(struct syntax *s)
{
    if (*s->p++ == '\n') {
        s->line++;
        s->line_start = s->p;
    }
}

static bool starts_comment(const char *p)
{
    return p[0] == '#' || (p[0] == '/' && (p[1] == '/' || p[1] == '*'));
}

static void skip_comment(struct syntax *s)
{
    if (s->p[0] == '/' && s->p[1] == '*') {
        for (s->p += 2; *s->p != '\0' && (s->p[0] != '*' || s->p[1] != '/');)
            skip_byte(s);
        s->p += *s->p != '\0' ? 2 : 0;
    } else {
        s->p += strcspn(s->p, "\n");
    }
}

static void skip_blanks(struct syntax *s)
{
    for (;;)
        if (isspace((unsigned char)*s->p))
            skip_byte(s);
        else if (starts_comment(s->p))
            skip_comment(s);
        else
            return;
}

static void skip_text(struct syntax *s)
{
    for (s->p++; *s->p != '\0' && *s->p != '"'; skip_byte(s))
        if (*s->p == '\\' && s->p[1] != '\0')
            s->p++;
    s->p += *s->p == '"';
}

static void skip_word(struct syntax *s)
{
    while (*s->p != '\0' && !isspace((unsigned char)*s->p) &&
           strchr("=:;,{}[]()\"", *s->p) == NULL && !starts_comment(s->p))
        s->p++;
}

static bool is_name(struct slice word)
{
    for (size_t i = 0; i < word.n; i++) {
        unsigned char c = (unsigned char)word.p[i];
        if (!isalpha(c) && c != '*' && (i == 0 || (!isdigit(c) && !strchr("-_", c))))
            return false;
    }
    return true;
}

static bool all_in(struct slice word, const char *bytes)
{
    for (size_t i = 0; i < word.n; i++)
        if (strchr(bytes, word.p[i]) == NULL)
            return false;
    return word.n > 0;
}

static enum token_kind kind_of(struct slice word)
{
    if (slice_is_nocase(word, "true") || slice_is_nocase(word, "false"))
        return TOKEN_TRUTH;
    if (is_name(word))
        return TOKEN_NAME;
    struct slice digits = word;
    if (*digits.p == '-' || *digits.p == '+') {
        digits.p++;
        digits.n--;
    }
    while (digits.n > 1 && digits.p[digits.n - 1] == 'L')
        digits.n--;
    bool hex = digits.n > 2 && digits.p[0] == '0' && (digits.p[1] | 0x20) == 'x';
    if (hex ? all_in((struct slice){digits.p + 2, digits.n - 2}, "0123456789abcdefABCDEF")
            : all_in(digits, "0123456789"))
        return TOKEN_WHOLE;
    char text[40], *end;
    if (!all_in(word, "0123456789.eE+-") || word.n >= sizeof(text))
        return TOKEN_ODD;
    memcpy(text, word.p, word.n);
    text[word.n] = '\0';
    (void)strtod(text, &end);
    return *end == '\0' ? TOKEN_REAL : TOKEN_ODD;
}

static void read_token(struct syntax *s)
{
    s->second_before = s->before;
    s->before = s->at;
    skip_blanks(s);
    int indent = (int)strspn(s->line_start, " \t");
    const char *start = s->p;
    s->at = (struct token){
        .line = s->line, .indent = indent, .first = s->line_start + indent == start};
    if (*start == '\0')
        return;
    if (*start == '"') {
        skip_text(s);
        s->at.kind = TOKEN_TEXT;
    } else if (strchr("=:;,{}[]()", *start)) {
        s->p++;
        s->at.kind = TOKEN_SIGN;
    } else {
        skip_word(s);
        s->at.kind = kind_of((struct slice){start, (size_t)(s->p - start)});
    }
    s->at.text = (struct slice){start, (size_t)(s->p - start)};
    if (s->line != s->at.line && s->broken.kind == TOKEN_END)
        s->broken = s->at;
}

/* --- grammar: each function returns whether the token fits --- */

const struct syntax_open *syntax_top(const struct syntax *s)
{
    static const struct syntax_open file = {.open = '{'};
    return s->depth > 0 ? &s->open[s->depth - 1] : &file;
}

static char sign_of(const struct token *t)
{
    return t->kind == TOKEN_SIGN ? *t->text.p : '\0';
}

static bool open_bracket(struct syntax *s, char open, char close)
{
    if (s->depth == SYNTAX_DEPTH_MAX || syntax_top(s)->open == '[')
        return false;
    bool item = syntax_top(s)->open == '(';
    s->open[s->depth++] =
        (struct syntax_open){.open = open,
                             .close = close,
                             .line = s->at.line,
                             .indent = s->at.indent,
                             .serial = ++s->serial,
                             .name = item ? (struct slice){NULL, 0} : s->name};
    s->want = open == '{' ? WANT_SETTING : WANT_VALUE;
    return true;
}

/* An end that is indented less than the start of its group may belong to an outer
 * group. */
static bool close_bracket(struct syntax *s)
{
    if (s->depth == 0 || sign_of(&s->at) != syntax_top(s)->close)
        return false;
    const struct syntax_open *top = syntax_top(s);
    bool aligned = !s->at.first || s->at.indent >= top->indent;
    if (s->unclosed.serial == top->serial && aligned)
        s->unclosed.serial = 0;
    else if (s->unclosed.serial == 0 && !aligned)
        s->unclosed = *top;
    s->depth--;
    s->want = WANT_END;
    return true;
}

static bool is_twice(struct syntax *s)
{
    unsigned group = syntax_top(s)->serial;
    if (s->duplicate_line == 0)
        return false;
    for (size_t i = 0; s->at.line == s->duplicate_line && i < s->name_count; i++)
        if (s->names[i].group == group && slice_eq(s->names[i].name, s->at.text)) {
            s->first_line = s->names[i].line;
            return true;
        }
    if ((s->name_count & (s->name_count - 1)) == 0) /* doubles at each power of two */
        s->names = mem_realloc(s->names, 2 * (s->name_count + 1) * sizeof(*s->names));
    s->names[s->name_count++] = (struct syntax_name){s->at.text, group, s->at.line};
    return false;
}

static bool fits_setting(struct syntax *s)
{
    const struct syntax_open *top = syntax_top(s);
    if (s->at.kind != TOKEN_NAME)
        return close_bracket(s);
    /* A setting that is indented like the start of its group may be outside of it. */
    if (s->at.first && s->depth > 0 && s->at.line > top->line &&
        s->at.indent <= top->indent && s->unclosed.serial == 0)
        s->unclosed = *top;
    s->name = s->at.text;
    s->want = WANT_ASSIGN;
    return !is_twice(s);
}

static bool fits_assign(struct syntax *s)
{
    s->want = WANT_VALUE;
    return sign_of(&s->at) == '=' || sign_of(&s->at) == ':';
}

static bool fits_value(struct syntax *s)
{
    static const char brackets[] = "{}[]()";
    char sign = sign_of(&s->at);
    const char *open = sign ? strchr(brackets, sign) : NULL;
    if (open && (open - brackets) % 2 == 0)
        return open_bracket(s, open[0], open[1]);
    struct syntax_open *top = s->depth > 0 ? &s->open[s->depth - 1] : NULL;
    if (sign)
        return top && sign_of(&s->before) == top->open && close_bracket(s);
    if (s->at.kind < TOKEN_TRUTH || s->at.kind > TOKEN_TEXT)
        return false;
    if (top && top->open == '[' && top->items != TOKEN_END && top->items != s->at.kind)
        return false;
    if (top)
        top->items = s->at.kind;
    s->value = s->at;
    s->value_name = s->name;
    s->want = WANT_END;
    return true;
}

static bool fits_end(struct syntax *s)
{
    bool in_group = syntax_top(s)->open == '{';
    char sign = sign_of(&s->at);
    if (s->at.kind == TOKEN_TEXT && s->before.kind == TOKEN_TEXT)
        return true; /* libconfig joins strings */
    if (sign == ',' || (sign == ';' && in_group)) {
        s->want = in_group ? WANT_SETTING : WANT_VALUE;
        return true;
    }
    return in_group ? fits_setting(s) : close_bracket(s);
}

static bool fits(struct syntax *s)
{
    enum syntax_want want = s->want;
    bool good = want == WANT_SETTING  ? fits_setting(s)
                : want == WANT_ASSIGN ? fits_assign(s)
                : want == WANT_VALUE  ? fits_value(s)
                                      : fits_end(s);
    if (!good)
        s->want = want;
    return good;
}

bool syntax_find(struct syntax *s, const char *text)
{
    s->p = s->line_start = text;
    s->line = 1;
    s->want = WANT_SETTING;
    do {
        read_token(s);
        bool between = s->want == WANT_SETTING || s->want == WANT_END;
        if (s->at.kind == TOKEN_END && between && s->depth == 0)
            return false;
    } while (fits(s));
    return true;
}
