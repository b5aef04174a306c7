/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_retry.c - a retry schedule as an option, in three forms. Any thread.
 *
 *   [ "10s", "20s" ]              exactly these waits, without jitter, then no more
 *   { first = "1s"; limit = 5; }  the formula of retry.h; missing values have defaults
 *   "never" or [ ]                no retry
 *
 * conf_read.c handles a fourth form in routes: the name of a schedule.
 */
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "bridge/conf/conf_internal.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 1000, DAY_MS = 24 * 3600 * 1000 };

#define AT(field) offsetof(struct retry_policy, field)
static const struct opt formula_rows[] = {
    {"first", OPT_MS, AT(first_ms), "1s", .help = "", .min = 1, .max = 30LL * DAY_MS},
    {"factor", OPT_REAL, AT(factor), "2.0", .help = "", .min = 1, .max = 100},
    {"max", OPT_MS, AT(max_ms), "10m", .help = "", .min = 1, .max = 3660LL * DAY_MS},
    {"limit", OPT_INT, AT(limit), "10", .help = "", .min = 0, .max = 1000000},
    {"jitter", OPT_REAL, AT(jitter), "0.2", .help = "", .min = 0, .max = 1},
    {0}};
#undef AT

static const struct opt wait_row = {"",   OPT_MS,     0,
                                    NULL, .help = "", .max = 3660LL * DAY_MS};

static int by_list(const struct opt_value *v, struct retry_policy *p, struct err *err)
{
    if (v->count > LIST_MAX)
        return err_set(err,
                       "contains more than %d delays; use { first, factor, max, limit }",
                       LIST_MAX);
    /* Never NULL, even if empty: a non-NULL list means "list, not formula". */
    p->list_ms = mem_alloc(v->count * sizeof(*p->list_ms));
    for (size_t i = 0; i < v->count; i++)
        if (opt_set(&wait_row, &p->list_ms[i], &v->item[i], err) != 0) {
            retry_free(p);
            return -1;
        }
    p->list_count = (unsigned)v->count;
    return 0;
}

static int by_formula(const struct opt_value *v, struct retry_policy *p, struct err *err)
{
    opt_defaults(formula_rows, p);
    for (size_t i = 0; i < v->count; i++) {
        const struct opt_value *item = &v->item[i];
        const struct opt *row = opt_find(formula_rows, item->name);
        if (row == NULL)
            return err_set(
                err, "has no option \"%.60s\"; known: first, factor, max, limit, jitter",
                item->name);
        if (opt_set(row, p, item, err) != 0)
            return err_in(err, row->name);
    }
    return p->max_ms < p->first_ms ? err_set(err, "has a max shorter than first") : 0;
}

int opt_set_retry(const struct opt *row, void *field, const struct opt_value *v,
                  struct err *err)
{
    struct retry_policy p = {0};
    const struct opt_value none = {.kind = OPT_IS_LIST};
    int rc;

    (void)row;
    if (v->kind == OPT_IS_STR && strcmp(v->str, OPT_RETRY_NEVER) == 0)
        rc = by_list(&none, &p, err);
    else if (v->kind == OPT_IS_LIST)
        rc = by_list(v, &p, err);
    else if (v->kind == OPT_IS_GROUP)
        rc = by_formula(v, &p, err);
    else
        rc = err_set(err, OPT_RETRY_FORMS);
    if (rc != 0)
        return -1;
    retry_free(field);
    *(struct retry_policy *)field = p;
    return 0;
}
