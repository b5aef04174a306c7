/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/conf_files.h"
#include "bridge/base/hash.h"
#include "bridge/base/buf.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 4 * 1024 * 1024 }; /* the authorities of a whole system */

static uint64_t add_file(uint64_t print, const char *path)
{
    struct buf text = {0};
    struct err err;

    if (buf_add_file(&text, path, FILE_MAX_BYTES, &err) == 0)
        print = hash_fnv1a(print, buf_slice(&text));
    else /* there is none: that, too, may have changed */
        print = hash_fnv1a(print, slice_of(err.text));
    if (text.p != NULL)
        explicit_bzero(text.p, text.cap);
    buf_free(&text);
    return print;
}

static bool is_file(enum opt_type type)
{
    return type == OPT_FILE || type == OPT_KEY_FILE;
}

uint64_t conf_files_print(const struct opt *rows, const void *self)
{
    uint64_t print = 0;

    for (; rows != NULL && rows->name != NULL; rows++) {
        char *path = NULL;
        if (!is_file(rows->type) || rows->reread)
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

int conf_file_look(enum opt_type type, const char *path, struct err *err)
{
    struct stat st;

    if (!is_file(type) || *path == '\0')
        return 0;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        return err_set(err, "%s cannot be read by this user: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, "%s is no regular file", path);
    if (type == OPT_KEY_FILE && (st.st_mode & S_IROTH) != 0)
        return err_set(err, "%s is secret, and all can read it: chmod o= %s", path, path);
    return 0;
}
