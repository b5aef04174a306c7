/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_json.h - a message as JSON, in the two ways this API has always had.
 *
 * PLAIN, of all calls but the long poll: fields in the order of their declaration, null
 * where there is none, characters beyond U+FFFF as pairs of escapes. SORTED, of the long
 * poll and in text/plain: by name, without nulls, more control characters escaped.
 * Parsers see no difference. Pure.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_JSON_H
#define SOURCES_CAMELLIA_CAMELLIA_JSON_H

#include "bridge/base/buf.h"

#include <stdint.h>

enum camellia_json { CAMELLIA_PLAIN, CAMELLIA_SORTED };

enum camellia_status { /* of a message, by its numbers on the wire */
                       CAMELLIA_WAITING = 1,
                       CAMELLIA_READY = 2,
                       CAMELLIA_CONSUMING = 3,
                       CAMELLIA_ACKED = 4,
                       CAMELLIA_EXPIRED = 5, /* never delivered */
                       CAMELLIA_GIVEN_UP = 6,
                       CAMELLIA_DELETED = 7
};

struct camellia_msg {
    struct slice topic, id, msg;
    int64_t produce_ms, trigger_ms, expire_ms, max_retry, retry;
    enum camellia_status status;
};

void camellia_add_msg(struct buf *out, const struct camellia_msg *m,
                      enum camellia_json how);
/* With its quotes; what is not UTF-8 becomes U+FFFD. */
void camellia_add_text(struct buf *out, struct slice s, enum camellia_json how);
void camellia_add_int(struct buf *out, int64_t n);
/* Never without a fraction: 357.0. */
void camellia_add_real(struct buf *out, double x);

#endif
