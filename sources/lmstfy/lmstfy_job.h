/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_job.h - ids, names, topics and attributes of lmstfy's jobs, and their JSON. No
 * clock, no I/O. Inputs are untrusted and may contain any bytes. All slices are borrowed.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_JOB_H
#define SOURCES_LMSTFY_LMSTFY_JOB_H

#include "bridge/plugin.h"

/* --- ids: a ULID whose last four bytes are the delay in seconds: 48 bits of time in ms,
 * 48 random bits, 32 bits of delay in little-endian order, as 26 digits of Crockford's
 * base 32. A leading "1" means that the job may have attributes. --- */

enum {
    LMSTFY_NAME_MAX = 255, /* bytes of a namespace's or a queue's name */
    LMSTFY_ULID = 26,
    LMSTFY_JOB_ID = LMSTFY_ULID + 1 /* maximum */
};

/* Writes an id without a NUL and returns it. */
struct slice lmstfy_job_id(int64_t now_ms, uint32_t delay_s, bool with_version,
                           char out[LMSTFY_JOB_ID]);
/* Writes an id without a delay. */
void lmstfy_new_ulid(int64_t now_ms, char out[LMSTFY_ULID]);
/* Returns the creation time, ms since 1970; -1: not an id of this format. */
int64_t lmstfy_id_ms(struct slice id);
/* Returns the first due time from creation time and delay, ms since 1970; 0: no delay;
 * -1: as above. */
int64_t lmstfy_id_due_ms(struct slice id);
/* Does it start with the "1"? */
bool lmstfy_id_has_version(struct slice id);
/* Converts sixteen bytes to 26 digits, and back. -1: invalid digit, or number too
 * large. */
void lmstfy_ulid_write(const unsigned char bytes[16], char out[LMSTFY_ULID]);
int lmstfy_ulid_read(const char text[LMSTFY_ULID], unsigned char bytes[16]);

/* --- names --- */

/* Accepts letters, digits, "-" and "_", at least one. Does not check the maximum
 * length. */
bool lmstfy_name_is_valid(struct slice name);
/* Splits "[POOL:]TOKEN" at the first colon. An absent or empty pool is "default". */
void lmstfy_split_token(struct slice text, struct slice *pool, struct slice *token);
/* Appends "[POOL:]TOKEN" as a JSON string. named: include the pool even if it is
 * "default". */
void lmstfy_add_token(struct buf *out, struct slice pool, struct slice token, bool named);
/* Appends the topic of a queue's jobs: "NS/QUEUE", or "POOL/NS/QUEUE" outside the pool
 * "default". */
void lmstfy_add_topic(struct buf *out, struct slice pool, struct slice ns,
                      struct slice queue);
/* Splits such a topic, for names of queue_list(). -1: not a topic of this form. */
int lmstfy_split_topic(struct slice topic, struct slice *pool, struct slice *ns,
                       struct slice *queue);
/* Compares like memcmp(); a prefix sorts first. */
int lmstfy_order(struct slice a, struct slice b);

/* --- attributes: headers Job-Attr-NAME of the publish request, stored as headers of the
 * job --- */

enum {
    LMSTFY_ATTRS = 16,      /* per job */
    LMSTFY_ATTR_NAME = 32,  /* bytes; longer names are truncated */
    LMSTFY_ATTR_VALUE = 128 /* bytes; longer values are truncated */
};
/* Adds a header of the request to the attributes of a job, which are sorted by name. Only
 * the first of each name counts; an empty value is ignored. If there are too many,
 * header_count becomes LMSTFY_ATTRS + 1. arg: struct job. */
void lmstfy_attr_add(void *arg, struct slice name, struct slice value);

/* --- JSON of a job in consume and peek --- */

/* Returns the ms since publishing, from the id or the job's timestamp; -1: unknown. */
int64_t lmstfy_elapsed_ms(const struct queue_job *found);
/* Appends {"attributes":...}. found->job must not be NULL. msg NULL: none. */
void lmstfy_item_show(struct buf *out, const struct queue_job *found, struct slice ns,
                      struct slice queue, unsigned remain_tries, const char *msg);
/* "namespace":"ns","queue":"q", */
void lmstfy_add_queue(struct buf *out, struct slice ns, struct slice queue);

/* --- parse entries of lmstfy's own lists, timer and keys (lmstfy_import.c) --- */

struct lmstfy_place {
    struct slice ns, queue, id;
    unsigned tries; /* tries left */
};
/* <u16 tries><u16 length>ID, little-endian. Sets id and tries. -1: invalid. */
int lmstfy_place_in_list(struct slice member, struct lmstfy_place *place);
/* <u16>NS<u16>QUEUE<u16 tries><u16>ID */
int lmstfy_place_in_timer(struct slice member, struct lmstfy_place *place);
/* PREFIX/NS/QUEUE, and /ID where with_id. */
int lmstfy_place_in_key(struct slice key, bool with_id, struct lmstfy_place *place);

#endif
