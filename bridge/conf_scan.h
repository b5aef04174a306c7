/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_scan.h - the text of a configuration, looked over before libconfig gets it.
 *
 * libconfig 1.5 ends the process when an included file cannot be read (a folder), and
 * lets an integer above 2^31-1 wrap silently: both are found here, with file and line.
 */
#ifndef BRIDGE_CONF_SCAN_H
#define BRIDGE_CONF_SCAN_H

#include "bridge/buf.h"
#include "bridge/conf_errors.h"

/* Gives the main file's text in text, when it could be read. dir: where relative includes
 * start from. Every included file is looked over as well. */
void conf_scan(const char *file, const char *dir, struct buf *text,
               struct conf_errors *errors);

/* Appends the content of a regular file of at most max_bytes, without a NUL in it. */
int conf_read_file(const char *path, size_t max_bytes, struct buf *text, struct err *err);

#endif
