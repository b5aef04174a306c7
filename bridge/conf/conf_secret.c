/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_secret.c - warnings about secrets and files in a configuration, and fingerprints
 * of files.
 */
#include "bridge/base/buf.h"
#include "bridge/base/hash.h"
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/conf/conf_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 4 * 1024 * 1024 }; /* enough for a system's CA bundle */

static uint64_t add_file(uint64_t print, const char *path)
{
    struct buf text = {0};
    struct err err;

    if (buf_add_file(&text, path, FILE_MAX_BYTES, &err) == 0)
        print = hash_fnv1a(print, buf_slice(&text));
    else /* unreadable: the error is part of the fingerprint too */
        print = hash_fnv1a(print, slice_of(err.text));
    text_wipe(&text);
    return print;
}

static bool is_file(enum opt_type type)
{
    return type == OPT_FILE || type == OPT_KEY_FILE;
}

uint64_t conf_files_fingerprint(const struct opt *rows, const void *self)
{
    uint64_t print = 0;

    for (; rows->name != NULL; rows++) {
        char *path = NULL;
        if (!is_file(rows->type) || rows->reloads)
            continue;
        memcpy(&path, (const char *)self + rows->offset, sizeof(path));
        if (path != NULL && *path != '\0') {
            if (print == 0)
                print = HASH_FNV1A;
            print = hash_fnv1a(print, slice_of(rows->name));
            print = add_file(print, path);
        }
    }
    return print;
}

/* Returns whether v is a text written in the file itself. */
static bool is_literal(const struct opt_value *v)
{
    return v->kind == OPT_IS_STR && !v->expanded && *v->str != '\0';
}

static void warn_of_literal(const struct opt_value *v, const char *where,
                            const char *name, const char *of, struct conf_errors *errors)
{
    conf_warn_at(errors, v,
                 "%s.%s%s%.60s contains a secret in plain text; write ${file:PATH}, "
                 "${cred:NAME} or ${env:NAME} instead",
                 where, name, *of ? "." : "", of);
}

/* A URL is secret only by its password, and "embedded" in its place is not secret. */
static bool is_secret(const struct opt *row)
{
    return row->type == OPT_SECRET && strcmp(row->name, "url") != 0;
}

static bool contains_secret(const struct opt_value *v, bool secret)
{
    if (!is_literal(v))
        return false;
    return strstr(v->str, "://") ? redact_finds(v->str) : secret;
}

/* Checks that the file is readable and, if secret, not readable by everybody. -1: err
 * says what to do. */
static int check_file(enum opt_type type, const char *path, struct err *err)
{
    struct stat st;

    if (*path == '\0')
        return 0;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        return err_set(err, "this user cannot read %s: %s; %s", path, strerror(errno),
                       errno == ENOENT ? "create the file, or correct the path"
                                       : "allow the user of tarry to read it");
    if (!S_ISREG(st.st_mode))
        return err_set(err, "%s is not a regular file; name a file", path);
    if (type == OPT_KEY_FILE && (st.st_mode & S_IROTH) != 0)
        return err_set(err, "%s is secret, but every user can read it; run: chmod o= %s",
                       path, path);
    return 0;
}

void conf_secret_check(const struct opt *row, const struct opt_value *v,
                       const char *where, struct conf_errors *errors)
{
    struct err err;

    if (is_file(row->type)) {
        if (check_file(row->type, v->str, &err) != 0)
            conf_warn_at(errors, v, "%s.%s: %s", where, row->name, err.text);
    } else if (row->type < OPT_INT && contains_secret(v, is_secret(row))) {
        warn_of_literal(v, where, row->name, "", errors);
    }
    if (row->type != OPT_LIST && row->type != OPT_PAIRS)
        return;
    if (contains_secret(v, row->secret)) /* a list of one item without brackets */
        warn_of_literal(v, where, row->name, "", errors);
    for (size_t i = 0; i < v->count; i++) {
        const struct opt_value *item = &v->item[i];
        const char *name = item->name ? item->name : "";
        if (contains_secret(item, row->secret || redact_is_secret_name(slice_of(name))))
            warn_of_literal(item, where, row->name, name, errors);
    }
}
