/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/conf_lines.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

struct conf_stretch {
    int at, line;
    char *file;
};

void conf_lines_note(struct conf_lines *lines, int at, const char *file, int line)
{
    lines->v = mem_realloc(lines->v, (lines->n + 1) * sizeof(*lines->v));
    lines->v[lines->n++] =
        (struct conf_stretch){at, line, file ? mem_strdup(file) : NULL};
}

const char *conf_lines_find(const struct conf_lines *lines, int at, int *line)
{
    size_t low = 0, high = lines->n; /* the last stretch that begins at or before it */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(lines->v[middle].at <= at ? &low : &high) = middle;
    }
    *line = lines->n > 0 ? lines->v[low].line + at - lines->v[low].at : at;
    return lines->n > 0 ? lines->v[low].file : NULL;
}

void conf_lines_free(struct conf_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        free(lines->v[i].file);
    free(lines->v);
    *lines = (struct conf_lines){NULL, 0};
}
