/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_scan.h - the text of a configuration, looked over before libconfig gets it, with
 * what it includes in place.
 *
 * libconfig 1.5 includes single files only, ends the process when one cannot be read (a
 * folder), and lets an integer above 2^31-1 wrap silently: both errors are found here,
 * with file and line.
 */
#ifndef BRIDGE_CONF_SCAN_H
#define BRIDGE_CONF_SCAN_H

#include "bridge/base/buf.h"
#include "bridge/conf/conf_errors.h"
#include "bridge/conf/conf_lines.h"

/* Gives the text of the main file with every included one in its place, and where its
 * lines come from. @include "FILE", "FOLDER" (its *.conf), "PATTERN*"; a relative name
 * starts at the folder of the file that it stands in. */
void conf_scan(const char *file, struct buf *text, struct conf_lines *lines,
               struct conf_errors *errors);
/* Gives "." where file names no folder; the caller frees it. */
char *conf_dir_of(const char *file);

#endif
