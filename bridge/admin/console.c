/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/admin.h"
#include "bridge/engine/bridge.h"

/* The page may load, run, request and frame only what this listener serves. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void answer(struct httpd_req *req, const struct console_file *file)
{
    httpd_add(req, "Content-Security-Policy", policy);
    httpd_add(req, "X-Content-Type-Options", "nosniff");
    httpd_add(req, "Referrer-Policy", "no-referrer");
    httpd_add(req, "Cache-Control", "no-cache"); /* an upgrade of tarry may bring a new
                                                  * console */
    httpd_answer(req, 200, file->type, slice_of(file->text));
}

static const struct console_file *find(struct slice name)
{
    const struct console_file *file = console_files;
    while (file->name && !slice_is(name, file->name))
        file++;
    return file->name ? file : NULL;
}

static void page(void *arg, struct httpd_req *req)
{
    (void)arg;
    answer(req, find(SLICE_LIT("index.html")));
}

struct part_args {
    struct slice name;
};
static const struct http_param part_params[] = {
    ADMIN_PATH_ROW("name", offsetof(struct part_args, name)), {0}};

static void part(void *arg, struct httpd_req *req)
{
    const struct part_args *args = httpd_args(req);
    const struct console_file *file = find(args->name);
    (void)arg;
    if (file)
        answer(req, file);
    else
        httpd_error(req, 404, "not-found", "the console is at /console");
}

static void to_page(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_add(req, "Location", "/console");
    httpd_answer(req, 302, NULL, SLICE_LIT(""));
}

const struct httpd_route console_rows[] = {
    {"GET", "/", to_page, HTTPD_PAGE, NULL},
    {"GET", "/console", page, HTTPD_PAGE, NULL},
    {"GET", "/console/{}", part, HTTPD_PAGE,
     HTTP_ARGS(struct part_args, part_params, .others = true)},
    {0},
};
