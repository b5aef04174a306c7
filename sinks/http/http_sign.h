/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_sign.h - signatures of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md).
 * What is signed is ID.SECONDS.BODY. Pure: no I/O. One thread per signer.
 */
#ifndef SINKS_HTTP_HTTP_SIGN_H
#define SINKS_HTTP_HTTP_SIGN_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/conf/opt.h"

#include <stdint.h>

struct http_signer;

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
