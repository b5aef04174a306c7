/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_rules.h - what the status of an answer means: the options delivered, retry, reject
 * and stop. Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_HTTP_RULES_H
#define SINKS_HTTP_HTTP_RULES_H

#include "bridge/base/mem.h"
#include "bridge/conf/opt.h"

enum http_verdict { HTTP_RETRY, HTTP_DELIVERED, HTTP_REJECT, HTTP_STOP };
enum { HTTP_VERDICTS = HTTP_STOP + 1 };

struct http_range {
    unsigned first, last;
};
/* "443" or "1024-65535", no number above most. -1: it is neither. */
int http_range_read(struct http_range *range, const char *text, unsigned most);

enum { HTTP_STATUS_MAX = 999 };
struct http_rules {
    unsigned char verdict[HTTP_STATUS_MAX + 1];
};
/* lists: one for each verdict, of codes, ranges and "2xx". Where two hold a status, the
 * narrower range counts; -1: they are equally narrow, or an entry is no code. */
int http_rules_read(struct http_rules *rules, const struct opt_list lists[HTTP_VERDICTS],
                    struct err *err);
/* What no list holds is tried again. */
enum http_verdict http_rules_verdict(const struct http_rules *rules, long status);

#endif
