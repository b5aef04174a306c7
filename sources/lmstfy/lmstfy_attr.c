/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_attr.h"
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy_id.h"

static const char prefix[] = "job-attr-";
enum { PREFIX = sizeof(prefix) - 1 };

static struct slice cut(struct slice s, size_t max)
{
    return (struct slice){s.p, s.n < max ? s.n : max};
}

/* As memcmp(): a shorter one comes first. */
static int compare(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static struct slice name_of(const struct lmstfy_attr *attr)
{
    return (struct slice){attr->name, attr->name_n};
}

static void insert(struct lmstfy_attrs *attrs, const struct lmstfy_attr *attr)
{
    unsigned at = 0;
    int order = 1;
    while (at < attrs->n && (order = compare(name_of(attr), name_of(&attrs->v[at]))) > 0)
        at++;
    if (at < attrs->n && order == 0)
        return;
    if (attrs->n == LMSTFY_ATTRS) {
        attrs->too_many = true;
        return;
    }
    memmove(attrs->v + at + 1, attrs->v + at, (attrs->n - at) * sizeof(*attr));
    attrs->v[at] = *attr;
    attrs->n++;
}

void lmstfy_attrs_take(struct lmstfy_attrs *attrs, struct slice name, struct slice value)
{
    struct lmstfy_attr attr;
    if (value.n == 0 || name.n < PREFIX || strncasecmp(name.p, prefix, PREFIX) != 0)
        return;
    struct slice s =
        cut((struct slice){name.p + PREFIX, name.n - PREFIX}, LMSTFY_ATTR_NAME);
    attr.name_n = s.n;
    for (size_t i = 0; i < s.n; i++)
        attr.name[i] = (char)(s.p[i] | (s.p[i] >= 'A' && s.p[i] <= 'Z' ? 0x20 : 0));
    attr.value = cut(value, LMSTFY_ATTR_VALUE);
    insert(attrs, &attr);
}

static void on_header(void *arg, struct slice name, struct slice value)
{
    lmstfy_attrs_take(arg, name, value);
}

void lmstfy_attrs_read(struct lmstfy_attrs *attrs, const struct httpd_req *req)
{
    attrs->n = 0;
    attrs->too_many = false;
    struct slice version = httpd_header(req, "enable-job-version");
    attrs->with_version = slice_is_nocase(version, "yes");
    if (attrs->with_version)
        httpd_each_header(req, on_header, attrs);
}

void lmstfy_attrs_keep(const struct lmstfy_attrs *attrs, struct job *job)
{
    struct err err;
    for (unsigned i = 0; i < attrs->n; i++) {
        int kept = job_add_header(job, name_of(&attrs->v[i]), attrs->v[i].value, &err);
        must(kept == 0); /* far below a job's limits */
    }
}

void lmstfy_attrs_show(struct buf *out, struct slice id, const struct job *job)
{
    if (!lmstfy_id_has_version(id) || job->header_count == 0) {
        buf_add(out, "null", 4);
        return;
    }
    for (unsigned i = 0; i < job->header_count; i++) {
        buf_add(out, i ? "," : "{", 1);
        text_add_json_go(out, job->headers[i].name);
        buf_add(out, ":", 1);
        text_add_json_go(out, job->headers[i].value);
    }
    buf_add(out, "}", 1);
}
