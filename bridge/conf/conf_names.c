/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_names.c - the names that would have been right, for the person who mistyped one.
 */
#include "bridge/conf/conf_names.h"
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

void conf_names_add(struct conf_names *names, const char *name)
{
    names->v = mem_realloc(names->v, (names->n + 2) * sizeof(*names->v));
    names->v[names->n++] = (struct opt){.name = name};
    names->v[names->n] = (struct opt){0};
}

void conf_names_add_rows(struct conf_names *names, const struct opt *rows)
{
    for (; rows->name != NULL; rows++)
        conf_names_add(names, rows->name);
}

const char *conf_names_hint(struct conf_names *names, const char *wrong,
                            char out[CONF_HINT_SIZE])
{
    const char *nearest = names->n > 0 ? opt_nearest(names->v, wrong) : NULL;
    struct buf known = {0};

    for (size_t i = 0; i < names->n; i++)
        buf_addf(&known, "%s%s", i ? ", " : "", names->v[i].name);
    if (nearest != NULL)
        snprintf(out, CONF_HINT_SIZE, "did you mean \"%s\"?", nearest);
    else if (names->n > 0)
        snprintf(out, CONF_HINT_SIZE, "known: %.300s", buf_str(&known));
    else
        snprintf(out, CONF_HINT_SIZE, "there are none");
    buf_free(&known);
    conf_names_free(names);
    return out;
}

void conf_names_free(struct conf_names *names)
{
    free(names->v);
    *names = (struct conf_names){0};
}
