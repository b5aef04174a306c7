/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_source.h - what the files of the http source share.
 */
#ifndef SOURCES_HTTP_HTTP_SOURCE_H
#define SOURCES_HTTP_HTTP_SOURCE_H

#include "bridge/http/httpd.h"
#include "bridge/plugin.h"

struct http_source { /* the arg of every handler */
    struct source *src;
    bool paused;
};

/* 503 with Retry-After. */
void http_answer_busy(struct httpd_req *req, const char *why);

#endif
