/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file.h - a small text file, whole. Any thread.
 */
#ifndef BRIDGE_FILE_H
#define BRIDGE_FILE_H

#include "bridge/base/buf.h"
#include "bridge/base/err.h"

/* Appends the content of a regular file of at most max_bytes, without a NUL in it. -1:
 * err says why, without the path; part of it may have been appended. */
int file_read(const char *path, size_t max_bytes, struct buf *text, struct err *err);

#endif
