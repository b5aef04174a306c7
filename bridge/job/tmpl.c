/* SPDX-License-Identifier: BSD-2-Clause */
/* tmpl.c - templates as lists of parts, topic filters level by level; see tmpl.h. */
#include "bridge/job/tmpl.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <stdlib.h>

enum kind { PART_TEXT, PART_FIELD, PART_ROUTE, PART_HEADER, PART_CAPTURE };

static const struct field {
    const char *name;
    size_t offset; /* of the slice in struct job */
} fields[] = {{"topic", offsetof(struct job, topic)},
              {"key", offsetof(struct job, key)},
              {"id", offsetof(struct job, id)}};
enum { TOPIC, FIELDS = sizeof(fields) / sizeof(fields[0]) };

struct part {
    enum kind kind;
    char *text;      /* PART_TEXT: the text; PART_HEADER: the header's name; else NULL */
    unsigned number; /* PART_FIELD: index in fields; PART_CAPTURE: index from 0 */
};

struct tmpl {
    struct part *parts;
    size_t count;
    bool names_queue;
};

struct job_view { /* the values that a template can use */
    const struct job *job;
    const struct slice *captures;
    unsigned capture_count;
    struct slice route_name;
};

static const char known[] = "valid fields are {topic} {key} {id} {route} {header.NAME} "
                            "{1} to {9}; write {{ and }} for braces";

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* ------------------------------------------------------------------ compiling */

static void add_part(struct tmpl *t, enum kind kind, char *text, unsigned number)
{
    t->parts = mem_realloc(t->parts, (t->count + 1) * sizeof(*t->parts));
    t->parts[t->count++] = (struct part){kind, text, number};
}

static void add_text(struct tmpl *t, struct buf *text)
{
    if (text->n > 0)
        add_part(t, PART_TEXT, mem_strndup(text->p, text->n), 0);
    buf_clear(text);
}

/* name: the text between the braces. */
static int add_field(struct tmpl *t, struct slice name, struct err *err)
{
    static const struct slice header = SLICE_LIT("header.");

    for (unsigned i = 0; i < FIELDS; i++)
        if (slice_is(name, fields[i].name)) {
            add_part(t, PART_FIELD, NULL, i);
            return 0;
        }
    if (slice_is(name, "route")) {
        add_part(t, PART_ROUTE, NULL, 0);
        return 0;
    }
    if (name.n == 1 && name.p[0] >= '1' && name.p[0] <= '9') {
        add_part(t, PART_CAPTURE, NULL, (unsigned)(name.p[0] - '1'));
        return 0;
    }
    if (name.n > header.n && memcmp(name.p, header.p, header.n) == 0) {
        add_part(t, PART_HEADER, mem_strndup(name.p + header.n, name.n - header.n), 0);
        return 0;
    }
    return err_set(err, "unknown field {%.*s}; %s", (int)(name.n < 64 ? name.n : 64),
                   name.p, known);
}

/* p points to a brace. Returns the position after the brace or field, or NULL. text: the
 * literal text collected so far. */
static const char *take_brace(struct tmpl *t, const char *p, struct buf *text,
                              struct err *err)
{
    if (p[1] == p[0]) {
        buf_add(text, p, 1);
        return p + 2;
    }
    size_t n = strcspn(p + 1, "{}");
    if (p[0] == '}' || p[1 + n] != '}') {
        err_set(err, "unpaired %c; write %c%c for a brace, or {FIELD}", p[0], p[0], p[0]);
        return NULL;
    }
    add_text(t, text);
    return add_field(t, (struct slice){p + 1, n}, err) < 0 ? NULL : p + 2 + n;
}

static int compile(struct tmpl *t, const char *p, struct buf *text, struct err *err)
{
    if (strlen(p) > JOB_TARGET_MAX)
        return err_set(err, "the template is longer than %d bytes", JOB_TARGET_MAX);
    while (*p != '\0') {
        if (is_control(*p))
            return err_set(err, "the template contains a control character; remove it");
        if (*p == '{' || *p == '}') {
            p = take_brace(t, p, text, err);
            if (p == NULL)
                return -1;
        } else {
            buf_add(text, p++, 1);
        }
    }
    add_text(t, text);
    return 0;
}

struct tmpl *tmpl_compile(const char *text, struct err *err)
{
    struct tmpl *t = mem_alloc(sizeof(*t));
    struct buf pending = {0};
    int rc = compile(t, text, &pending, err);

    buf_free(&pending);
    if (rc == 0)
        return t;
    tmpl_free(t);
    return NULL;
}

void tmpl_free(struct tmpl *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->parts[i].text);
    free(t->parts);
    free(t);
}

bool tmpl_is_constant(const struct tmpl *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->parts[i].kind != PART_TEXT)
            return false;
    return true;
}

bool tmpl_separates_topics(const struct tmpl *t, unsigned captures)
{
    uint64_t missing = captures < 64 ? (UINT64_C(1) << captures) - 1 : UINT64_MAX;
    for (size_t i = 0; i < t->count; i++) {
        if (t->parts[i].kind == PART_FIELD && t->parts[i].number == TOPIC)
            return true;
        if (t->parts[i].kind == PART_CAPTURE)
            missing &= ~(UINT64_C(1) << t->parts[i].number);
    }
    return captures > 0 && missing == 0;
}

/* ------------------------------------------------------------------ rendering */

static int value_of(const struct part *part, const struct job_view *view,
                    struct slice *value, struct err *err)
{
    const struct header *header;
    const struct field *field;

    switch (part->kind) {
    case PART_TEXT:
        *value = slice_of(part->text);
        return 0;
    case PART_FIELD:
        field = &fields[part->number];
        *value = *(const struct slice *)(const void *)((const char *)view->job +
                                                       field->offset);
        return value->p ? 0
                        : err_set(err, "{%s}: the message has no %s", field->name,
                                  field->name);
    case PART_ROUTE:
        *value = view->route_name;
        return 0;
    case PART_HEADER:
        header = job_header(view->job, part->text);
        if (header == NULL || header->value.p == NULL)
            return err_set(err, "{header.%s}: the message has no such header",
                           part->text);
        *value = header->value;
        return 0;
    case PART_CAPTURE:
        if (part->number >= view->capture_count)
            return err_set(
                err, "{%u}: the topic of the message matches only %u wildcards of match",
                part->number + 1, view->capture_count);
        *value = view->captures[part->number];
        return 0;
    }
    must_failed("known kind", __FILE__, __LINE__);
}

static int check_target(const struct tmpl *t, struct slice target, struct err *err)
{
    if (target.n == 0 && t->count > 0)
        return err_set(err, "the target is empty: all fields of the template are empty");
    for (size_t i = 0; i < target.n; i++)
        if (t->names_queue ? target.p[i] == '\0' : is_control(target.p[i]))
            return err_set(err, "the target would contain a control character (0x%02x)",
                           (unsigned char)target.p[i]);
    return 0;
}

void tmpl_names_queue(struct tmpl *t)
{
    t->names_queue = true;
}

int tmpl_render(const struct tmpl *t, const struct job *job, const struct slice *captures,
                unsigned capture_count, struct slice route_name, struct buf *out,
                struct err *err)
{
    const struct job_view view = {job, captures, capture_count, route_name};
    const size_t before = out->n;
    struct slice value = {NULL, 0};

    for (size_t i = 0; i < t->count; i++) {
        if (value_of(&t->parts[i], &view, &value, err) < 0)
            goto fail;
        if (value.n > JOB_TARGET_MAX - (out->n - before)) {
            err_set(err, "the target would be longer than %d bytes", JOB_TARGET_MAX);
            goto fail;
        }
        buf_add_slice(out, value);
    }
    if (check_target(t, (struct slice){buf_slice(out).p + before, out->n - before},
                     err) == 0)
        return 0;
fail:
    out->n = before;
    return -1;
}

struct slice tmpl_prefix(const struct tmpl *t)
{
    bool begins = t->count > 0 && t->parts[0].kind == PART_TEXT;
    return begins ? slice_of(t->parts[0].text) : SLICE_LIT("");
}

/* ------------------------------------------------------------------- filters */

int match_filter_check(const char *filter, struct err *err)
{
    struct slice rest = slice_of(filter);

    if (rest.n == 0)
        return err_set(err, "an empty topic filter; write # for every topic");
    while (rest.p) {
        struct slice level = text_cut(&rest, '/');
        bool wild = memchr(level.p, '+', level.n) || memchr(level.p, '#', level.n);
        if (wild && level.n > 1)
            return err_set(err, "topic filter \"%s\": + and # must be a whole level",
                           filter);
        if (slice_is(level, "#") && rest.p != NULL)
            return err_set(err, "topic filter \"%s\": # must be the last level", filter);
    }
    return 0;
}

unsigned match_wildcards(const char *filter)
{
    unsigned n = 0;
    for (; *filter; filter++)
        n += *filter == '+' || *filter == '#';
    return n;
}

static void note(struct slice capture, struct slice *captures, unsigned *count)
{
    if (*count >= MATCH_CAPTURES_MAX)
        return;
    if (captures)
        captures[*count] = capture;
    ++*count;
}

static bool match_levels(struct slice filter, struct slice topic, struct slice *captures,
                         unsigned *count)
{
    const struct slice end = {topic.p + topic.n, 0};

    while (filter.p) {
        struct slice want = text_cut(&filter, '/');
        if (slice_is(want, "#")) {
            note(topic.p ? topic : end, captures, count);
            return true;
        }
        if (topic.p == NULL)
            return false;
        struct slice level = text_cut(&topic, '/');
        if (slice_is(want, "+"))
            note(level, captures, count);
        else if (!slice_eq(want, level))
            return false;
    }
    return topic.p == NULL;
}

/* Topics that begin with $ do not match such a filter. */
static bool starts_wild(const char *filter)
{
    return filter[0] == '+' || filter[0] == '#';
}

bool match_topic(const char *filter, struct slice topic, struct slice *captures,
                 unsigned *capture_count)
{
    unsigned count = 0;

    if (topic.p == NULL)
        topic = SLICE_LIT("");
    bool hidden = topic.n > 0 && topic.p[0] == '$' && starts_wild(filter);
    bool matches = !hidden && match_levels(slice_of(filter), topic, captures, &count);
    if (capture_count)
        *capture_count = matches ? count : 0;
    return matches;
}

bool match_covers(const char *filter, const char *other)
{
    struct slice outer = slice_of(filter), inner = slice_of(other);

    if (starts_wild(filter) && other[0] == '$')
        return false;
    while (outer.p) {
        struct slice want = text_cut(&outer, '/');
        if (slice_is(want, "#"))
            return true;
        if (inner.p == NULL)
            return false;
        struct slice level = text_cut(&inner, '/');
        if (slice_is(level, "#") || (!slice_is(want, "+") && !slice_eq(want, level)))
            return false;
    }
    return inner.p == NULL;
}
