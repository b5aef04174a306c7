/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/conf_secret.h"
#include "bridge/base/log.h"
#include "bridge/conf/conf.h"
#include "bridge/conf/conf_files.h"

#include <string.h>

/* Is it a text that stands in the file itself? */
static bool is_literal(const struct opt_value *v)
{
    return v->kind == OPT_IS_STR && !v->filled && *v->str != '\0';
}

static void tell(const struct opt_value *v, const char *where, const char *name,
                 const char *of, struct conf_errors *errors)
{
    conf_warn_at(errors, v,
                 "%s.%s%s%.60s holds a secret as it is; write ${file:PATH}, ${cred:NAME} "
                 "or ${env:NAME} in its place",
                 where, name, *of ? "." : "", of);
}

/* Of a URL only a password is secret, of "embedded", which stands in its place, nothing.
 */
static bool is_secret(const struct opt *row)
{
    return row->type == OPT_SECRET && strcmp(row->name, "url") != 0;
}

static bool tells_secret(const struct opt_value *v, bool secret)
{
    if (!is_literal(v))
        return false;
    return strstr(v->str, "://") ? redact_finds(v->str) : secret;
}

static void look_at_file(const struct opt *row, const struct opt_value *v,
                         const char *where, struct conf_errors *errors)
{
    struct err err;

    if (conf_file_look(row->type, v->str, &err) != 0)
        conf_warn_at(errors, v, "%s.%s: %s", where, row->name, err.text);
}

void conf_secret_look(const struct opt *row, const struct opt_value *v, const char *where,
                      struct conf_errors *errors)
{
    if (row->type == OPT_FILE || row->type == OPT_KEY_FILE)
        look_at_file(row, v, where, errors);
    else if (row->type < OPT_INT && tells_secret(v, is_secret(row)))
        tell(v, where, row->name, "", errors);
    if (row->type != OPT_LIST && row->type != OPT_PAIRS)
        return;
    if (tells_secret(v, row->secret)) /* a list of one, without brackets */
        tell(v, where, row->name, "", errors);
    for (size_t i = 0; i < v->count; i++) {
        const struct opt_value *item = &v->item[i];
        const char *name = item->name ? item->name : "";
        if (tells_secret(item, row->secret || redact_is_secret_name(slice_of(name))))
            tell(item, where, row->name, name, errors);
    }
}

void conf_log_warnings(struct conf *conf)
{
    for (const char *p = buf_str(&conf->warnings); *p != '\0';) {
        const int n = (int)strcspn(p, "\n");
        log_warn("config", "%.*s", n, p);
        p += n + (p[n] == '\n');
    }
}
