/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * console.h - the web console: a page for operators, served beside the admin API, which
 * is all that it uses. Its files are in bridge/admin/console/, embedded at build time.
 */
#ifndef BRIDGE_CONSOLE_H
#define BRIDGE_CONSOLE_H

struct bridge;

struct console_file {
    const char *name; /* "main.js" */
    const char *type, *text;
};
extern const struct console_file console_files[]; /* made by etc/build/embed-console.sh;
                                                     ends with NULLs */

void console_serve(struct bridge *bridge);

#endif
