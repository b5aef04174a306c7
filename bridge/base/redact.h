/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redact.h - texts for people, without the secrets in them.
 *
 * Hides the password of scheme://user:password@host, the values of parameters and fields
 * whose name tells that they are secret (token=..., "password":"..."), headers of
 * authorization, bearer tokens and keys that are known by how they begin. Pure; any
 * thread.
 */
#ifndef BRIDGE_REDACT_H
#define BRIDGE_REDACT_H

#include "bridge/base/buf.h"

#include <stdbool.h>

/* Copies text with "***" for each secret in it, cut to size, and ends it with a NUL.
 * Gives out, which must not overlap text. */
const char *redact_text(char *out, size_t size, const char *text);

/* Does it hold anything that redact_text() would hide? */
bool redact_finds(const char *text);

/* Does the name of a setting, a header or a parameter say that its value is a secret? */
bool redact_is_secret_name(struct slice name);

#endif
