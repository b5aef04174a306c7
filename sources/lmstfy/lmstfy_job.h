/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_job.h - ids, names, topics and attributes of lmstfy's jobs, and a job as it is
 * shown. No clock, no I/O; what comes in is outside bytes: any content is fine. All
 * slices are borrowed.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_JOB_H
#define SOURCES_LMSTFY_LMSTFY_JOB_H

#include "bridge/plugin.h"

/* --- ids: a ULID whose last four bytes are the delay in seconds: 48 bits of time in ms,
 * 48 random ones, 32 of delay with the lowest byte first, as 26 digits of Crockford's
 * base
 * 32. A "1" before it says that the job may have attributes. --- */

enum {
    LMSTFY_NAME_MAX = 255, /* bytes of a namespace's or a queue's name */
    LMSTFY_ULID = 26,
    LMSTFY_JOB_ID = LMSTFY_ULID + 1 /* at most */
};

/* Random bytes fetched ahead. A zeroed one is ready. */
struct lmstfy_ids {
    unsigned char random[1024];
    size_t left; /* of them */
};

/* Writes an id, not ended by a NUL; gives it. */
struct slice lmstfy_job_id(struct lmstfy_ids *ids, int64_t now_ms, uint32_t delay_s,
                           bool with_version, char out[LMSTFY_JOB_ID]);
/* The same without a delay at its end. */
void lmstfy_new_ulid(struct lmstfy_ids *ids, int64_t now_ms, char out[LMSTFY_ULID]);
/* When it was made, ms since 1970; -1: not one of these ids. */
int64_t lmstfy_id_ms(struct slice id);
/* When its job was due first, by the delay at its end; 0: at once; -1: as above. */
int64_t lmstfy_id_due_ms(struct slice id);
/* Has it the "1" before it? */
bool lmstfy_id_has_version(struct slice id);
/* Sixteen bytes as 26 digits, and back. -1: not such digits, or too large a number. */
void lmstfy_ulid_write(const unsigned char bytes[16], char out[LMSTFY_ULID]);
int lmstfy_ulid_read(const char text[LMSTFY_ULID], unsigned char bytes[16]);

/* --- names --- */

/* Letters, digits, "-" and "_", at least one. Length is another matter. */
bool lmstfy_name_is_good(struct slice name);
/* "[POOL:]TOKEN": cuts at the first colon; no pool or an empty one is "default". */
void lmstfy_cut_token(struct slice text, struct slice *pool, struct slice *token);
/* Appends "[POOL:]TOKEN" as a JSON string; named: also where the pool is "default". */
void lmstfy_add_token(struct buf *out, struct slice pool, struct slice token, bool named);
/* Appends "POOL/NS/TOKEN": the field of tokens and limits. Neither pool nor namespace has
 * a "/", so that no other three give the same. */
void lmstfy_add_key(struct buf *out, struct slice pool, struct slice ns,
                    struct slice token);
/* Appends the topic under which a queue's jobs are submitted: "NS/QUEUE", with "POOL/"
 * before it in another pool than "default". */
void lmstfy_add_topic(struct buf *out, struct slice pool, struct slice ns,
                      struct slice queue);
/* The other way round, for names of queue_list(); -1: not one of ours. */
int lmstfy_cut_topic(struct slice topic, struct slice *pool, struct slice *ns,
                     struct slice *queue);
/* As memcmp(): a shorter one comes first. */
int lmstfy_order(struct slice a, struct slice b);

/* --- attributes: headers Job-Attr-NAME of the request that publishes a job, kept as the
 * job's headers --- */

enum {
    LMSTFY_ATTRS = 16,      /* of one job */
    LMSTFY_ATTR_NAME = 32,  /* bytes; the rest is cut off */
    LMSTFY_ATTR_VALUE = 128 /* likewise */
};
struct lmstfy_attr {
    char name[LMSTFY_ATTR_NAME];
    size_t name_n;
    struct slice value; /* the request's */
};
struct lmstfy_attrs {
    bool with_version; /* the client can take a job with attributes */
    bool too_many;
    unsigned n;
    struct lmstfy_attr v[LMSTFY_ATTRS]; /* by name */
};
/* One header of the request: the first of a name counts, an empty value is none. arg:
 * struct lmstfy_attrs. */
void lmstfy_attrs_take(void *arg, struct slice name, struct slice value);
void lmstfy_attrs_keep(const struct lmstfy_attrs *attrs, struct job *job);

/* --- a job as consume and peek show it --- */

/* Since it was published, by its id or its own time; -1: neither tells. */
int64_t lmstfy_elapsed_ms(const struct queue_job *found);
/* Appends {"attributes":...}; found->job must be there. msg: NULL: none. */
void lmstfy_item_show(struct buf *out, const struct queue_job *found, struct slice ns,
                      struct slice queue, unsigned remain_tries, const char *msg);
/* "namespace":"ns","queue":"q", */
void lmstfy_add_queue(struct buf *out, struct slice ns, struct slice queue);

/* --- where an entry of lmstfy's own lists, timer or keys leads (lmstfy_import.c) --- */

struct lmstfy_place {
    struct slice ns, queue, id;
    unsigned tries; /* that are left */
};
/* <u16 tries><u16 length>ID, little-endian; sets id and tries. -1: it is none. */
int lmstfy_place_in_list(struct slice member, struct lmstfy_place *place);
/* <u16>NS<u16>QUEUE<u16 tries><u16>ID */
int lmstfy_place_in_timer(struct slice member, struct lmstfy_place *place);
/* PREFIX/NS/QUEUE, and /ID where with_id. */
int lmstfy_place_in_key(struct slice key, bool with_id, struct lmstfy_place *place);

#endif
