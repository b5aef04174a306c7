/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_id.h - job ids: a ULID whose last four bytes are the delay in seconds.
 *
 * 48 bits of time in ms, 48 random ones, 32 of delay with the lowest byte first, as 26
 * digits of Crockford's base 32. A "1" before it says that the job may have attributes.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_ID_H
#define SOURCES_LMSTFY_LMSTFY_ID_H

#include "sources/lmstfy/lmstfy_api.h"

enum { LMSTFY_JOB_ID = LMSTFY_ULID + 1 }; /* at most */

/* Random bytes fetched ahead. A zeroed one is ready. */
struct lmstfy_ids {
    unsigned char random[1024];
    size_t left; /* of them */
};

/* Writes an id, not ended by a NUL; gives it. */
struct slice lmstfy_job_id(struct lmstfy_ids *ids, int64_t now_ms, uint32_t delay_s,
                           bool with_version, char out[LMSTFY_JOB_ID]);
/* When it was made, ms since 1970; -1: not one of these ids. */
int64_t lmstfy_id_ms(struct slice id);
/* When its job was due first, by the delay at its end; 0: at once; -1: as above. */
int64_t lmstfy_id_due_ms(struct slice id);
/* Has it the "1" before it? */
bool lmstfy_id_has_version(struct slice id);

/* Sixteen bytes as 26 digits, and back. -1: not such digits, or too large a number. */
void lmstfy_ulid_write(const unsigned char bytes[16], char out[LMSTFY_ULID]);
int lmstfy_ulid_read(const char text[LMSTFY_ULID], unsigned char bytes[16]);

#endif
