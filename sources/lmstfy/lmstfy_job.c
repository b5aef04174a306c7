/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_job.h"
#include "bridge/base/text.h"

/* ----------------------------------------------------------------------------- ids */

enum { BITS = 5, TIME_BYTES = 6, RANDOM_BYTES = 6, ULID_BYTES = 16 };

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* Returns the value of a digit; -1: invalid. */
static int value_of(char c)
{
    const char *d = c ? strchr(digits, c) : NULL;
    return d ? (int)(d - digits) : -1;
}

/* 128 bits in 26 digits of 5 bits: the first digit contains only three. */
void lmstfy_ulid_write(const unsigned char bytes[ULID_BYTES], char out[LMSTFY_ULID])
{
    uint32_t bits = 0;
    int have = 2, n = 0; /* the two that are always zero */
    for (int i = 0; i < ULID_BYTES; i++) {
        bits = bits << 8 | bytes[i];
        for (have += 8; have >= BITS; have -= BITS)
            out[n++] = digits[bits >> (have - BITS) & 31];
    }
}

int lmstfy_ulid_read(const char text[LMSTFY_ULID], unsigned char bytes[ULID_BYTES])
{
    uint32_t bits = 0;
    int have = -2, n = 0;
    if (value_of(text[0]) > 7)
        return -1;
    for (int i = 0; i < LMSTFY_ULID; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return -1;
        bits = bits << BITS | (uint32_t)value;
        have += BITS;
        if (have >= 8) {
            have -= 8;
            bytes[n++] = (unsigned char)(bits >> have);
        }
    }
    return 0;
}

static void put_time(unsigned char bytes[ULID_BYTES], int64_t now_ms)
{
    for (int i = 0; i < TIME_BYTES; i++)
        bytes[i] = (unsigned char)(now_ms >> (8 * (TIME_BYTES - 1 - i)));
}

struct slice lmstfy_job_id(int64_t now_ms, uint32_t delay_s, bool with_version,
                           char out[LMSTFY_JOB_ID])
{
    unsigned char bytes[ULID_BYTES];
    size_t n = with_version ? 1 : 0;
    put_time(bytes, now_ms);
    text_random(bytes + TIME_BYTES, RANDOM_BYTES);
    for (int i = 0; i < 4; i++)
        bytes[TIME_BYTES + RANDOM_BYTES + i] = (unsigned char)(delay_s >> (8 * i));
    out[0] = '1';
    lmstfy_ulid_write(bytes, out + n);
    return (struct slice){out, LMSTFY_ULID + n};
}

void lmstfy_new_ulid(int64_t now_ms, char out[LMSTFY_ULID])
{
    unsigned char bytes[ULID_BYTES];
    put_time(bytes, now_ms);
    text_random(bytes + TIME_BYTES, ULID_BYTES - TIME_BYTES);
    lmstfy_ulid_write(bytes, out);
}

bool lmstfy_id_has_version(struct slice id)
{
    return id.n == LMSTFY_JOB_ID && id.p[0] == '1';
}

/* -1: not an id of this format. */
static int read_id(struct slice id, unsigned char bytes[ULID_BYTES])
{
    size_t skip = lmstfy_id_has_version(id) ? 1 : 0;
    return id.n - skip == LMSTFY_ULID ? lmstfy_ulid_read(id.p + skip, bytes) : -1;
}

int64_t lmstfy_id_ms(struct slice id)
{
    unsigned char bytes[ULID_BYTES];
    int64_t ms = 0;
    if (read_id(id, bytes) < 0)
        return -1;
    for (int i = 0; i < TIME_BYTES; i++)
        ms = ms << 8 | bytes[i];
    return ms;
}

int64_t lmstfy_id_due_ms(struct slice id)
{
    unsigned char bytes[ULID_BYTES];
    uint32_t delay_s = 0;
    if (read_id(id, bytes) < 0)
        return -1;
    for (int i = ULID_BYTES - 1; i >= TIME_BYTES + RANDOM_BYTES; i--)
        delay_s = delay_s << 8 | bytes[i];
    return delay_s > 0 ? lmstfy_id_ms(id) + (int64_t)delay_s * 1000 : 0;
}

/* --------------------------------------------------------------------------- names */

static const struct slice default_pool = {"default", sizeof("default") - 1};

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
}

bool lmstfy_name_is_valid(struct slice name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (!is_name_byte(name.p[i]))
            return false;
    }
    return name.n > 0;
}

void lmstfy_split_token(struct slice text, struct slice *pool, struct slice *token)
{
    struct slice rest = text, before = text_cut(&rest, ':');
    *pool = rest.p && before.n > 0 ? before : default_pool;
    *token = rest.p ? rest : text;
}

void lmstfy_add_token(struct buf *out, struct slice pool, struct slice token, bool named)
{
    struct buf text = {0};
    if (named || !slice_eq(pool, default_pool)) {
        buf_add_slice(&text, pool);
        buf_add_str(&text, ":");
    }
    buf_add_slice(&text, token);
    text_add_json_go(out, buf_slice(&text));
    buf_free(&text);
}

void lmstfy_add_topic(struct buf *out, struct slice pool, struct slice ns,
                      struct slice queue)
{
    if (!slice_eq(pool, default_pool)) {
        buf_add_slice(out, pool);
        buf_add(out, "/", 1);
    }
    buf_add_slice(out, ns);
    buf_add(out, "/", 1);
    buf_add_slice(out, queue);
}

int lmstfy_split_topic(struct slice topic, struct slice *pool, struct slice *ns,
                       struct slice *queue)
{
    struct slice part[3], rest = topic;
    unsigned n = 0;
    for (; rest.p && n < 3; n++) {
        part[n] = text_cut(&rest, '/');
        if (!lmstfy_name_is_valid(part[n]))
            return -1;
    }
    if (rest.p || n < 2)
        return -1;
    *pool = n == 3 ? part[0] : default_pool;
    *ns = part[n - 2];
    *queue = part[n - 1];
    return 0;
}

int lmstfy_order(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* ---------------------------------------------------------------------- attributes */

static const char prefix[] = "job-attr-";
enum { PREFIX = sizeof(prefix) - 1 };

void lmstfy_attr_add(void *arg, struct slice name, struct slice value)
{
    struct job *job = arg;
    char lower[LMSTFY_ATTR_NAME];
    struct slice attr = {lower, 0};
    unsigned at = job->header_count;
    int order = 1;
    if (value.n == 0 || name.n < PREFIX || strncasecmp(name.p, prefix, PREFIX) != 0 ||
        at > LMSTFY_ATTRS)
        return;
    for (; attr.n < name.n - PREFIX && attr.n < sizeof(lower); attr.n++) {
        char c = name.p[PREFIX + attr.n];
        lower[attr.n] = (char)(c | (c >= 'A' && c <= 'Z' ? 0x20 : 0));
    }
    while (at > 0 && (order = lmstfy_order(attr, job->headers[at - 1].name)) < 0)
        at--;
    if (order == 0)
        return;
    if (value.n > LMSTFY_ATTR_VALUE)
        value.n = LMSTFY_ATTR_VALUE;
    must(job_add_header(job, attr, value, NULL) == 0); /* far below a job's limits */
    struct header *headers = job->headers, added = headers[job->header_count - 1];
    memmove(headers + at + 1, headers + at,
            (job->header_count - 1 - at) * sizeof(*headers));
    headers[at] = added;
}

/* Appends the object, or null. */
static void add_attrs(struct buf *out, struct slice id, const struct job *job)
{
    if (!lmstfy_id_has_version(id) || job->header_count == 0) {
        buf_add(out, "null", 4);
        return;
    }
    for (unsigned i = 0; i < job->header_count; i++) {
        buf_add(out, i ? "," : "{", 1);
        text_add_json_go(out, job->headers[i].name);
        buf_add(out, ":", 1);
        text_add_json_go(out, job->headers[i].value);
    }
    buf_add(out, "}", 1);
}

/* --------------------------------------------------------------------- a job shown */

int64_t lmstfy_elapsed_ms(const struct queue_job *found)
{
    int64_t since_ms = lmstfy_id_ms(found->id);
    if (since_ms < 0 && found->job->timestamp_ms > 0)
        since_ms = found->job->timestamp_ms;
    if (since_ms < 0)
        return -1;
    return found->now_ms > since_ms ? found->now_ms - since_ms : 0;
}

/* Returns the remaining TTL, rounded to the nearest second like Redis' TTL; 0: does not
 * expire. Dead jobs do not expire.
 */
static int64_t seconds_left(const struct queue_job *found)
{
    if (found->expires_ms == 0 || found->state == QUEUE_DEAD ||
        found->expires_ms <= found->now_ms)
        return 0;
    return (found->expires_ms - found->now_ms + 500) / 1000;
}

void lmstfy_add_queue(struct buf *out, struct slice ns, struct slice queue)
{
    buf_add_str(out, "\"namespace\":\"");
    buf_add_slice(out, ns);
    buf_add_str(out, "\",\"queue\":\"");
    buf_add_slice(out, queue);
    buf_add_str(out, "\",");
}

void lmstfy_item_show(struct buf *out, const struct queue_job *found, struct slice ns,
                      struct slice queue, unsigned remain_tries, const char *msg)
{
    int64_t elapsed_ms = lmstfy_elapsed_ms(found);
    buf_add_str(out, "{\"attributes\":");
    add_attrs(out, found->id, found->job);
    buf_add_str(out, ",\"data\":\"");
    text_add_base64(out, found->job->payload);
    buf_addf(out, "\",\"elapsed_ms\":%lld,\"job_id\":",
             (long long)(elapsed_ms < 0 ? 0 : elapsed_ms));
    text_add_json_go(out, found->id);
    if (msg)
        buf_addf(out, ",\"msg\":\"%s\"", msg);
    buf_add(out, ",", 1);
    lmstfy_add_queue(out, ns, queue);
    buf_addf(out, "\"remain_tries\":%u,\"ttl\":%lld}",
             remain_tries > UINT16_MAX ? UINT16_MAX : remain_tries,
             (long long)seconds_left(found));
}
