/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/conf_group.h"
#include "bridge/conf/conf_names.h"
#include "bridge/conf/conf_secret.h"
#include "bridge/conf/conf_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

bool conf_is_wrong(struct conf_errors *errors, const struct opt_value *v,
                   const char *where)
{
    if (v->kind == OPT_IS_GROUP)
        return false;
    conf_error_at(errors, v, "%s must be a group: %s: { ... };", where, v->name);
    return true;
}

static void unknown_key(const struct conf_schema *s, const struct opt_value *item,
                        struct conf_errors *errors)
{
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    for (size_t i = 2; i-- > 0;)
        if (s->layers[i].rows != NULL)
            conf_names_add_rows(&names, s->layers[i].rows);
    if (s->also != NULL && opt_find(names.v, s->also) == NULL)
        conf_names_add(&names, s->also);
    conf_error_at(errors, item, "%s has no option \"%s\"; %s", s->where, item->name,
                  conf_names_hint(&names, item->name, hint));
}

bool conf_is_unfilled(const struct opt_value *v)
{
    if (v->kind == OPT_IS_STR)
        return !v->filled && strstr(v->str, "${") != NULL;
    for (size_t i = 0; i < v->count; i++)
        if (conf_is_unfilled(&v->item[i]))
            return true;
    return false;
}

static void read_item(const struct conf_schema *s, const struct opt_value *item,
                      struct conf_errors *errors)
{
    struct err err;

    if (s->also != NULL && strcmp(item->name, s->also) == 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        const struct conf_layer *layer = &s->layers[i];
        const struct opt *row = layer->rows ? opt_find(layer->rows, item->name) : NULL;
        if (row == NULL)
            continue;
        if (conf_is_unfilled(item))
            return;
        if (opt_set(row, layer->self, item, &err) != 0)
            conf_error_at(errors, item, "%s.%s: %s", s->where, item->name, err.text);
        else
            conf_secret_look(row, item, s->where, errors);
        return;
    }
    unknown_key(s, item, errors);
}

void conf_group_read(const struct conf_schema *s, const struct opt_value *group,
                     struct conf_errors *errors)
{
    for (size_t i = 0; i < group->count; i++)
        read_item(s, &group->item[i], errors);
    for (size_t i = 0; i < 2 && s->layers[i].rows != NULL; i++)
        for (const struct opt *row = s->layers[i].rows; row->name != NULL; row++)
            if (row->def == NULL && !row->optional &&
                conf_tree_member(group, row->name) == NULL)
                conf_error_at(errors, group, "%s needs \"%s\": %s", s->where, row->name,
                              row->help);
}

static bool name_is_good(const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0'; n++)
        if (!isalnum((unsigned char)name[n]) && name[n] != '_' && name[n] != '-')
            return false;
    return n >= 1 && n <= NAME_MAX_BYTES;
}

void conf_begin_named(const char *section, const struct opt_value *v,
                      char where[CONF_WHERE_SIZE], struct conf_errors *errors)
{
    snprintf(where, CONF_WHERE_SIZE, "%s.%.80s", section, v->name);
    if (!name_is_good(v->name))
        conf_error_at(
            errors, v,
            "%s: a name has 1 to %d letters, digits, \"_\" or \"-\" and nothing else",
            where, NAME_MAX_BYTES);
}

bool conf_begin_part(const char *section, const struct opt_value *v,
                     char where[CONF_WHERE_SIZE], struct conf_errors *errors)
{
    conf_begin_named(section, v, where, errors);
    return !conf_is_wrong(errors, v, where);
}
