/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_lines.h - where the lines of a configuration come from whose includes were put in
 * their places.
 */
#ifndef BRIDGE_CONF_LINES_H
#define BRIDGE_CONF_LINES_H

#include <stddef.h>

struct conf_lines { /* a zeroed one is empty and ready */
    struct conf_stretch *v;
    size_t n;
};

/* Lines of the whole text from number at on (from 1) are those of file (NULL: the main
 * one; copied) from line on. at never falls. */
void conf_lines_note(struct conf_lines *lines, int at, const char *file, int line);
/* Gives the file, which stays until conf_lines_free(), and *line there. */
const char *conf_lines_find(const struct conf_lines *lines, int at, int *line);
void conf_lines_free(struct conf_lines *lines);

#endif
