/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_message.h - what of a delivery goes into an HTTP request, its signature, and what
 * the answer means. Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_HTTP_MESSAGE_H
#define SINKS_HTTP_HTTP_MESSAGE_H

#include "bridge/plugin.h"
#include "sinks/http/http_opts.h"

/* "name: value" lines in curl's form. A zeroed one is ready, and may be used again. */
struct http_lines {
    struct buf text;    /* each line ended by a NUL */
    struct buf offsets; /* size_t: where each begins */
};

struct http_signer;

/* What this request has of its own. */
struct http_hop {
    bool bodyless; /* a redirect made it a GET without the payload */
    bool foreign;  /* not the first URL's origin: no credentials go there */
    bool stranger; /* a message named the host, and allow_hosts does not: no headers of
                      the operator, no signature and no certificate go there */
    struct slice referer;             /* n 0: none */
    const struct http_signer *signer; /* NULL: it is not signed */
    int64_t now_s;                    /* since 1970, for the signature */
};
/* The operator's headers win over the job's. Gives how many headers of the job were left
 * out because they cannot stand in HTTP. */
unsigned http_lines_make(struct http_lines *lines, const struct delivery *d,
                         const struct http_opts *o, const struct http_hop *hop);
size_t http_lines_count(const struct http_lines *lines);
char *http_lines_at(const struct http_lines *lines, size_t i); /* until the next make */
void http_lines_free(struct http_lines *lines);

/* Is it the transport's own, as Content-Length is, and for nobody else to set? */
bool http_is_transport_header(struct slice name);
/* webhook-id, webhook-timestamp, webhook-signature */
bool http_is_webhook_header(struct slice name);
/* Is it a JSON object whose code is the integer 100? Keys match without regard to case,
 * the last one counts. */
bool http_is_code100(struct slice body);

enum http_redirect { HTTP_NO_REDIRECT, HTTP_AS_GET, HTTP_AS_IT_IS };
/* What the status makes of a request whose answer names another place. */
enum http_redirect http_status_redirect(long status);

/* -------------------------------------------------------------------- http_sign.c
 *
 * Signatures of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md).
 * What is signed is ID.SECONDS.BODY. One thread per signer. */

/* keys: "whsec_" and 24 to 64 bytes in base64 sign by HMAC-SHA256 (v1); "whsk_" and an
 * ed25519 private key in base64, 32 bytes or 64 with its public half, by ed25519 (v1a).
 * NULL: one of them is bad, err says which without showing it. */
struct http_signer *http_signer_new(const struct opt_list *keys, struct err *err);
void http_signer_free(struct http_signer *signer); /* NULL is fine */

/* Appends the value of webhook-signature, one signature per key in the order of the keys.
 * id: of webhook-id, without a dot. */
void http_signer_add(const struct http_signer *signer, struct slice id, int64_t now_s,
                     struct slice body, struct buf *out);

#endif
