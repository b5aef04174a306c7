/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_message.h - the headers and the signature of an HTTP request for a delivery; reads
 * answers. Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_HTTP_MESSAGE_H
#define SINKS_HTTP_HTTP_MESSAGE_H

#include "bridge/plugin.h"
#include "sinks/http/http_opts.h"

/* "name: value" lines in curl's format. All zeros: empty. Reusable. */
struct http_lines {
    struct buf text;    /* each line ended by a NUL */
    struct buf offsets; /* size_t: where each begins */
};

struct http_signer;

/* Properties of a single request of a delivery (the first, or after a redirect). */
struct http_hop {
    bool without_body; /* a redirect changed it to a GET without payload */
    bool other_origin; /* not the origin of the first URL: send no credentials */
    bool
        unlisted_host;    /* a message named the host and allow_hosts does not contain it:
                           * send   no configured headers, no signature and no certificate */
    struct slice referer; /* empty: none */
    const struct http_signer *signer; /* NULL: do not sign */
    int64_t now_s;                    /* since 1970, for the signature */
};
/* Builds the header lines. Configured headers override those of the job. Returns how many
 * headers of the job were dropped because they are invalid in HTTP. */
unsigned http_lines_make(struct http_lines *lines, const struct delivery *d,
                         const struct http_opts *o, const struct http_hop *hop);
size_t http_lines_count(const struct http_lines *lines);
char *http_lines_at(const struct http_lines *lines, size_t i); /* valid until the next
                                                                * http_lines_make() */
void http_lines_free(struct http_lines *lines);

/* Is it a header that only the transport sets, such as Content-Length? */
bool http_is_transport_header(struct slice name);
/* webhook-id, webhook-timestamp, webhook-signature */
bool http_is_webhook_header(struct slice name);
/* Is it a JSON object whose "code" is the integer 100? Keys are case-insensitive; the
 * last one counts. */
bool http_is_code100(struct slice body);

enum http_redirect { HTTP_NO_REDIRECT, HTTP_AS_GET, HTTP_AS_IT_IS };
/* Returns how to follow a redirect with this status. */
enum http_redirect http_status_redirect(long status);

/* -------------------------------------------------------------------- http_sign.c
 *
 * Signatures of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md).
 * The signed text is ID.SECONDS.BODY. Use a signer in one thread only. */

/* keys: "whsec_" and 24 to 64 bytes in base64 for HMAC-SHA256 (v1); "whsk_" and an
 * ed25519 private key in base64, 32 bytes, or 64 with the public key, for ed25519 (v1a).
 * NULL: a key is invalid; err identifies it without showing it. */
struct http_signer *http_signer_new(const struct opt_list *keys, struct err *err);
void http_signer_free(struct http_signer *signer); /* signer may be NULL */

/* Appends the value of webhook-signature, one signature per key in the order of the keys.
 * id: value of webhook-id, without a dot. now_s: since 1970. */
void http_signer_add(const struct http_signer *signer, struct slice id, int64_t now_s,
                     struct slice body, struct buf *out);

#endif
