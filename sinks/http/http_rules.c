/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http/http_rules.h"

#include <ctype.h>
#include <string.h>

enum { STATUS_MIN = 100 };

static const char *const list_names[HTTP_VERDICTS] = {
    [HTTP_DELIVERED] = "delivered",
    [HTTP_RETRY] = "retry",
    [HTTP_REJECT] = "reject",
    [HTTP_STOP] = "stop",
};

/* Gives what stands behind the number; NULL: there is none, or it is above most. */
static const char *read_number(const char *p, unsigned most, unsigned *n)
{
    if (!isdigit((unsigned char)*p))
        return NULL;
    for (*n = 0; isdigit((unsigned char)*p); p++) {
        *n = *n * 10 + (unsigned)(*p - '0');
        if (*n > most)
            return NULL;
    }
    return p;
}

int http_range_read(struct http_range *range, const char *text, unsigned most)
{
    const char *p = read_number(text, most, &range->first);
    if (p == NULL)
        return -1;
    range->last = range->first;
    if (*p == '-')
        p = read_number(p + 1, most, &range->last);
    return p && *p == '\0' && range->first <= range->last ? 0 : -1;
}

static int read_codes(struct http_range *range, const char *text)
{
    if (text[0] >= '1' && text[0] <= '9' && strcasecmp(text + 1, "xx") == 0) {
        range->first = (unsigned)(text[0] - '0') * 100;
        range->last = range->first + 99;
        return 0;
    }
    int rc = http_range_read(range, text, HTTP_STATUS_MAX);
    return rc == 0 && range->first >= STATUS_MIN ? 0 : -1;
}

/* width: of the range that each status has its verdict from; 0: none yet. */
static int enter(struct http_rules *rules, unsigned width[], const struct http_range *r,
                 enum http_verdict verdict, struct err *err)
{
    unsigned w = r->last - r->first + 1;
    for (unsigned i = r->first; i <= r->last; i++) {
        if (width[i] == w && rules->verdict[i] != verdict)
            return err_set(err, "%u stands in both %s and %s: take it out of one", i,
                           list_names[rules->verdict[i]], list_names[verdict]);
        if (width[i] != 0 && width[i] <= w)
            continue;
        width[i] = w;
        rules->verdict[i] = (unsigned char)verdict;
    }
    return 0;
}

int http_rules_read(struct http_rules *rules, const struct opt_list lists[HTTP_VERDICTS],
                    struct err *err)
{
    unsigned width[HTTP_STATUS_MAX + 1] = {0};
    *rules = (struct http_rules){{0}};
    for (unsigned v = 0; v < HTTP_VERDICTS; v++) {
        for (size_t i = 0; i < lists[v].n; i++) {
            struct http_range r;
            if (read_codes(&r, lists[v].v[i]) < 0)
                return err_set(
                    err,
                    "%s: \"%.40s\" is no status: write \"409\", \"200-204\" or "
                    "\"2xx\"",
                    list_names[v], lists[v].v[i]);
            if (enter(rules, width, &r, (enum http_verdict)v, err) < 0)
                return -1;
        }
    }
    return 0;
}

enum http_verdict http_rules_verdict(const struct http_rules *rules, long status)
{
    if (status < 0 || status > HTTP_STATUS_MAX)
        return HTTP_RETRY;
    return (enum http_verdict)rules->verdict[status];
}
