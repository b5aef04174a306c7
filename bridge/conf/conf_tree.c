/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_tree.c - a configuration file as a tree of opt_value. Only this file includes
 * libconfig.
 *
 * The main file is read into memory here, because libconfig's scanner exits the process
 * on a read error. libconfig owns names and strings; the tree owns only strings with
 * replaced ${...}.
 */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/conf/conf_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <libconfig.h>

enum { SECRET_MAX_BYTES = 64 * 1024, DEPTH_MAX = 16 };

struct conf_tree {
    config_t config;
    struct opt_value root;
    char *dir;
    struct conf_lines lines;
    struct conf_errors *errors;   /* valid only while reading */
    const struct opt_value *here; /* the value being processed */
};

static int expand_env(const struct conf_tree *tree, const char *name, struct buf *out,
                      struct err *err)
{
    const char *otherwise = strstr(name, ":-");
    char *only =
        otherwise ? mem_strndup(name, (size_t)(otherwise - name)) : mem_strdup(name);
    const char *text = getenv(only);

    (void)tree;
    if (otherwise && (text == NULL || *text == '\0'))
        text = otherwise + 2;
    int rc = text ? 0 : err_set(err, "the environment variable %s is not set", only);
    if (text)
        buf_add_str(out, text);
    free(only);
    return rc;
}

static void warn_if_open_to_all(const struct conf_tree *tree, const char *path)
{
    struct stat st;

    if (tree->errors != NULL && stat(path, &st) == 0 && (st.st_mode & S_IROTH) != 0)
        conf_warn_at(tree->errors, tree->here,
                     "every user can read %s; if it is secret: chmod o= %s", path, path);
}

static int read_secret(const struct conf_tree *tree, const char *path, struct buf *out,
                       struct err *err)
{
    int rc = buf_add_file(out, path, SECRET_MAX_BYTES, err);
    if (rc != 0)
        return err_in(err, path);
    warn_if_open_to_all(tree, path);
    /* Editors and echo end a file with a newline, which is not part of the secret. */
    if (out->n > 0 && out->p[out->n - 1] == '\n') {
        out->n--;
        if (out->n > 0 && out->p[out->n - 1] == '\r')
            out->n--;
    }
    return 0;
}

static int expand_file(const struct conf_tree *tree, const char *name, struct buf *out,
                       struct err *err)
{
    struct buf path = {0};

    if (*name != '/' && strcmp(tree->dir, ".") != 0)
        buf_addf(&path, "%s/", tree->dir);
    buf_add_str(&path, name);
    int rc = read_secret(tree, buf_str(&path), out, err);
    buf_free(&path);
    return rc;
}

/* Reads a credential of systemd's LoadCredential=. */
static int expand_cred(const struct conf_tree *tree, const char *name, struct buf *out,
                       struct err *err)
{
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    struct buf path = {0};

    if (strchr(name, '/') != NULL || *name == '.')
        return err_set(
            err, "${cred:%.60s}: the name of a credential must not contain \"/\"", name);
    if (dir == NULL || *dir == '\0')
        return err_set(err,
                       "${cred:%.60s}: the process has no credentials; add "
                       "LoadCredential=%.60s:/PATH to the systemd unit",
                       name, name);
    buf_addf(&path, "%s/%s", dir, name);
    int rc = read_secret(tree, buf_str(&path), out, err);
    buf_free(&path);
    return rc;
}

static const struct expander {
    const char *prefix;
    int (*expand)(const struct conf_tree *, const char *name, struct buf *, struct err *);
} expanders[] = {{"env:", expand_env}, {"file:", expand_file}, {"cred:", expand_cred}};

/* what: the text between the braces. */
static int expand_one(const struct conf_tree *tree, const char *what, struct buf *out,
                      struct err *err)
{
    for (size_t i = 0; i < sizeof(expanders) / sizeof(*expanders); i++) {
        size_t n = strlen(expanders[i].prefix);
        if (strncmp(what, expanders[i].prefix, n) == 0 && what[n] != '\0')
            return expanders[i].expand(tree, what + n, out, err);
    }
    return err_set(err,
                   "has the unknown reference ${%.60s}; valid are ${env:NAME}, "
                   "${file:PATH} and ${cred:NAME}; write $${ for a literal ${",
                   what);
}

int conf_refer(const char *what, struct buf *out, struct err *err)
{
    static char here[] = ".";
    return expand_one(&(struct conf_tree){.dir = here}, what, out, err);
}

/* Copies text to out with every ${...} replaced. */
static int expand(const struct conf_tree *tree, const char *text, struct buf *out,
                  struct err *err)
{
    for (const char *mark; (mark = strstr(text, "${")) != NULL;) {
        buf_add(out, text, (size_t)(mark - text));
        if (mark > text && mark[-1] == '$') {
            buf_add_str(out, "{");
            text = mark + 2;
            continue;
        }
        const char *end = strchr(mark, '}');
        if (end == NULL)
            return err_set(err, "${ without a closing }; write $${ for a literal ${");
        char *what = mem_strndup(mark + 2, (size_t)(end - mark - 2));
        struct buf secret = {0};
        int rc = expand_one(tree, what, &secret, err);
        buf_add(out, secret.p, secret.n);
        text_wipe(&secret);
        free(what);
        if (rc != 0)
            return rc;
        text = end + 1;
    }
    buf_add_str(out, text);
    return 0;
}

static void convert_string(struct conf_tree *tree, const char *text, struct opt_value *v)
{
    struct buf out = {0};
    struct err err;

    v->kind = OPT_IS_STR;
    v->str = text;
    tree->here = v;
    if (strstr(text, "${") == NULL)
        return;
    if (expand(tree, text, &out, &err) != 0) {
        conf_error_at(tree->errors, v, "%s%s%s", v->name ? v->name : "",
                      v->name ? ": " : "", err.text);
    } else {
        v->expanded = true;
        v->str = mem_strdup(buf_str(&out));
    }
    text_wipe(&out);
}

static void convert(struct conf_tree *tree, config_setting_t *setting, unsigned depth,
                    struct opt_value *v);

static void convert_items(struct conf_tree *tree, config_setting_t *setting,
                          unsigned depth, struct opt_value *v)
{
    v->kind =
        config_setting_type(setting) == CONFIG_TYPE_GROUP ? OPT_IS_GROUP : OPT_IS_LIST;
    size_t count = (size_t)config_setting_length(setting);
    if (depth > DEPTH_MAX) {
        conf_error_at(tree->errors, v,
                      "groups or lists are nested more than %d levels deep", DEPTH_MAX);
        return;
    }
    struct opt_value *items = mem_alloc(count * sizeof(*items));
    v->item = items;
    for (; v->count < count; v->count++)
        convert(tree, config_setting_get_elem(setting, (unsigned)v->count), depth + 1,
                &items[v->count]);
}

static void convert(struct conf_tree *tree, config_setting_t *setting, unsigned depth,
                    struct opt_value *v)
{
    v->name = config_setting_name(setting);
    v->file =
        conf_lines_find(&tree->lines, (int)config_setting_source_line(setting), &v->line);
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        v->kind = OPT_IS_INT;
        v->integer = config_setting_get_int64(setting);
        break;
    case CONFIG_TYPE_FLOAT:
        v->kind = OPT_IS_REAL;
        v->real = config_setting_get_float(setting);
        break;
    case CONFIG_TYPE_BOOL:
        v->kind = OPT_IS_BOOL;
        v->boolean = config_setting_get_bool(setting);
        break;
    case CONFIG_TYPE_STRING:
        convert_string(tree, config_setting_get_string(setting), v);
        break;
    default:
        convert_items(tree, setting, depth, v);
    }
}

static int parse(struct conf_tree *tree, const char *text)
{
    if (config_read_string(&tree->config, text) == CONFIG_TRUE)
        return 0;
    conf_slip_report(text, config_error_line(&tree->config),
                     config_error_text(&tree->config), &tree->lines, tree->errors);
    return -1;
}

struct conf_tree *conf_tree_read(const char *file, struct conf_errors *errors)
{
    struct conf_tree *tree = mem_alloc(sizeof(*tree));
    struct buf text = {0};

    tree->errors = errors;
    tree->dir = conf_dir_of(file);
    errors->dir = tree->dir;
    if (errors->warnings != NULL)
        errors->warnings->dir = tree->dir;
    config_init(&tree->config);
    conf_scan(file, &text, &tree->lines, errors);
    bool good = errors->n == 0 && parse(tree, buf_str(&text)) == 0;
    if (good)
        convert(tree, config_root_setting(&tree->config), 0, &tree->root);
    text_wipe(&text);
    tree->errors = NULL;
    if (good)
        return tree;
    errors->dir = NULL;
    if (errors->warnings != NULL)
        errors->warnings->dir = NULL;
    conf_tree_free(tree);
    return NULL;
}

struct conf_tree *conf_tree_of(const char *value)
{
    struct conf_tree *tree = mem_alloc(sizeof(*tree));
    struct buf text = {0};

    buf_addf(&text, "v = %s;", value);
    config_init(&tree->config);
    if (config_read_string(&tree->config, buf_str(&text)) == CONFIG_TRUE)
        convert(tree, config_root_setting(&tree->config), 0, &tree->root);
    buf_free(&text);
    return tree;
}

const struct opt_value *conf_tree_root(const struct conf_tree *tree)
{
    return &tree->root;
}

const struct opt_value *conf_tree_member(const struct opt_value *v, const char *name)
{
    if (v == NULL || v->kind != OPT_IS_GROUP)
        return NULL;
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->item[i].name, name) == 0)
            return &v->item[i];
    return NULL;
}

static void release(const struct opt_value *v)
{
    for (size_t i = 0; i < v->count; i++)
        release(&v->item[i]);
    if (v->expanded) {
        explicit_bzero((char *)v->str, strlen(v->str));
        free((char *)v->str);
    }
    free((void *)v->item);
}

void conf_tree_free(struct conf_tree *tree)
{
    if (tree == NULL)
        return;
    release(&tree->root);
    config_destroy(&tree->config);
    conf_lines_free(&tree->lines);
    free(tree->dir);
    free(tree);
}
